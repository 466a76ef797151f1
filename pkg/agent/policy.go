package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
)

// A Decision is what becomes of a call.
type Decision string

// What a Policy may decide. Anything else denies.
const (
	Allow     Decision = "allow"
	Deny      Decision = "deny"
	AskPerson Decision = "ask"
)

// A Verdict is what a Policy says about a call. Reason is for the model and for
// the record. Every verdict is recorded, but for Allow without a Reason and a Rule.
type Verdict struct {
	Decision Decision `json:"decision"`
	Reason   string   `json:"reason,omitempty"`
	// Rule names the rule that decided, and the file that has it; "" if none did.
	Rule string `json:"rule,omitempty"`
	// Reviewer "human" says that nothing but a person may answer AskPerson.
	Reviewer string `json:"reviewer,omitempty"`
	// Approval is why a person is asked where no rule says so: "always", "effects"
	// (an answer may be remembered) or "required" (without a person the run is refused).
	Approval string `json:"approval,omitempty"`
	// External says that an external policy must agree too; see Rights.
	External bool `json:"-"`
	// Args are the arguments with which Rights judged the call, if they are not those of the
	// model: its command line, printed as the words that were judged, and paths without links.
	// The call runs with them.
	Args string `json:"-"`
	// NoLinks says that a rule has judged a path among the arguments: see Invocation.NoLinks.
	NoLinks bool `json:"-"`
}

// A Policy decides whether a call may run. Its arguments have been decoded and
// fit the schema of the tool. It is safe for concurrent use.
type Policy func(ctx context.Context, inv *Invocation) Verdict

// Denies reports whether the call must not run: v neither allows it nor asks a person.
func (v Verdict) Denies() bool { return strictness(v.Decision) == strictness(Deny) }

func strictness(d Decision) int {
	switch d {
	case Allow:
		return 0
	case AskPerson:
		return 1
	}
	return 2
}

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
