package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// decide is the policy of a tree.
func (t *tree) decide(ctx context.Context, inv *agent.Invocation) agent.Verdict {
	v, own := agent.Verdict{Decision: agent.Allow}, agent.Verdict{Decision: agent.Allow}
	c := callOf(inv)
	if c != nil {
		own = c.run.judgeAll(inv)
		if !own.Denies() && c.run.hasHooks(agent.HookBeforeCall) {
			own = c.run.hookBeforeCall(ctx, inv, c, own)
		}
		inv.NoLinks = own.NoLinks
	}
	if t.policy != nil {
		v = t.policy(ctx, inv)
	}
	if c == nil || v.Denies() {
		return v
	}
	if own.External && !own.Denies() {
		own = c.run.consult(ctx, inv, own)
	}
	return v.And(own)
}

// rights returns all rights that must permit a call of r: those of its agent, of the agents
// above, and of their callers.
func (r *node) rights() []agent.Rights {
	var list []agent.Rights
	for n := r; n != nil; n = n.up {
		if n.agent != nil && n.agent.Rights != nil && !slices.Contains(list, n.agent.Rights) {
			list = append(list, n.agent.Rights)
		}
	}
	return append(list, r.tree.rights...)
}

// judgeAll is judge for the arguments with which the call runs: those that were judged, of
// which each of the rights may replace some.
func (r *node) judgeAll(inv *agent.Invocation) agent.Verdict {
	v := r.judge(inv)
	for range r.rights() {
		if v.Args == "" || v.Denies() {
			break
		}
		inv.Replace(v.Args)
		v = r.judge(inv)
	}
	if v.Args != "" && !v.Denies() {
		v = agent.Verdict{Decision: agent.Deny, Rule: v.Rule, Reason: "its command line or a path, judged again, is a different one"}
	}
	return v
}

// judge decides by the rules of all rights.
func (r *node) judge(inv *agent.Invocation) agent.Verdict {
	v := agent.Verdict{Decision: agent.Allow}
	for _, rights := range r.rights() {
		if inv.Path == nil {
			inv.Path = r.path()
		}
		v = v.And(rights.Decide(inv))
	}
	return v
}

// consult asks the external policies of all rights.
func (r *node) consult(ctx context.Context, inv *agent.Invocation, v agent.Verdict) agent.Verdict {
	for _, rights := range r.rights() {
		if v.Denies() {
			break
		}
		v = v.And(rights.Consult(ctx, inv))
	}
	return v
}

// hides reports whether every call of a tool is denied to r.
func (r *node) hides(spec agent.ToolSpec) bool {
	list := r.rights()
	if len(list) == 0 {
		return false
	}
	inv := &agent.Invocation{Call: agent.ToolCall{Name: spec.Name}, Spec: spec, Agent: r.agent.Slug, Path: r.path(), Depth: r.depth}
	return slices.ContainsFunc(list, func(rights agent.Rights) bool { return rights.Hides(inv) })
}

// leaseRights returns the rights of a tree's callers: those of the Runner, and those in its
// lease. If they cannot be evaluated, it returns an error and nothing may run.
func (r *Runner) leaseRights() ([]agent.Rights, error) {
	var list []agent.Rights
	if r.Rights != nil {
		list = append(list, r.Rights)
	}
	for _, a := range r.Callers {
		if a.Rights != nil && !slices.Contains(list, a.Rights) {
			list = append(list, a.Rights)
		}
	}
	if !r.Lease.HasRights() {
		return list, nil
	}
	if r.ReadRights == nil {
		return list, errors.New("the lease has rights, and this program cannot evaluate them")
	}
	rights, err := r.ReadRights(r.Lease.Rights)
	if err != nil {
		return list, fmt.Errorf("the rights of the lease: %w", err)
	}
	return append(list, rights), nil
}

// leasedRights returns the rights for an agent that a call of r runs in another process.
func (r *node) leasedRights() json.RawMessage {
	lease, list := agent.Lease{Rights: r.tree.lease.Rights}, r.rights()
	if lease.HasRights() {
		list = list[:len(list)-1] // the last are those of the lease
	}
	for _, rights := range list {
		own, err := rights.MarshalJSON()
		if err != nil {
			return json.RawMessage(`false`) // the agent cannot evaluate it and does not run
		}
		lease = lease.Shrink(agent.Lease{Rights: own})
	}
	return lease.Rights
}

// readDecision reads the answer to a question about a call: "allow", or an object with
// decision and reason. Everything else denies.
func readDecision(answer json.RawMessage) agent.Verdict {
	doc, err := jsondoc.Parse(answer, jsondoc.Options{MaxBytes: 1 << 20, MaxDepth: 50, Strict: true})
	if err != nil {
		return agent.Verdict{Decision: agent.Deny, Reason: "the answer is not a decision"}
	}
	text := func(key string) string { return doc.Root.Member(key).Text() } // encoding/json takes "Decision" for decision
	return agent.Verdict{Decision: agent.Decision(cmp.Or(doc.Root.Text(), text("decision"), string(agent.Deny))), Reason: text("reason"),
		Rule: text("rule"), Reviewer: text("reviewer"), Approval: text("approval")}
}
