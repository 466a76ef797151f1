package runner

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

// unwritable are rights that cannot be sent.
type unwritable struct{ judging }

func (*unwritable) MarshalJSON() ([]byte, error) { return nil, errors.New("broken") }

// TestALeaseHasTheRightsOfAllAbove, each once, or none that permit.
func TestALeaseHasTheRightsOfAllAbove(t *testing.T) {
	for _, tt := range []struct {
		own  agent.Rights
		raw  string
		want string
	}{
		{&judging{}, "", `[{"source":"s"}]`}, {&judging{}, "[]", `[{"source":"s"}]`}, {&judging{}, "[1]", `[1,{"source":"s"}]`}, {nil, "[1]", "[1]"}, {nil, "", ""}, {&unwritable{}, "[1]", "false"}, {&unwritable{}, "", "false"},
	} {
		r, _ := ruled(agent.Verdict{}, agent.Verdict{})
		r.agent.Rights, r.tree.lease.Rights = tt.own, json.RawMessage(tt.raw)
		if len(tt.raw) > 2 {
			r.tree.rights = []agent.Rights{&unwritable{}} // they are sent as they came
		}
		if got := string(r.leasedRights()); got != tt.want {
			t.Errorf("the rights of a lease with %s are %s, want %s", tt.raw, got, tt.want)
		}
	}
}

// TestOnlyACallThatMayRunIsShownToPolicies of others.
func TestOnlyACallThatMayRunIsShownToPolicies(t *testing.T) {
	for _, tt := range []struct {
		runner, own agent.Decision
		external    bool
		asked       int
	}{{agent.Allow, agent.Allow, true, 1}, {agent.AskPerson, agent.Allow, true, 1}, {agent.Allow, agent.AskPerson, true, 1}, {agent.Deny, agent.Allow, true, 0}, {agent.Allow, agent.Deny, true, 0}, {agent.Allow, agent.Allow, false, 0}} {
		r, inv := ruled(agent.Verdict{}, agent.Verdict{})
		n := &noting{judging: judging{agent.Verdict{Decision: tt.own, External: tt.external}, agent.Verdict{Decision: agent.Allow}}}
		r.agent.Rights = n
		r.tree.policy = func(context.Context, *agent.Invocation) agent.Verdict { return agent.Verdict{Decision: tt.runner} }
		if r.tree.decide(t.Context(), inv); len(n.effects) != tt.asked {
			t.Errorf("%+v: asked %d times", tt, len(n.effects))
		}
	}
	// A call of no run needs only what the Runner's policy says.
	r, inv := ruled(agent.Verdict{Decision: agent.Deny}, agent.Verdict{})
	inv.Driver, r.tree.policy = nil, func(context.Context, *agent.Invocation) agent.Verdict {
		return agent.Verdict{Decision: agent.Allow, Rule: "r"}
	}
	if v := r.tree.decide(t.Context(), inv); v != (agent.Verdict{Decision: agent.Allow, Rule: "r"}) {
		t.Errorf("decide of a call without a run = %+v", v)
	}
}

// TestRequirementsOfVerdictsAreCombined only of those that ask.
func TestRequirementsOfVerdictsAreCombined(t *testing.T) {
	for _, v := range []bool{true, false} {
		for _, w := range []bool{true, false} {
			got := agent.Verdict{Decision: agent.Allow, NoLinks: v, External: v}.And(agent.Verdict{Decision: agent.Allow, NoLinks: w, External: w})
			if got.NoLinks != (v || w) || got.External != (v || w) {
				t.Errorf("%t and %t are %+v", v, w, got)
			}
		}
	}
	ask, human := agent.Verdict{Decision: agent.AskPerson, Rule: "a"}, agent.Verdict{Decision: agent.AskPerson, Rule: "h", Reviewer: "human", Approval: "always"}
	for _, d := range []agent.Decision{agent.Allow, agent.Deny} {
		other := human
		other.Decision = d
		for _, got := range []agent.Verdict{ask.And(other), other.And(ask)} {
			if want := d == agent.Deny; (got.Reviewer != "") != want || (got.Approval != "") != want {
				t.Errorf("a question and %s are %+v", d, got)
			}
		}
	}
}

// pathed are rights that note the path of the calls about which they are asked.
type pathed struct {
	judging
	path []string
}

func (p *pathed) Decide(inv *agent.Invocation) agent.Verdict {
	p.path = inv.Path
	return agent.Verdict{Decision: agent.Allow}
}

// TestCallsOfAChildAreJudgedAtTheirPath, from the root on.
func TestCallsOfAChildAreJudgedAtTheirPath(t *testing.T) {
	r, inv := ruled(agent.Verdict{}, agent.Verdict{})
	p := &pathed{}
	r.agent.Rights = p
	var up *remote
	above := &r.node
	for _, name := range []string{"x", "y", "z"} {
		up = &remote{node: node{tree: r.tree, agent: &agent.Agent{Slug: name}, session: &agent.Session{}, up: above}, callKey: inv.Key}
		above, up.session.Agent = &up.node, name
	}
	if err := r.permitted(inv, up, &agent.Event{Kind: agent.EventCallStarted, Tool: "t", Args: "{}"}); err != nil {
		t.Fatal(err)
	}
	if got := len(p.path); got != 4 || p.path[0] != "root" || p.path[1] != "x" || p.path[3] != "z" {
		t.Errorf("the path is %q", p.path)
	}
}
