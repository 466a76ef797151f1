package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A model answers each request as a pure function of what is in it, so that a
// request which is sent again gets the same answer.
type model func(req *agent.Request) *agent.Response

func (m model) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	return m(req), nil
}

func calls(list ...agent.ToolCall) *agent.Response {
	return &agent.Response{Message: agent.Message{Calls: list}, Usage: agent.Usage{InputTokens: 10, OutputTokens: 3, Cost: agent.Dollar / 4, Priced: 1}}
}

func text(s string) *agent.Response {
	return &agent.Response{Message: agent.Message{Parts: []agent.Part{agent.Text(s)}}, Usage: agent.Usage{InputTokens: 20, OutputTokens: 5}}
}

func call(id, name, args string) agent.ToolCall {
	return agent.ToolCall{ID: id, Name: name, Args: args}
}

// A tool calls run and notes the Key of the call.
type tool struct {
	name    string
	effects agent.Effects
	run     func(inv *agent.Invocation) agent.Result
}

func (t tool) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: t.name, Description: "does " + t.name, Schema: []byte(`{"type":"object"}`), Effects: t.effects, Source: "test/" + t.name}
}

func (t tool) Call(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
	return t.run(inv), nil
}

// An effects list is what calls did to the world.
type effects struct {
	mu   sync.Mutex
	keys []string
	kept func(key string) // in place of keys, if it is not nil
}

func (f *effects) tool(name string, declared agent.Effects) tool {
	return tool{name, declared, func(inv *agent.Invocation) agent.Result {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.kept != nil {
			f.kept(inv.Key)
		} else {
			f.keys = append(f.keys, inv.Key)
		}
		return agent.TextResult("did " + inv.Call.Args)
	}}
}

// newTree is an agent with an expert; both call tools, several at a time.
func newTree(f *effects) *agent.Agent {
	once, idem := f.tool("once", agent.EffectsOnce), f.tool("idem", agent.EffectsIdempotent)
	big := tool{"big", agent.EffectsNone, func(*agent.Invocation) agent.Result {
		return agent.Result{Parts: []agent.Part{
			{Kind: agent.PartMedia, MIME: "text/plain", Name: "a.txt", Data: []byte(strings.Repeat("long line \"quoted\"\n", 5000))},
			{Kind: agent.PartMedia, MIME: "image/png", Name: "a.png", Data: make([]byte, 70_000)},
		}}
	}}
	expert := &agent.Agent{Slug: "expert", Model: "m2", Toolsets: []agent.Toolset{agent.ToolList{once, idem}}}
	expert.Provider = model(func(req *agent.Request) *agent.Response {
		if len(req.Messages) == 1 {
			return calls(call("e1", "once", `{"n":"e1"}`), call("e2", "idem", `{"n":"e2"}`))
		}
		return text("expert says é\u2028\x01<>&")
	})
	root := &agent.Agent{Slug: "root", System: "be good", Model: "m1", Toolsets: []agent.Toolset{agent.ToolList{
		once, idem, big, &agent.Subagent{Name: "ask_expert", Agent: expert}}}}
	root.Provider = model(func(req *agent.Request) *agent.Response {
		switch len(req.Messages) {
		case 1:
			return calls(call("a", "once", `{"n":"a"}`), call("b", "idem", `{"n":"b"}`), call("c", "ask_expert", `{"prompt":"q"}`))
		case 3:
			return calls(call("d", "once", `{"n":"d"}`), call("", "big", ""))
		}
		return text("all done")
	})
	return root
}

// run takes the tree through one run.
func run(t *testing.T, j agent.Journal, newID func() string) *runner.Runner {
	t.Helper()
	r := &runner.Runner{Agent: newTree(&effects{}), Journal: j, NewID: newID}
	if _, err := r.Run(t.Context(), agent.UserText("go\nand do it")); err != nil {
		t.Fatal(err)
	}
	return r
}

// closedSession makes a session that was closed and returns its folder.
func closedSession(t *testing.T) string {
	t.Helper()
	j := session.Create(filepath.Join(t.TempDir(), "sessions"), session.Options{})
	run(t, j, session.NewID)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return j.Path()
}

func open(t *testing.T, path string) (*session.Journal, *session.Past) {
	t.Helper()
	j, past, err := session.Open(path, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j, past
}

// same compares two sessions in everything but empty and absent lists.
func same(t *testing.T, live, replayed *agent.Session) {
	t.Helper()
	if diff := difference(live, replayed); diff != "" {
		t.Errorf("replay differs (-live +replayed):\n%s", diff)
	}
}

func difference(live, replayed *agent.Session) string {
	return cmp.Diff(live, replayed, cmp.AllowUnexported(agent.Session{}), everything, quickly, cmpopts.EquateEmpty())
}

// quickly compares long contents without looking at each byte by reflection.
var quickly = cmp.FilterValues(func(a, b []byte) bool { return len(a) > 0 || len(b) > 0 }, cmp.Comparer(bytes.Equal))

var everything = cmp.Exporter(everyType)

func collect(t *testing.T, events iter.Seq2[agent.Event, error]) []agent.Event {
	t.Helper()
	var list []agent.Event
	for e, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func everyType(reflect.Type) bool { return true }

func TestReplayEqualsLive(t *testing.T) {
	for _, one := range []bool{false, true} {
		t.Run(fmt.Sprintf("one file %v", one), func(t *testing.T) {
			j := session.Create(filepath.Join(t.TempDir(), "new", "sessions"), session.Options{})
			if one {
				j = session.CreateFile(filepath.Join(t.TempDir(), "one.jsonl"), session.Options{})
			}
			r := run(t, j, session.NewID)
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			again, past := open(t, j.Path())
			same(t, r.Session(), past.Session)
			if past.CutBytes != 0 || len(past.Pending) != 0 || len(past.Started) != 0 || past.Total.Usage.Requests != 0 {
				t.Errorf("a finished session left %+v", past)
			}
			if again.ID() != r.Session().ID {
				t.Errorf("ID = %q, want %q", again.ID(), r.Session().ID)
			}
		})
	}
}

// testdata/version1.jsonl was written before a journal noted its process and its
// folder, by an encoder that formed lines a little differently.
func TestAJournalOfAnEarlierVersionOpens(t *testing.T) {
	old, err := os.ReadFile(filepath.Join("testdata", "version1.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "old.jsonl")
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	if i, err := session.Inspect(path); err != nil || i.Turns != 3 || i.Usage.Requests != 5 || i.Prompt != "go" || i.Dir != "" {
		t.Errorf("Inspect = %+v, %v", i, err)
	}
	events := collect(t, session.Events(path))
	j, past := open(t, path)
	if last, ok := past.Session.Answer(); !ok || last.Text() != "all done" || past.OwnerPID != 0 || past.CutBytes != 0 {
		t.Errorf("Open = %+v", past)
	}
	prompt := agent.UserText("and more")
	more := agent.Event{Kind: agent.EventMessage, Session: past.Session.ID, Message: &prompt}
	if err := errors.Join(j.Append(t.Context(), more), j.Close()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(append(events, more), collect(t, session.Events(path)), quickly); diff != "" {
		t.Errorf("after one more event (-want +got):\n%s", diff)
	}
	b, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(b, old) {
		t.Errorf("the old lines were changed (%v)", err)
	}
}

// TestWhatWasConsumedIsCountedOnce cuts a session at every event and resumes it: each
// agent of the tree consumed as much as if its process had not died.
func TestWhatWasConsumedIsCountedOnce(t *testing.T) {
	look := tool{"look", agent.EffectsNone, func(*agent.Invocation) agent.Result { return agent.TextResult("seen") }}
	newTree := func() *agent.Agent {
		var above agent.Tool = look
		var a *agent.Agent
		for _, slug := range []string{"deepest", "deep", "root"} {
			a = &agent.Agent{Slug: slug, Model: slug, Toolsets: []agent.Toolset{agent.ToolList{above}}}
			name := above.Spec().Name
			a.Provider = model(func(req *agent.Request) *agent.Response {
				if req.Turn > 1 {
					return text(fmt.Sprint(slug, req.Turn))
				}
				return calls(call("", name, `{"prompt":"q"}`))
			})
			above = &agent.Subagent{Name: "ask_" + slug, Agent: a}
		}
		return a
	}
	accept := func(_ context.Context, answer string) (string, error) {
		if answer == "root2" {
			return "", errors.New("it is short")
		}
		return answer, nil
	}
	ends := func(path string) (list []string) {
		lost := map[int]agent.Usage{} // by requests in progress when the process died, by depth
		for _, e := range collect(t, session.Events(path)) {
			if e.Kind == agent.EventResume && e.Usage != nil {
				for depth := range e.Depth + 1 {
					lost[depth] = lost[depth].Add(*e.Usage)
				}
			}
			if e.Kind == agent.EventEnd {
				list = append(list, fmt.Sprint(e.Agent, e.Total.Usage.Sub(lost[e.Depth]), len(e.Total.Agents), e.Total.Tools["look"].Calls, e.Total.Tools["ask_deepest"].Calls))
			}
		}
		return list
	}
	full := session.CreateFile(filepath.Join(t.TempDir(), "full.jsonl"), session.Options{})
	if _, err := (&runner.Runner{Agent: newTree(), Journal: full, Accept: accept}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if err := full.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(full.Path())
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	for n := 3; n < len(lines)-3; n++ {
		path := filepath.Join(t.TempDir(), "cut.jsonl")
		if err := os.WriteFile(path, bytes.Join(lines[:n], nil), 0o600); err != nil {
			t.Fatal(err)
		}
		j, past := open(t, path)
		r := &runner.Runner{Agent: newTree(), Journal: j, From: &past.Resume, Accept: accept}
		if _, err := r.Resume(t.Context()); err != nil {
			t.Fatalf("resumed after %d lines: %v", n, err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ends(full.Path()), ends(path)); diff != "" {
			t.Errorf("resumed after %d lines, what each agent consumed (-want +got):\n%s", n, diff)
		}
	}
}
