package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
)

// stoppable is a model whose first answer does not end: it sends pieces and waits until its ctx is
// done.
type stoppable struct {
	pieces   []agent.Delta
	sent     chan struct{} // closed after the pieces
	requests []*agent.Request
}

func (s *stoppable) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	s.requests = append(s.requests, req)
	if len(s.requests) > 1 {
		return text("whole"), nil
	}
	for _, d := range s.pieces {
		delta(d)
	}
	close(s.sent)
	<-ctx.Done()
	return nil, errors.New("the connection was closed")
}

const stoppedHere = "\n\n[This answer was stopped here.]"

// said returns a conversation as one line for each message.
func said(list []agent.Message) (lines []string) {
	for _, m := range list {
		lines = append(lines, string(m.Role)+": "+m.Text())
	}
	return lines
}

func TestWhatHadArrivedOfAStoppedAnswerStays(t *testing.T) {
	textDelta := func(s string) agent.Delta { return agent.Delta{Kind: agent.DeltaText, Text: s} }
	thought := agent.Delta{Kind: agent.DeltaReasoning, Text: "hm"}
	retry := agent.Delta{Kind: agent.DeltaRetry, Text: "reset", Attempt: 1}
	half := "a 世"
	pieces := map[string]struct {
		pieces []agent.Delta
		want   string
	}{
		"text":                     {[]agent.Delta{thought, textDelta("one "), textDelta("two")}, "one two"},
		"nothing":                  {nil, ""},
		"thoughts alone":           {[]agent.Delta{thought}, ""},
		"blanks":                   {[]agent.Delta{textDelta(" \n")}, ""},
		"text before a retry":      {[]agent.Delta{textDelta("void"), retry}, ""},
		"text after a retry":       {[]agent.Delta{textDelta("void"), retry, textDelta("valid")}, "valid"},
		"the half of a character":  {[]agent.Delta{textDelta(half[:len(half)-1])}, "a "},
		"the halves of characters": {[]agent.Delta{textDelta(half[:len(half)-1]), textDelta(half[len(half)-1:])}, half},
	}
	stops := map[string]struct {
		ctx    func(context.Context) (context.Context, context.CancelFunc)
		status agent.Status
	}{
		"canceled": {context.WithCancel, agent.StatusInterrupted},
		"a reason": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, stop := context.WithCancelCause(ctx)
			return ctx, func() { stop(&agent.EndError{Status: agent.StatusInterrupted, Text: "a person"}) }
		}, agent.StatusInterrupted},
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, release := context.WithTimeout(ctx, time.Minute)
			return ctx, func() { time.Sleep(time.Minute); _ = release }
		}, agent.StatusDeadline},
	}
	for name, p := range pieces {
		for how, s := range stops {
			t.Run(name+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := &stoppable{pieces: p.pieces, sent: make(chan struct{})}
					j := &journal{}
					ctx, stop := s.ctx(t.Context())
					go func() { <-m.sent; stop() }()
					out, err := (&runner.Runner{Agent: newAgent(m), Journal: j}).Run(ctx, agent.UserText("first"))
					if err == nil || out.Status != s.status || out.Answer != "" {
						t.Fatalf("Run = %+v, %v, want the status %s and no answer", out, err, s.status)
					}
					want := []string{"user: first"}
					if p.want != "" {
						want = append(want, "assistant: "+p.want+stoppedHere)
					}
					checkStopped(t, j, m, want)
				})
			})
		}
	}
}

// checkStopped continues the run of j in each possible way. past is what the model must have been
// told before the next prompt.
func checkStopped(t *testing.T, j *journal, m *stoppable, past []string) {
	t.Helper()
	events := j.events
	continued := func(do func(*runner.Runner) error) []agent.Event {
		r := load(t, events)
		stored, err := json.Marshal(r.From.Session)
		if err != nil {
			t.Fatal(err)
		}
		r.From.Session = &agent.Session{} // as another process gets it
		if err := json.Unmarshal(stored, r.From.Session); err != nil {
			t.Fatal(err)
		}
		more := &journal{events: events[:len(events):len(events)]}
		m.requests = m.requests[:1]
		r.Agent, r.Journal = newAgent(m), more
		if err := do(r); err != nil {
			t.Fatal(err)
		}
		again := load(t, more.events).From.Session
		if diff := cmp.Diff(r.From.Session.State, again.State); diff != "" {
			t.Errorf("replayed, the session is another (-live +replayed):\n%s", diff)
		}
		return more.events
	}
	asked := func(want ...string) {
		t.Helper()
		if got := said(m.requests[1].Messages); !cmp.Equal(got, want) {
			t.Errorf("the model was asked %q, want %q", got, want)
		}
	}
	continued(func(r *runner.Runner) error {
		_, err := r.Run(t.Context(), agent.UserText("second"))
		return err
	})
	asked(append(past, "user: second")...)
	continued(func(r *runner.Runner) error { // it asks again
		_, err := r.Resume(t.Context())
		return err
	})
	asked("user: first")
	continued(func(r *runner.Runner) error {
		if _, err := r.Resume(t.Context()); err != nil {
			return err
		}
		m.requests = m.requests[:1]
		_, err := r.Run(t.Context(), agent.UserText("second"))
		return err
	})
	asked("user: first", "assistant: whole", "user: second")
}

func TestACompactionHasTheStoppedAnswer(t *testing.T) {
	m := &stoppable{pieces: []agent.Delta{{Kind: agent.DeltaText, Text: "half"}}, sent: make(chan struct{})}
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-m.sent; stop() }()
	j := &journal{}
	r := &runner.Runner{Agent: newAgent(m), Journal: j}
	if _, err := r.Run(ctx, agent.UserText(strings.Repeat("long ", 1000))); err == nil {
		t.Fatal("the run was not stopped")
	}
	for _, n := range []string{"two", "three"} {
		if _, err := r.Run(t.Context(), agent.UserText(n)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	last := m.requests[len(m.requests)-1]
	if text := strings.Join(said(last.Messages), "\n"); !last.Summary || !strings.Contains(text, "assistant: half"+stoppedHere) {
		t.Errorf("the model was asked to sum up %q, want the stopped answer in it", text)
	}
}

// A person has the conversation of a stopped run shortened. If that does not happen, the run can be
// resumed as before, and is not taken for one that was answered with the stopped part.
func TestAStoppedRunThatWasNotShortenedIsResumed(t *testing.T) {
	long := strings.Repeat("long ", 1000)
	for name, c := range map[string]struct {
		opening []agent.Message
		killed  bool // while the summary is made
	}{
		"nothing to take away": {},
		"no summary":           {opening: []agent.Message{agent.UserText(long), {Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(long)}}}},
		"killed":               {opening: []agent.Message{agent.UserText(long), {Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(long)}}}, killed: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := &stoppable{pieces: []agent.Delta{{Kind: agent.DeltaText, Text: "half"}}, sent: make(chan struct{})}
			ctx, stop := context.WithCancel(t.Context())
			go func() { <-m.sent; stop() }()
			j, tried := &journal{}, false
			a := newAgent(withDeltas(func(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
				if req.Summary {
					if text := strings.Join(said(req.Messages), "\n"); !strings.Contains(text, long) {
						t.Errorf("the model was asked to sum up %q", text)
					}
					tried = true
					return nil, errors.New("no summary")
				}
				return m.Generate(ctx, req, delta)
			}))
			a.Opening = c.opening
			if _, err := (&runner.Runner{Agent: a, Journal: j}).Run(ctx, agent.UserText("first")); err == nil {
				t.Fatal("the run was not stopped")
			}
			before := len(j.events)
			r := load(t, j.events)
			r.Agent, r.Journal = a, j
			if _, err := r.Compact(t.Context()); tried != (err != nil) || tried != (c.opening != nil) {
				t.Fatalf("Compact = %v, a summary was tried: %v", err, tried)
			}
			events := j.events
			if c.killed {
				events = events[:before+1]
			}
			again, more := load(t, events), &journal{}
			if !c.killed {
				if diff := cmp.Diff(r.From.Session.State, again.From.Session.State); diff != "" {
					t.Errorf("replayed, the session is another (-live +replayed):\n%s", diff)
				}
			}
			again.Agent, again.Journal = a, more
			out, err := again.Resume(t.Context())
			if err != nil || out.Answer != "whole" {
				t.Fatalf("Resume = %+v, %v, want the whole answer", out, err)
			}
			if last := said(m.requests[len(m.requests)-1].Messages); last[len(last)-1] != "user: first" {
				t.Errorf("the model was asked %q", last)
			}
		})
	}
}

func TestTheStoppedAnswerOfAnAgentStaysInItsSession(t *testing.T) {
	m := &stoppable{pieces: []agent.Delta{{Kind: agent.DeltaText, Text: "half"}}, sent: make(chan struct{})}
	expert := newAgent(m)
	expert.Slug = "expert"
	root := newAgent(&model{answers: []*agent.Response{calls(call("c", "expert_expert", `{"prompt":"q"}`))}})
	root.Toolsets = []agent.Toolset{agent.ToolList{&agent.Subagent{Name: "expert_expert", Agent: expert}}}
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-m.sent; stop() }()
	j := &journal{}
	if _, err := (&runner.Runner{Agent: root, Journal: j}).Run(ctx, agent.UserText("go")); err == nil {
		t.Fatal("the run was not stopped")
	}
	for _, e := range j.events {
		if e.Kind == agent.EventFailure && e.Agent == "expert" {
			if e.Message == nil || e.Message.Text() != "half"+stoppedHere {
				t.Errorf("failure = %+v, want the part of the answer", e.Message)
			}
			return
		}
	}
	t.Error("the journal has no failure of the agent")
}

func TestAFailureHasNoMessageThatAModelDidNotBegin(t *testing.T) {
	for name, m := range map[string]agent.Message{
		"of the user": agent.UserText("x"),
		"with a call": {Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "a", Name: "t"}}},
	} {
		s := &agent.Session{}
		for _, e := range append(s.Opened(newAgent(nil), "S", "", 0), agent.Event{Kind: agent.EventMessage, Session: "S", Message: new(agent.UserText("go"))}) {
			if err := s.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Apply(agent.Event{Kind: agent.EventFailure, Session: "S", Status: agent.StatusInterrupted, Message: &m}); err == nil {
			t.Errorf("a failure with a message %s was applied", name)
		}
	}
}

type withDeltas func(context.Context, *agent.Request, func(agent.Delta)) (*agent.Response, error)

func (f withDeltas) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	return f(ctx, req, delta)
}
