package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/agents-exe/agents/pkg/runner"
)

// fragile does what a function says, wherever a run asks it.
type fragile func()

func (f fragile) Generate(context.Context, *agent.Request, func(agent.Delta)) (*agent.Response, error) {
	f()
	return text("ok"), nil
}
func (f fragile) Tools(context.Context) ([]agent.Tool, error)    { f(); return nil, nil }
func (f fragile) Append(context.Context, agent.Event) error      { f(); return nil }
func (f fragile) Sync(context.Context) error                     { f(); return nil }
func (f fragile) accept(context.Context, string) (string, error) { f(); return "", nil }
func (f fragile) policy(context.Context, *agent.Invocation) agent.Verdict {
	f()
	return agent.Verdict{Decision: agent.Allow}
}

// A panic anywhere in a run of a server ends that run with a report, and holds nothing.
func TestAPanicEndsOneRun(t *testing.T) {
	crash := fragile(func() { panic("the test") })
	called := func(f func(context.Context, *agent.Invocation)) func(r *runner.Runner) {
		return func(r *runner.Runner) {
			m := &model{answers: []*agent.Response{calls(call("", "t", "{}"), call("", "t", "{}")), text("done")}}
			r.Agent = newAgent(m, tool{"t", func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
				f(ctx, inv)
				return agent.TextResult("x"), nil
			}})
		}
	}
	for name, set := range map[string]func(r *runner.Runner){
		"model":    func(r *runner.Runner) { r.Agent.Provider = crash },
		"toolset":  func(r *runner.Runner) { r.Agent.Toolsets = []agent.Toolset{crash} },
		"journal":  func(r *runner.Runner) { r.Journal = crash },
		"accept":   func(r *runner.Runner) { r.Accept = crash.accept },
		"observer": func(r *runner.Runner) { r.Observe = func(agent.Event) { crash() } },
		"shared": func(r *runner.Runner) {
			most := agent.Dollar
			r.Agent.Budget.USD = &most
			r.Shared = func(context.Context, agent.Event) (left, total agent.Budget, err error) {
				crash()
				return left, total, nil
			}
		},
		"tool": called(func(context.Context, *agent.Invocation) { crash() }),
		"policy": func(r *runner.Runner) {
			called(func(context.Context, *agent.Invocation) {})(r)
			r.Policy = crash.policy
		},
		"person": func(r *runner.Runner) {
			called(func(ctx context.Context, inv *agent.Invocation) { _, _ = inv.Question(ctx, agent.Event{What: "ask"}) })(r)
			r.Person = func(context.Context, agent.Event) (json.RawMessage, error) { crash(); return nil, nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var report string
			r := &runner.Runner{Agent: newAgent(&model{answers: []*agent.Response{text("ok")}}), Panicked: func(text string) {
				mu.Lock()
				defer mu.Unlock()
				report += text
			}}
			set(r)
			no := false
			start := agent.Start{Channel: agent.ChannelVersion, Args: json.RawMessage(`{"prompt":"go"}`)}
			if name == "person" {
				start.Person = &no
			}
			c := r.Start(t.Context(), start)
			events := slices.Collect(c.Events())
			out, err := c.Wait()
			if !errors.Is(err, guard.ErrPanic) || out.Status != agent.StatusFailed {
				t.Errorf("the run ends with %+v, %v", out, err)
			}
			if n := len(events); n == 0 || events[n-1].Kind != agent.EventEnd || events[n-1].Status != agent.StatusFailed {
				t.Errorf("the events end with %+v", events[max(n-1, 0):])
			}
			if !strings.Contains(report, "internal error: the test\n") || !strings.Contains(report, "guard_test.go") {
				t.Errorf("reported: %s", report)
			}
		})
	}
}
