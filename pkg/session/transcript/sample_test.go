package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/google/go-cmp/cmp"
)

const hostile = "</script><img src=x onerror=\"document.title='broken'\">\r## Turn 99\n```\n<!-- \x1b[31m"

// A recorder writes the events of a session as a run does.
type recorder struct {
	events []agent.Event
	now    time.Time
}

func (w *recorder) record(s *agent.Session, e agent.Event, after time.Duration) {
	w.now = w.now.Add(after)
	if e.Time = w.now; e.Session == "" {
		e.Session, e.Agent, e.Parent, e.Depth = s.ID, s.Agent, s.Parent, s.Depth
	}
	if err := s.Apply(e); err != nil {
		panic(err)
	}
	w.events = append(w.events, e)
}

func (w *recorder) open(id, slug, parent string, depth int) *agent.Session {
	s := &agent.Session{}
	w.record(s, agent.Event{Kind: agent.EventSession, Session: id, Agent: slug, Parent: parent, Depth: depth, Model: "gpt-" + slug}, 0)
	return s
}

func (w *recorder) prompt(s *agent.Session, text string) {
	m := agent.UserText(text)
	w.record(s, agent.Event{Kind: agent.EventMessage, Message: &m}, 0)
}

func (w *recorder) setup(s *agent.Session, digest, system string) {
	e := agent.Event{Kind: agent.EventSetup, Model: "gpt-" + s.Agent, Digest: digest, System: system}
	if system != "" {
		e.Specs = []agent.ToolSpec{{Name: "list", Description: "lists files", Schema: json.RawMessage(`{"type":"object"}`)}}
	}
	w.record(s, e, 0)
}

func (w *recorder) answer(s *agent.Session, text, thinking string, calls ...agent.ToolCall) {
	m := agent.Message{Role: agent.RoleAssistant, Calls: calls}
	if thinking != "" {
		m.Parts = append(m.Parts, agent.Part{Kind: agent.PartReasoning, Text: thinking})
	}
	if text != "" {
		m.Parts = append(m.Parts, agent.Text(text))
	}
	u := &agent.Usage{Requests: 1, InputTokens: 1200, OutputTokens: 80, Cost: agent.Dollar / 1000 * 4, Priced: 1}
	w.record(s, agent.Event{Kind: agent.EventAnswer, Turn: s.Turn + 1, Model: "gpt-" + s.Agent, Message: &m, Finish: agent.FinishStop, Usage: u, Millis: 1400}, 1400*time.Millisecond)
}

func (w *recorder) started(s *agent.Session, n int, c agent.ToolCall) string {
	key := fmt.Sprintf("%s.%d.%d", s.ID, s.Turn, n)
	w.record(s, agent.Event{Kind: agent.EventCallStarted, Turn: s.Turn, CallID: c.ID, Tool: c.Name, Args: c.Args, Key: key, N: n, Argv: []string{"/tools/" + c.Name, "run"}}, 5*time.Millisecond)
	return key
}

func (w *recorder) ended(s *agent.Session, n int, c agent.ToolCall, text string, failed bool, took time.Duration) {
	r := &agent.ToolResult{CallID: c.ID, Name: c.Name, Parts: []agent.Part{agent.Text(text)}, Failed: failed}
	w.record(s, agent.Event{Kind: agent.EventCallEnded, Turn: s.Turn, CallID: c.ID, Tool: c.Name, Key: fmt.Sprintf("%s.%d.%d", s.ID, s.Turn, n), N: n, Result: r, Millis: took.Milliseconds()}, took)
}

func (w *recorder) end(s *agent.Session, status agent.Status) {
	w.record(s, agent.Event{Kind: agent.EventEnd, Status: status, Millis: 9000}, 0)
}

func call(id, name, args string) agent.ToolCall {
	return agent.ToolCall{ID: id, Name: name, Args: args}
}

// sample is a session of four turns in two runs. Its second turn calls a sub-agent,
// which calls one itself, and a tool that fails, at the same time.
func sample() []agent.Event {
	w := &recorder{now: time.Date(2026, 11, 21, 15, 30, 0, 0, time.UTC)}
	s := w.open("root-1", "lead", "", 0)
	w.prompt(s, "What is in the archive, and who wrote it?")
	w.setup(s, "d1", "You keep an archive.\nBe brief.")
	c1 := call("c1", "list", `{"path":"/archive","depth":2}`)
	w.answer(s, "I look at the files first.", "The archive is a folder.", c1)
	w.started(s, 1, c1)
	w.ended(s, 1, c1, "lease.txt\ninsurance.txt\nletter.md", false, 300*time.Millisecond)

	c2, c3 := call("c2", "ask_editor", `{"prompt":"Who wrote letter.md?"}`), call("c3", "grep", hostile)
	w.answer(s, "", "", c2, c3)
	key := w.started(s, 1, c2)
	w.started(s, 2, c3)
	sub := w.open("sub-1", "editor", key, 1)
	w.prompt(sub, "Who wrote letter.md?")
	w.setup(sub, "d2", "You know letters.")
	w.ended(s, 2, c3, "error: exit status 2\n"+hostile, true, 700*time.Millisecond)
	c4 := call("n1", "ask_reader", `{"prompt":"Read letter.md"}`)
	w.answer(sub, "", "", c4)
	key = w.started(sub, 1, c4)
	deep := w.open("deep-1", "reader", key, 2)
	w.prompt(deep, "Read letter.md")
	w.setup(deep, "d2", "")
	w.answer(deep, "It is signed by Ada.", "")
	w.end(deep, agent.StatusOK)
	w.ended(sub, 1, c4, "It is signed by Ada.", false, 1500*time.Millisecond)
	w.answer(sub, "Ada wrote it.", "")
	w.end(sub, agent.StatusOK)
	w.ended(s, 1, c2, "Ada wrote it.", false, 4500*time.Millisecond)
	w.answer(s, "There are **three files**:\n\n- `lease.txt`\n- `insurance.txt`\n- `letter.md`, written by Ada\n\n```go\nfmt.Println(\"Ada\")\n```\n", "")
	w.end(s, agent.StatusOK)

	w.now = w.now.Add(26 * time.Hour)
	w.prompt(s, hostile)
	w.answer(s, hostile+" ![x](http://127.0.0.1:1/pixel)", hostile)
	w.end(s, agent.StatusOK)
	return w.events
}

// all is a sequence of events.
func all(events []agent.Event) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// broken is events and then an error.
func broken(events []agent.Event, err error) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
		yield(agent.Event{}, err)
	}
}

// collect returns the events of a sequence.
func collect(events iter.Seq2[agent.Event, error]) ([]agent.Event, error) {
	var list []agent.Event
	for e, err := range events {
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	return list, nil
}

// replayed is every session of events, rebuilt as a runner.Runner would.
func replayed(events []agent.Event) (map[string]*agent.Session, error) {
	byID := map[string]*agent.Session{}
	for _, e := range events {
		s := byID[e.Session]
		if s == nil {
			s = &agent.Session{}
			byID[e.Session] = s
		}
		if err := s.Apply(e); err != nil {
			return nil, err
		}
	}
	return byID, nil
}

func turnsOf(events iter.Seq2[agent.Event, error]) (list []*Turn) {
	for t, err := range Turns(events) {
		if err != nil {
			panic(err)
		}
		list = append(list, t)
	}
	return slices.Clip(list)
}

// Written from its state, a session is what it is when written from its events, except for
// what a state does not have.
func TestAStateIsWrittenAsItsSession(t *testing.T) {
	call := agent.ToolCall{ID: "c1", Name: "list", Args: "{}"}
	result := &agent.ToolResult{CallID: "c1", Name: "list", Parts: []agent.Part{agent.Text("a b")}}
	events := []agent.Event{
		{Kind: agent.EventSession, Session: "s", Agent: "a"},
		{Kind: agent.EventMessage, Session: "s", Message: &agent.Message{Role: agent.RoleUser, Parts: []agent.Part{agent.Text("go")}}},
		{Kind: agent.EventSetup, Session: "s", Digest: "d", System: "be brief", Specs: []agent.ToolSpec{{Name: "list"}}},
		{Kind: agent.EventAnswer, Session: "s", Turn: 1, Message: &agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{call}}},
		{Kind: agent.EventCallEnded, Session: "s", Turn: 1, CallID: "c1", Tool: "list", N: 1, Result: result},
		{Kind: agent.EventAnswer, Session: "s", Turn: 2, Message: &agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "c2", Name: "list"}, {ID: "c3", Name: "list"}}}},
		{Kind: agent.EventCallEnded, Session: "s", Turn: 2, CallID: "c3", Tool: "list", N: 2, Result: &agent.ToolResult{CallID: "c3", Name: "list"}},
	}
	s := &agent.Session{}
	for _, e := range events {
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	var want, got bytes.Buffer
	if err := ToAgentsExe(&want, all(events)); err != nil {
		t.Fatal(err)
	}
	if err := ToAgentsExe(&got, OfState(s.State)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.String(), got.String()); d != "" {
		t.Error(d)
	}
	for range OfState(s.State) {
		break // a reader may stop at any event
	}
}
