package runner

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Behalf is a program that takes the place of an agent's model.
type Behalf struct {
	// Model is its name in events and usage.
	Model    string
	Provider agent.Provider
	// Deadline limits the wall time; 0 means no limit.
	Deadline time.Duration
	// Offers reports whether the program may call a tool. It is required.
	Offers func(agent.ToolSpec) bool
}

// OnBehalf runs b for the agent that makes the call inv, in a new session below its run. b
// calls the agent's tools with the agent's rights, as if the agent's model made the calls. The
// call itself no longer counts as a running one (Runner.MaxProcesses), and b does not count
// towards limits of depth. It is an error if the call is not part of a run.
func OnBehalf(ctx context.Context, inv *agent.Invocation, b Behalf, prompt agent.Message) (*agent.Outcome, error) {
	c := callOf(inv)
	if c == nil {
		return &agent.Outcome{Status: agent.StatusFailed, Agent: inv.Agent}, errors.New("this call is not part of a run")
	}
	r := c.run
	a := *r.agent
	a.Model, a.Flavor, a.Provider, a.Deadline = b.Model, b.Model, b.Provider, b.Deadline
	a.Borrows = false
	a.System, a.Opening, a.OutputSchema, a.RequiredTools, a.Budget = "", nil, nil, nil, agent.Budget{}
	a.MaxTurns, a.NoCompaction, a.LoopWarn, a.LoopEnd = math.MaxInt32, true, -1, -1
	a.Toolsets = slices.Clone(a.Toolsets)
	state := inv.SessionState()
	for i, set := range a.Toolsets {
		a.Toolsets[i] = toolsFunc(func(ctx context.Context) ([]agent.Tool, error) {
			list, err := agent.ToolsOf(ctx, set, &state)
			return slices.DeleteFunc(slices.Clone(list), func(t agent.Tool) bool { return !b.Offers(t.Spec()) }), err
		})
	}
	if c.admitted.CompareAndSwap(true, false) {
		<-r.tree.gate.slots
	}
	child := &run{node: r.below(&a, inv.Key)}
	child.behalf = true
	return child.do(ctx, &prompt)
}

type toolsFunc func(ctx context.Context) ([]agent.Tool, error)

// Tools implements Toolset.
func (f toolsFunc) Tools(ctx context.Context) ([]agent.Tool, error) { return f(ctx) }
