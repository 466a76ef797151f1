package step

import (
	"context"
	"errors"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
)

// An Agent takes steps. Step is called once for each, with what is known of the session
// at that time; it keeps nothing that the State does not say, or it loses it when the
// session is resumed. It is safe for concurrent use and returns soon after ctx ends. An
// error, or an action that Check refuses, ends the run.
type Agent interface {
	Step(ctx context.Context, s State) (Action, error)
}

// Model is the name of the model that Provider makes.
const Model = "step"

// Provider makes a model of a. Runs of it need Agent.NoCompaction: it sums up nothing.
func Provider(a Agent) agent.Provider { return &provider{a} }

type provider struct{ agent Agent }

// Generate implements agent.Provider.
func (p *provider) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	if ctx.Err() != nil {
		return nil, agent.ContextError(ctx)
	}
	if req.Summary {
		return nil, errors.New("an agent of steps does not sum up its conversation; it needs no compaction")
	}
	action, err := p.agent.Step(ctx, StateOf(req))
	if err == nil {
		err = action.Check()
	}
	if err != nil {
		return nil, &agent.ModelError{Message: err.Error(), Err: err}
	}
	m := agent.Message{Role: agent.RoleAssistant}
	has := func(name string) bool {
		return slices.ContainsFunc(req.Tools, func(t agent.ToolSpec) bool { return t.Name == name })
	}
	name := Tool(action, has)
	if action.Kind == Finish && !has(name) {
		name = ""
	}
	if name == "" || action.Continue {
		m.Parts = []agent.Part{agent.Text(action.Text)}
		delta(agent.Delta{Kind: agent.DeltaText, Text: action.Text})
	}
	if name != "" {
		m.Calls = []agent.ToolCall{{Name: name, Args: action.args()}}
	}
	return &agent.Response{Message: m, Finish: agent.FinishStop, Model: Model, Usage: agent.Usage{Requests: 1, Priced: 1}}, nil // it costs nothing
}
