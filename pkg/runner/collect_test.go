package runner

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// answering is a model.
type answering func(ctx context.Context, req *agent.Request) (*agent.Response, error)

func (f answering) Generate(ctx context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	return f(ctx, req)
}

// leftTool is an agent that works in the background.
type leftTool struct{ agent.Subagent }

func (l *leftTool) Spec() agent.ToolSpec {
	spec := l.Subagent.Spec()
	spec.Background = true
	return spec
}

// TestNothingIsCollectedBeyondARun that ends before its model is told the end of an agent.
func TestNothingIsCollectedBeyondARun(t *testing.T) {
	for _, ended := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			sub := &agent.Agent{Slug: "sub", Provider: answering(func(ctx context.Context, _ *agent.Request) (*agent.Response, error) {
				wait := time.Hour
				if ended {
					wait = 5 * time.Second
				}
				select {
				case <-time.After(wait):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				return &agent.Response{Message: agent.UserText("done")}, nil
			})}
			a := &agent.Agent{Slug: "a", Toolsets: []agent.Toolset{agent.ToolList{&leftTool{agent.Subagent{Name: "expert_sub", Agent: sub}}}}, Provider: answering(func(_ context.Context, req *agent.Request) (*agent.Response, error) {
				if req.Turn > 1 {
					time.Sleep(10 * time.Second)
					return nil, errors.New("it does not answer")
				}
				args, err := json.Marshal(map[string]string{"prompt": "p"})
				return &agent.Response{Message: agent.Message{Calls: []agent.ToolCall{{ID: "1", Name: "expert_sub", Args: string(args)}}}}, err
			})}
			r := &Runner{Agent: a}
			if _, err := r.Run(t.Context(), agent.UserText("go")); err == nil {
				t.Error("the run has not failed")
			}
			if n := len(r.root().tree.collecting); n > 0 || len(r.root().session.Messages) < 3 {
				t.Errorf("with its agent ended %t, %d calls are still collected", ended, n)
			}
		})
	}
}
