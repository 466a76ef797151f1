package host

import (
	"cmp"
	"context"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/observe"
)

// Tools returns the tools of an agent that its rights do not hide. Call applies these rights to
// their calls. Tools that cannot be listed are left out and reported to Warn.
func (h *Host) Tools(ctx context.Context, a *agent.Agent) (list []agent.Tool) {
	for _, set := range a.Toolsets {
		tools, err := set.Tools(ctx)
		if err != nil && h.Warn != nil {
			h.Warn(err.Error())
		}
		for _, tool := range tools {
			if a.Rights == nil {
				list = append(list, tool)
			} else if !a.Rights.Hides(&agent.Invocation{Spec: tool.Spec(), Agent: a.Slug, Path: []string{a.Slug}}) {
				list = append(list, &owned{tool, a})
			}
		}
	}
	return list
}

// An owned is a tool of an agent that has rights. Its calls have the tool's own name, which the
// rules use, even where clients see another name.
type owned struct {
	agent.Tool
	owner *agent.Agent
}

// Unwrap returns the tool: see agent.As.
func (o *owned) Unwrap() any { return o.Tool }

// CallOptions configure one call of a tool.
type CallOptions struct {
	// Caller is the agent that makes the call. nil means an agent without a model, with the name
	// Client, or for a tool from Tools, the name and the rights of that agent.
	Caller *agent.Agent
	Client string
	// Traceparent is the span that the call is part of; "" means that of Host.Caller.
	Traceparent string
	// Observe gets the events of the call before Host.Observe.
	Observe func(agent.Event)
}

// Call makes one call of a tool, as a run would: see runner.Runner.Call.
func (h *Host) Call(ctx context.Context, tool agent.Tool, args string, o CallOptions) (agent.Result, error) {
	if o.Caller == nil {
		o.Caller = &agent.Agent{Slug: o.Client}
		if of, ok := agent.As[*owned](tool); ok {
			o.Caller.Slug, o.Caller.Rights = of.owner.Slug, of.owner.Rights // rules name agents
			tool = of
		}
	}
	r := h.Runner(o.Caller)
	r.From.Traceparent = cmp.Or(o.Traceparent, r.From.Traceparent)
	r.Observe = observe.Tee(o.Observe, r.Observe)
	return r.Call(ctx, tool, args)
}
