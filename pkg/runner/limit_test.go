package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// Whatever a tool gives back, in parts or as an error, the model reads at most the limit and
// some notices.
func TestWhatAToolGivesBackIsLimited(t *testing.T) {
	long := strings.Repeat("x", 8<<20)
	many := make([]agent.Part, 20_000)
	for i := range many {
		many[i] = agent.Text("some text")
	}
	for name, give := range map[string]func() (agent.Result, error){
		"an error":            func() (agent.Result, error) { return agent.Result{}, errors.New(long) },
		"an error and a text": func() (agent.Result, error) { return agent.TextResult(long), errors.New(long) },
		"a text and an error": func() (agent.Result, error) { return agent.TextResult(long), errors.New("no") },
		"parts":               func() (agent.Result, error) { return agent.Result{Parts: many}, nil },
		"parts and an error":  func() (agent.Result, error) { return agent.Result{Parts: many}, errors.New(long) },
		"an error in bytes":   func() (agent.Result, error) { return agent.Result{}, errors.New(strings.Repeat("a\xff", 1<<20)) },
		"the end of an agent": func() (agent.Result, error) {
			return agent.AnswerOf(&agent.Outcome{Agent: "a"}, &agent.EndError{Status: agent.StatusFailed, Text: long})
		},
		"an error with a key":  func() (agent.Result, error) { return agent.Result{}, errors.New(strings.Repeat("KEY", 1<<20)) },
		"a wrapped known kind": func() (agent.Result, error) { return agent.Result{}, fmt.Errorf("%w: %s", agent.ErrRefused, long) },
	} {
		t.Run(name, func(t *testing.T) {
			m := &model{answers: []*agent.Response{calls(call("", "t", "{}")), text("done")}}
			r := &runner.Runner{Agent: newAgent(m, tool{"t", func(context.Context, *agent.Invocation) (agent.Result, error) { return give() }})}
			if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
				t.Fatal(err)
			}
			results := m.requests[1].Messages[2].Results
			if n := len(results[0].Text()); n > runner.MaxResult+1000 || n == 0 {
				t.Errorf("the model reads %d bytes, want at most %d", n, runner.MaxResult+1000)
			}
		})
	}
}

// A prompt in a session of an hour ago, and the run that it continues, have their whole time.
func TestAPauseDoesNotSpendTime(t *testing.T) {
	two := 2.0
	for name, limit := range map[string]func(*agent.Agent){
		"deadline": func(a *agent.Agent) { a.Deadline = 2 * time.Second },
		"seconds":  func(a *agent.Agent) { a.Budget.Seconds = &two },
	} {
		for _, ended := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s %v", name, ended), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var events []agent.Event
					first := &runner.Runner{Agent: newAgent(&model{answers: []*agent.Response{text("one")}}), Observe: func(e agent.Event) { events = append(events, e) }}
					if _, err := first.Run(t.Context(), agent.UserText("go")); err != nil {
						t.Fatal(err)
					}
					var b runner.Rebuilder
					for _, e := range events {
						if e.Kind == agent.EventEnd && !ended || e.Kind == agent.EventAnswer && !ended {
							break
						}
						if err := b.Apply(e); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(time.Hour)
					a := newAgent(&model{answers: []*agent.Response{calls(call("", "t", "{}")), text("two")}}, tool{"t", func(context.Context, *agent.Invocation) (agent.Result, error) {
						time.Sleep(time.Second)
						return agent.Result{}, nil
					}})
					limit(a)
					from, _ := b.Resume()
					again := &runner.Runner{Agent: a, From: from}
					var out *agent.Outcome
					var err error
					if ended {
						out, err = again.Run(t.Context(), agent.UserText("and"))
					} else {
						out, err = again.Resume(t.Context())
					}
					if err != nil || out.Answer != "two" {
						t.Errorf("after an hour: %+v, %v", out, err)
					}
				})
			})
		}
	}
}

// A compaction of an agent in another process keeps the context of the whole run, for a
// resume too: its own copy may be older.
func TestACompactionElsewhereKeepsTheContext(t *testing.T) {
	child := compacting{}
	var events []agent.Event
	m := &model{answers: []*agent.Response{calls(call("", "set", "{}"), call("", "child", "{}")), text("done")}}
	set := tool{"set", func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
		return agent.Result{}, inv.SetContext(ctx, json.RawMessage(`{"n":2}`))
	}}
	a := newAgent(m, set, child)
	a.MaxParallelTools = 1
	r := &runner.Runner{Agent: a, Context: json.RawMessage(`{"n":1}`), Observe: func(e agent.Event) { events = append(events, e) }}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(events, func(e agent.Event) bool { return e.Kind == agent.EventCompaction }) {
		t.Fatal("there is no compaction")
	}
	var b runner.Rebuilder
	for _, e := range events {
		if err := b.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	if from, _ := b.Resume(); string(from.Context) != `{"n":2}` {
		t.Errorf("the context is %s after a resume", from.Context)
	}
}

// compacting is an agent in another process that shortens its conversation.
type compacting struct{}

func (compacting) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: "child", Schema: json.RawMessage(`{"type":"object"}`), Channel: agent.ChannelVersion}
}

func (compacting) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	m := agent.UserText("go")
	var err error
	for _, e := range []agent.Event{{Kind: agent.EventSession}, {Kind: agent.EventMessage, Message: &m}, {Kind: agent.EventCompaction, Messages: []agent.Message{m}, Context: json.RawMessage(`{"n":1}`)}} {
		e.Session, e.Agent = "C", "child"
		if err == nil {
			err = inv.Caller.Forward(ctx, inv, e)
		}
	}
	inv.Caller.Called(ctx, inv, nil)
	return agent.TextResult("x"), err
}
