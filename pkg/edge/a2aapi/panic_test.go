package a2aapi

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/agents-exe/agents/pkg/runner"
)

// fragile is a host whose runs wait, or panic when they are started.
type fragile struct{ atStart bool }

func (f fragile) Agents() []agent.ToolSpec { return nil }
func (f fragile) Generate(ctx context.Context, _ *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func (f fragile) Start(ctx context.Context, _ string, s agent.Start) (*runner.Channel, error) {
	if f.atStart {
		panic("the start")
	}
	return (&runner.Runner{Agent: &agent.Agent{Slug: "a", Provider: f}}).Start(ctx, s), nil
}

// A panic in a task fails it with a report, and leaves no run behind for which Close waits.
func TestAPanicEndsOneTask(t *testing.T) {
	for at, want := range map[string]string{"the start": "internal error", "the client": string(a2a.TaskStateFailed)} {
		t.Run(at, func(t *testing.T) {
			var said strings.Builder
			x := newExecutor(fragile{at == "the start"}, agent.ToolSpec{Name: "a", Schema: json.RawMessage(`{"type":"object","properties":{"prompt":{}}}`)}, func(text string) { said.WriteString(text) })
			ec := &a2asrv.ExecutorContext{TaskID: "t", ContextID: "c", Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("go"))}
			last, n := "", 0
			x.Execute(t.Context(), ec)(func(e a2a.Event, err error) bool {
				n++
				if n == 1 && err == nil {
					panic("the client")
				}
				if update, ok := e.(*a2a.TaskStatusUpdateEvent); ok {
					last = string(update.Status.State)
				} else if errors.Is(err, guard.ErrPanic) {
					last = "internal error"
				}
				return true
			})
			x.close()
			if last != want || !strings.HasPrefix(said.String(), "internal error: "+at+"\n") {
				t.Errorf("the last event is %s, want %s; reported %s", last, want, said.String())
			}
		})
	}
}
