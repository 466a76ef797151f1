package channel_test

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/runner"
)

// A border is a tool that runs an agent over a channel.
type border struct{ agent *agent.Agent }

func (b border) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: "below", Schema: json.RawMessage(`{"type":"object"}`), Channel: channel.Version}
}

func (b border) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	childIn, toChild := io.Pipe()
	fromChild, childOut := io.Pipe()
	go func() {
		s := &channel.Server{In: childIn, Out: childOut, Start: func(ctx context.Context, start agent.Start) (*runner.Channel, error) {
			return (&runner.Runner{Agent: b.agent}).Start(ctx, start), nil
		}}
		_, _ = s.Serve(context.Background())
		childOut.Close()
	}()
	return channel.Call(ctx, inv, fromChild, toChild)
}

// callBelow asks for one call of the tool, and then answers.
type callBelow struct{}

func (callBelow) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	m := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("done")}}
	if len(req.Messages) == 1 {
		m = agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "c", Name: "below", Args: `{"prompt":"p"}`}}}
	}
	return &agent.Response{Message: m, Finish: agent.FinishStop}, nil
}

// talk answers in n pieces.
type talk struct{ n int }

func (t talk) Generate(_ context.Context, _ *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	for range t.n {
		delta(agent.Delta{Kind: agent.DeltaText, Text: "a piece of the answer"})
	}
	return &agent.Response{Message: agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("done")}}, Finish: agent.FinishStop}, nil
}

// BenchmarkEventUpThreeLevels is the time of one event from an agent over three borders
// to the root.
func BenchmarkEventUpThreeLevels(b *testing.B) {
	a := &agent.Agent{Slug: "leaf", Provider: talk{b.N}}
	for _, slug := range []string{"low", "mid", "top"} {
		a = &agent.Agent{Slug: slug, Provider: callBelow{}, Toolsets: []agent.Toolset{agent.ToolList{border{a}}}}
	}
	seen := 0
	r := &runner.Runner{Agent: a, Observe: func(e agent.Event) {
		if e.Kind == agent.EventText && e.Depth == 3 {
			seen++
		}
	}}
	if _, err := r.Run(b.Context(), agent.UserText("go")); err != nil {
		b.Fatal(err)
	}
	if seen != b.N {
		b.Errorf("%d events, want %d", seen, b.N)
	}
}
