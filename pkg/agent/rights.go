package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// Rights say which calls may run: those of an agent, and of every agent below it. A call
// needs the rights of the agent that makes it and of all its callers. Implementations are
// safe for concurrent use and can be compared with ==.
type Rights interface {
	// Decide decides by rules alone. inv.Remote marks a call that another process has
	// already decided to make: rules that deny or ask count only if they certainly match.
	Decide(inv *Invocation) Verdict
	// Consult asks the external policies, if Decide says External.
	Consult(ctx context.Context, inv *Invocation) Verdict
	// Hides reports whether every call of a tool is denied. inv has no arguments.
	Hides(inv *Invocation) bool
	// MarshalJSON returns the JSON array for Lease.Rights.
	json.Marshaler
}

// decide is the policy of a tree.
func (t *tree) decide(ctx context.Context, inv *Invocation) Verdict {
	v, own := Verdict{Decision: Allow}, Verdict{Decision: Allow}
	c := callOf(inv)
	if c != nil {
		own = c.judge(inv)
		for range c.rights() { // the call runs with the arguments that were judged, of which each may replace some
			if own.Args == "" || own.Denies() {
				break
			}
			inv.Replace(own.Args)
			own = c.judge(inv)
		}
		if own.Args != "" && !own.Denies() {
			own = Verdict{Decision: Deny, Rule: own.Rule, Reason: "its command line or a path, judged again, is a different one"}
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
		own = c.consult(ctx, inv, own)
	}
	return v.And(own)
}

// rights returns all rights that must permit a call of r: those of its agent, of the agents
// above, and of their callers.
func (r *run) rights() []Rights {
	var list []Rights
	for n := r; n != nil; n = n.up {
		if n.agent != nil && n.agent.Rights != nil && !slices.Contains(list, n.agent.Rights) {
			list = append(list, n.agent.Rights)
		}
	}
	return append(list, r.tree.rights...)
}

// judge decides by the rules of all rights.
func (r *run) judge(inv *Invocation) Verdict {
	v := Verdict{Decision: Allow}
	for _, rights := range r.rights() {
		if inv.Path == nil {
			inv.Path = r.path()
		}
		v = v.And(rights.Decide(inv))
	}
	return v
}

// consult asks the external policies of all rights.
func (r *run) consult(ctx context.Context, inv *Invocation, v Verdict) Verdict {
	for _, rights := range r.rights() {
		if v.Denies() {
			break
		}
		v = v.And(rights.Consult(ctx, inv))
	}
	return v
}

// hides reports whether every call of a tool is denied to r.
func (r *run) hides(spec ToolSpec) bool {
	list := r.rights()
	if len(list) == 0 {
		return false
	}
	inv := &Invocation{Call: ToolCall{Name: spec.Name}, Spec: spec, Agent: r.agent.Slug, Path: r.path(), Depth: r.depth}
	return slices.ContainsFunc(list, func(rights Rights) bool { return rights.Hides(inv) })
}

// And returns the stricter of two verdicts, or the first if they are equally strict. The
// requirements of two verdicts that ask are combined.
func (v Verdict) And(w Verdict) Verdict {
	first, second := v, w
	if strictness(w.Decision) > strictness(v.Decision) || v.Decision == w.Decision && v.Rule == "" && v.Reason == "" {
		first, second = w, v
	}
	first.External, first.Args, first.NoLinks = v.External || w.External, cmp.Or(v.Args, w.Args), v.NoLinks || w.NoLinks
	if first.Decision == AskPerson && second.Decision == AskPerson {
		first.Reviewer, first.Approval = cmp.Or(first.Reviewer, second.Reviewer), stricterApproval(first.Approval, second.Approval)
	}
	return first
}

// stricterApproval returns the stricter of two values of Verdict.Approval.
func stricterApproval(a, b string) string {
	order := [...]string{"", "effects", "always", "required"}
	return order[max(slices.Index(order[:], a), slices.Index(order[:], b), 0)]
}

// leaseRights returns the rights of a tree's callers: those of the Runner, and those in its
// lease. If they cannot be evaluated, it returns an error and nothing may run.
func (r *Runner) leaseRights() ([]Rights, error) {
	var list []Rights
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
func (r *run) leasedRights() json.RawMessage {
	lease, list := Lease{Rights: r.tree.lease.Rights}, r.rights()
	if lease.HasRights() {
		list = list[:len(list)-1] // the last are those of the lease
	}
	for _, rights := range list {
		own, err := rights.MarshalJSON()
		if err != nil {
			return json.RawMessage(`false`) // the agent cannot evaluate it and does not run
		}
		lease = lease.Shrink(Lease{Rights: own})
	}
	return lease.Rights
}

// readDecision reads the answer to a question about a call: "allow", or an object with
// decision and reason. Everything else denies.
func readDecision(answer json.RawMessage) Verdict {
	doc, err := jsondoc.Parse(answer, jsondoc.Options{MaxBytes: 1 << 20, MaxDepth: 50, Strict: true})
	if err != nil {
		return Verdict{Decision: Deny, Reason: "the answer is not a decision"}
	}
	text := func(key string) string { return doc.Root.Member(key).Text() } // encoding/json takes "Decision" for decision
	return Verdict{Decision: Decision(cmp.Or(doc.Root.Text(), text("decision"), string(Deny))), Reason: text("reason"),
		Rule: text("rule"), Reviewer: text("reviewer"), Approval: text("approval")}
}
