package runner_test

import (
	"fmt"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// BenchmarkTurn takes one turn: the model asks for calls, and they are answered.
// The little that its model and tool allocate is in it.
func BenchmarkTurn(b *testing.B) {
	for _, n := range []int{1, 8} {
		b.Run(fmt.Sprintf("calls=%d", n), func(b *testing.B) {
			m := providerFunc(func(req *agent.Request) (*agent.Response, error) {
				list := make([]agent.ToolCall, n)
				for i := range list {
					list[i] = call(fmt.Sprintf("%d.%d", req.Turn, i), "echo", "{}")
				}
				return calls(list...), nil
			})
			a := newAgent(m, echo("echo"))
			a.MaxTurns = 1 << 30
			r := &runner.Runner{Agent: a}
			if err := r.Prompt(b.Context(), agent.UserText("go")); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				for range 2 { // the model, the calls
					if _, err := r.Step(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
