package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

func TestEveryMessageIsReadOrReported(t *testing.T) {
	for round := range 30 {
		leaf := newAgent(byTurn("", calls(call("", "echo", `{"n":1}`)), calls(call("", "echo", `{"n":2}`)), text("done")), echo("echo"))
		root := newAgent(byTurn("", calls(call("", "leaf", `{"prompt":"1"}`), call("", "leaf", `{"prompt":"2"}`)), text("done")), &agent.Subagent{Name: "leaf", Agent: leaf})
		r := &runner.Runner{Agent: root}
		c := r.Start(t.Context(), startOf())
		var senders sync.WaitGroup
		var sent atomic.Int64
		read, late := 0, 0
		for e := range c.Events() {
			switch {
			case e.Kind == agent.EventSession:
				for range 4 {
					senders.Go(func() {
						for range round {
							m := agent.UserText("m")
							if r.Direct(agent.Directive{Session: e.Session, Message: &m}) {
								sent.Add(1)
							}
						}
					})
				}
			case e.Kind == agent.EventMessage && e.Input:
				read++
			case e.Kind == agent.EventWarning:
				n := 1
				_, _ = fmt.Sscan(e.Text, &n) // "a message" is one
				late += n
			}
		}
		senders.Wait()
		if int64(read+late) != sent.Load() {
			t.Fatalf("round %d: %d messages were taken, %d read and %d reported as late", round, sent.Load(), read, late)
		}
		if _, err := c.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOneOfTwoAgentsIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := tool{"hang", func(ctx context.Context, _ *agent.Invocation) (agent.Result, error) {
			<-ctx.Done()
			return agent.Result{}, agent.ContextError(ctx)
		}}
		leaf := newAgent(providerFunc(func(req *agent.Request) (*agent.Response, error) {
			if req.Messages[0].Text() == "hang" {
				return calls(call("", "hang", "{}")), nil
			}
			return text("here I am"), nil
		}), hang)
		leaf.Slug = "leaf"
		m := byTurn("", calls(call("", "leaf", `{"prompt":"hang"}`), call("", "leaf", `{"prompt":"work"}`)), text("done"))
		r := &runner.Runner{Agent: newAgent(m, &agent.Subagent{Name: "leaf", Agent: leaf})}
		c := r.Start(t.Context(), startOf())
		var results []string
		for e := range c.Events() {
			switch {
			case e.Kind == agent.EventCallStarted && e.Tool == "hang":
				c.Direct(agent.Directive{Session: e.Session, Stop: true})
			case e.Kind == agent.EventCallEnded && e.Depth == 0:
				results = append(results, fmt.Sprint(e.N, " ", e.Result.Failed, " ", e.Result.Text()))
			}
		}
		got := strings.Join(results, "\n")
		if _, err := c.Wait(); err != nil || !strings.Contains(got, "1 true [interrupted] agent leaf did not answer: a person stopped it") || !strings.Contains(got, "2 false here I am") {
			t.Errorf("Wait = %v; the results are\n%s", err, got)
		}
	})
}

func TestAPromptAfterAStoppedRunIsNotLost(t *testing.T) {
	m := &model{answers: []*agent.Response{calls(call("a", "echo", `{"n":1}`)), text("done")}}
	a := newAgent(m, echo("echo"))
	a.MaxTurns = 1
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &runner.Runner{Agent: a, Observe: func(e agent.Event) {
		if e.Kind == agent.EventCallEnded {
			cancel()
		}
	}}
	if _, err := r.Run(ctx, agent.UserText("first")); agent.StatusOf(err) != agent.StatusInterrupted {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, last string }{{"", "first"}, {`{"prompt":"second"}`, "second"}} {
		state, _ := json.Marshal(r.Session())
		var session agent.Session
		if err := json.Unmarshal(state, &session); err != nil {
			t.Fatal(err)
		}
		c := (&runner.Runner{Agent: a, From: &runner.Resume{Session: &session}}).Start(t.Context(), agent.Start{Channel: 1, Session: session.ID, Args: json.RawMessage(tt.args)})
		if out, err := c.Wait(); err != nil || out.Answer != "done" {
			t.Errorf("%q: %+v, %v", tt.args, out, err)
		}
		said := ""
		for _, m := range session.Messages {
			if m.Role == agent.RoleUser {
				said = m.Text()
			}
		}
		if said != tt.last {
			t.Errorf("%q: the last that the person said is %q", tt.args, said)
		}
	}
}

// talked is the session of a conversation with long results, and its journal.
func talked(t *testing.T, a *agent.Agent, j *journal) *agent.Session {
	t.Helper()
	r := &runner.Runner{Agent: a, Journal: j}
	if _, err := r.Run(t.Context(), agent.UserText("read everything")); err != nil {
		t.Fatal(err)
	}
	return r.Session()
}

func TestAConversationIsShortenedBetweenRuns(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prompt  string
		noAuto  bool
		fails   bool
		kinds   string
		status  agent.Status
		summary bool // of the next request, is its first message one
	}{
		{"alone", "", false, false, "resume compaction end", agent.StatusOK, true},
		{"of an agent that never does it by itself", "", true, false, "resume compaction end", agent.StatusOK, true},
		{"before a prompt", `{"prompt":"go on"}`, false, false, "message compaction answer end", agent.StatusOK, true},
		{"the model fails", "", false, true, "resume failure end", agent.StatusFailed, false},
		{"the model fails before a prompt", `{"prompt":"go on"}`, false, true, "message failure answer end", agent.StatusOK, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &counting{turns: 10, summary: "read a lot"}
			if tt.fails {
				m.summary = " "
			}
			a := newAgent(m, reader(800))
			a.LoopEnd, a.NoCompaction = -1, tt.noAuto
			j := &journal{}
			session := talked(t, a, j)
			before, size := len(j.events), messages(session)
			start := agent.Start{Channel: 1, Session: session.ID, Compact: true, Args: json.RawMessage(tt.prompt)}
			c := (&runner.Runner{Agent: a, Journal: j, From: &runner.Resume{Session: session}}).Start(t.Context(), start)
			for range c.Events() {
			}
			out, _ := c.Wait()
			var kinds []string
			for _, e := range j.events[before:] {
				kinds = append(kinds, string(e.Kind))
			}
			if got := strings.Join(kinds, " "); got != tt.kinds || out.Status != tt.status {
				t.Fatalf("%s, status %s; want %s, %s", got, out.Status, tt.kinds, tt.status)
			}
			if shorter := messages(session) < size/2; shorter == tt.fails || session.Running {
				t.Errorf("%d bytes of %d remain; running: %t", messages(session), size, session.Running)
			}
			if _, err := (&runner.Runner{Agent: a, Journal: j, From: &runner.Resume{Session: session}}).Run(t.Context(), agent.UserText("and now?")); err != nil {
				t.Fatal(err)
			}
			first := m.asked[len(m.asked)-1].Messages[0].Text()
			if strings.Contains(first, "read a lot") != tt.summary {
				t.Errorf("the next request begins with %q", first)
			}
			sameSession(t, j, session)
		})
	}
}

// sameSession compares a session with that of its journal.
func sameSession(t *testing.T, j *journal, want *agent.Session) {
	t.Helper()
	var s agent.Session
	for _, e := range j.events {
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := json.Marshal(&s)
	if live, _ := json.Marshal(want); string(got) != string(live) {
		t.Errorf("the journal gives\n%s\nwant\n%s", got, live)
	}
}

func messages(s *agent.Session) int {
	text, _ := json.Marshal(s.Messages)
	return len(text)
}

func TestAShortConversationStaysAsItIs(t *testing.T) {
	a := newAgent(byTurn("", text("done")))
	session := talked(t, a, &journal{})
	before := messages(session)
	var warnings []string
	r := &runner.Runner{Agent: a, From: &runner.Resume{Session: session}, Observe: func(e agent.Event) {
		if e.Kind == agent.EventWarning {
			warnings = append(warnings, e.Text)
		}
	}}
	out, err := r.Compact(t.Context())
	if err != nil || out.Answer != "" || messages(session) != before || len(warnings) != 1 {
		t.Errorf("Compact = %+v, %v; warnings %q", out, err, warnings)
	}
	if _, err := (&runner.Runner{Agent: a}).Compact(t.Context()); err == nil {
		t.Error("a session without a conversation was shortened")
	}
}

func TestAStoppedRunIsNotContinuedByShorteningIt(t *testing.T) {
	m := &counting{turns: 10, summary: "read a lot"}
	a := newAgent(m, reader(800))
	a.LoopEnd, a.MaxTurns = -1, 5
	r := &runner.Runner{Agent: a}
	if _, err := r.Run(t.Context(), agent.UserText("read everything")); agent.StatusOf(err) != agent.StatusLimit {
		t.Fatal(err)
	}
	asked := len(m.asked)
	out, err := (&runner.Runner{Agent: a, From: &runner.Resume{Session: r.Session()}}).Compact(t.Context())
	if err != nil || out.Status != agent.StatusOK || len(m.asked) != asked+1 || !m.asked[asked].Summary {
		t.Errorf("Compact = %+v, %v, after %d requests", out, err, len(m.asked)-asked)
	}
}

func TestAConversationIsShortenedDuringARun(t *testing.T) {
	for _, turn := range []int{6, 11} { // in the middle, and with the last answer
		m := &counting{turns: 10, summary: "read a lot"}
		a := newAgent(m, reader(800))
		a.LoopEnd = -1
		j := &journal{}
		r := &runner.Runner{Agent: a, Journal: j}
		r.Observe = func(e agent.Event) {
			if e.Kind == agent.EventRequest && e.Turn == turn && !e.Summary {
				r.Direct(agent.Directive{Compact: true})
			}
		}
		out, err := r.Run(t.Context(), agent.UserText("read everything"))
		if err != nil || out.Answer != "the end" || strings.Count(j.kinds(), "compaction") != 1 {
			t.Errorf("turn %d: Run = %+v, %v: %s", turn, out, err, j.kinds())
		}
		sameSession(t, j, r.Session())
	}
}
