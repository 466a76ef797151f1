package replay_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/toolbox/background"
	"github.com/agents-exe/agents/pkg/trial/replay"
)

// backgroundAgent is a sub-agent that can work in the background, and outlives its caller.
type backgroundAgent struct{ *agent.Subagent }

func (b backgroundAgent) Spec() agent.ToolSpec {
	spec := b.Subagent.Spec()
	spec.Background, spec.Detach = true, true
	return spec
}

func (b backgroundAgent) Unwrap() any { return b.Subagent }

// after delays a model from its second turn on.
func after(d time.Duration, m agent.Provider) generate {
	return func(ctx context.Context, req *agent.Request) (*agent.Response, error) {
		if req.Turn > 1 {
			time.Sleep(d)
		}
		return m.Generate(ctx, req, func(agent.Delta) {})
	}
}

// withSlow is a tree whose agents take their time: root asks main, which asks slow and does not wait
// for it. If direct, root asks slow itself and goes on.
func withSlow(direct bool, main, slow time.Duration) []*agent.Agent {
	s := newAgent("slow", after(slow, answers(calls("work"), "slow's answer")), works("work"))
	m := newAgent("main", after(main, answers(calls(`slow {"prompt":"x"}`), calls("look"), "main ends")), works("look"), backgroundAgent{expert("slow", s)})
	root := newAgent("root", generate(func(_ context.Context, req *agent.Request) (*agent.Response, error) {
		last := fmt.Sprint(req.Messages[len(req.Messages)-1])
		switch {
		case req.Turn == 1 && direct:
			return calls(`slow {"prompt":"x"}`), nil
		case req.Turn == 1:
			return calls(`main {"prompt":"x"}`), nil
		case direct && req.Turn == 2:
			return calls(`main {"prompt":"x"}`), nil
		case strings.Contains(fmt.Sprint(req.Messages), "are now yours") && !strings.Contains(last, "has ended"):
			return calls("agent_wait"), nil
		}
		return say("told: " + last), nil
	}), append(background.Tools(), expert("main", m), backgroundAgent{expert("slow", s)})...)
	return []*agent.Agent{root, m, s}
}

// TestAgentsInTheBackgroundAreReplayedAtAnySpeed: each model is asked what it was asked when it was
// recorded, however long the agents and their callers take in the replay.
func TestAgentsInTheBackgroundAreReplayedAtAnySpeed(t *testing.T) {
	times := []time.Duration{0, 1500 * time.Millisecond, 5 * time.Second}
	for _, direct := range []bool{false, true} {
		for i := range 81 {
			main, slow, mainAgain, slowAgain := times[i%3], times[i/3%3], times[i/9%3], times[i/27]
			synctest.Test(t, func(t *testing.T) {
				events, want := record(t, &runner.Runner{Agent: withSlow(direct, main, slow)[0]}, "go")
				p := &replay.Player{Record: newRecord(t, events)}
				tree := withSlow(direct, 0, 0)
				for n, a := range tree {
					p.Wrap(a)
					a.Provider = after([]time.Duration{0, mainAgain, slowAgain}[n], a.Provider)
				}
				out, err := p.Run(t.Context(), runners(&runner.Runner{Agent: tree[0]}))
				if got := outcomeOf(out, err); got != want {
					t.Errorf("recorded with %v and %v, replayed with %v and %v (direct: %t): %+v, want %+v", main, slow, mainAgain, slowAgain, direct, got, want)
				}
			})
		}
	}
}
