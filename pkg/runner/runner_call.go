package runner

import (
	"cmp"
	"context"

	"github.com/agents-exe/agents/pkg/agent"
)

// Call runs one call of tool, which need not be one of the Agent's, through the
// same gate as the calls of a run, without a model. Its events go to Observe and
// not into the Journal. The error is why there is no good result: the gate's
// refusal or the tool's failure; what the result holds beside it comes too.
func (r *Runner) Call(ctx context.Context, tool agent.Tool, args string) (agent.Result, error) {
	root := r.root()
	spec := tool.Spec()
	id := root.tree.newID()
	c := &call{run: root, inv: agent.Invocation{Call: agent.ToolCall{ID: "call", Name: spec.Name, Args: args}, Spec: spec, Key: id + ".1.1",
		Session: id, Agent: root.agent.Slug, Turn: 1, N: 1, Parent: root.parent, Level: root.tree.above}}
	inv := &c.inv
	inv.Caller, inv.Driver = root, c
	if err := root.tree.refused; err != nil {
		return agent.Result{}, err
	}
	inv.Trace, inv.Context = root.tree.callTrace(id, inv.Key), root.tree.currentContext()
	defer root.background.end(root.tree)
	var result agent.Result
	var err error
	broken := root.tree.guard(func() (broken error) {
		result, err, broken = root.tree.gate.pass(ctx, tool, inv, c, func(e agent.Event) error {
			e.Traceparent = root.tree.outside.String()
			root.observe(e)
			return nil
		})
		return broken
	})
	end := inv.Ended(result, err)
	end.Traceparent, end.Millis = root.tree.outside.String(), c.took.Milliseconds()
	root.observe(end)
	if s := r.Secrets; s != nil {
		result, err = agent.Result{Parts: redactParts(s, result.Parts)}, redactError(s, err)
	}
	return result, cmp.Or(broken, err)
}
