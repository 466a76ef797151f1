package agent

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/agents-exe/agents/pkg/leaf/redact"
)

// unwritable are rights that cannot be sent.
type unwritable struct{ judging }

func (*unwritable) MarshalJSON() ([]byte, error) { return nil, errors.New("broken") }

// TestALeaseHasTheRightsOfAllAbove, each once, or none that permit.
func TestALeaseHasTheRightsOfAllAbove(t *testing.T) {
	for _, tt := range []struct {
		own  Rights
		raw  string
		want string
	}{
		{&judging{}, "", `[{"source":"s"}]`}, {&judging{}, "[]", `[{"source":"s"}]`}, {&judging{}, "[1]", `[1,{"source":"s"}]`}, {nil, "[1]", "[1]"}, {nil, "", ""}, {&unwritable{}, "[1]", "false"}, {&unwritable{}, "", "false"},
	} {
		r, _ := ruled(Verdict{}, Verdict{})
		r.agent.Rights, r.tree.lease.Rights = tt.own, json.RawMessage(tt.raw)
		if hasRights(r.tree.lease.Rights) {
			r.tree.rights = []Rights{&unwritable{}} // they are sent as they came
		}
		if got := string(r.leasedRights()); got != tt.want {
			t.Errorf("the rights of a lease with %s are %s, want %s", tt.raw, got, tt.want)
		}
	}
}

// TestOnlyACallThatMayRunIsShownToPolicies of others.
func TestOnlyACallThatMayRunIsShownToPolicies(t *testing.T) {
	for _, tt := range []struct {
		runner, own Decision
		external    bool
		asked       int
	}{{Allow, Allow, true, 1}, {AskPerson, Allow, true, 1}, {Allow, AskPerson, true, 1}, {Deny, Allow, true, 0}, {Allow, Deny, true, 0}, {Allow, Allow, false, 0}} {
		r, inv := ruled(Verdict{}, Verdict{})
		n := &noting{judging: judging{Verdict{Decision: tt.own, External: tt.external}, Verdict{Decision: Allow}}}
		r.agent.Rights = n
		r.tree.policy = func(context.Context, *Invocation) Verdict { return Verdict{Decision: tt.runner} }
		if r.tree.decide(t.Context(), inv); len(n.effects) != tt.asked {
			t.Errorf("%+v: asked %d times", tt, len(n.effects))
		}
	}
	// A call of no run needs only what the Runner's policy says.
	r, inv := ruled(Verdict{Decision: Deny}, Verdict{})
	inv.run, r.tree.policy = nil, func(context.Context, *Invocation) Verdict { return Verdict{Decision: Allow, Rule: "r"} }
	if v := r.tree.decide(t.Context(), inv); v != (Verdict{Decision: Allow, Rule: "r"}) {
		t.Errorf("decide of a call without a run = %+v", v)
	}
}

// TestRequirementsOfVerdictsAreCombined only of those that ask.
func TestRequirementsOfVerdictsAreCombined(t *testing.T) {
	for _, v := range []bool{true, false} {
		for _, w := range []bool{true, false} {
			got := Verdict{Decision: Allow, NoLinks: v, External: v}.And(Verdict{Decision: Allow, NoLinks: w, External: w})
			if got.NoLinks != (v || w) || got.External != (v || w) {
				t.Errorf("%t and %t are %+v", v, w, got)
			}
		}
	}
	ask, human := Verdict{Decision: AskPerson, Rule: "a"}, Verdict{Decision: AskPerson, Rule: "h", Reviewer: "human", Approval: "always"}
	for _, d := range []Decision{Allow, Deny} {
		other := human
		other.Decision = d
		for _, got := range []Verdict{ask.And(other), other.And(ask)} {
			if want := d == Deny; (got.Reviewer != "") != want || (got.Approval != "") != want {
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

func (p *pathed) Decide(inv *Invocation) Verdict {
	p.path = inv.Path
	return Verdict{Decision: Allow}
}

// TestCallsOfAChildAreJudgedAtTheirPath, from the root on.
func TestCallsOfAChildAreJudgedAtTheirPath(t *testing.T) {
	r, inv := ruled(Verdict{}, Verdict{})
	p := &pathed{}
	r.agent.Rights = p
	var up *remote
	for _, name := range []string{"x", "y", "z"} {
		up = &remote{session: &Session{}, callKey: inv.Key, up: up}
		up.session.Agent = name
	}
	if err := r.permitted(inv, up, &Event{Kind: EventCallStarted, Tool: "t", Args: "{}"}); err != nil {
		t.Fatal(err)
	}
	if got := len(p.path); got != 4 || p.path[0] != "root" || p.path[1] != "x" || p.path[3] != "z" {
		t.Errorf("the path is %q", p.path)
	}
}

// commanding is a tool that tells what it executes.
type commanding struct{ toolOf }

func (commanding) Command(*Invocation) ([]string, string) { return []string{"prog"}, "sha256:x" }

// TestTheGateOfARunIsThatOfItsRunner.
func TestTheGateOfARunIsThatOfItsRunner(t *testing.T) {
	for _, journalled := range []bool{false, true} {
		tool := commanding{func() (Result, error) { return Result{}, nil }}
		var shown []Event
		r := &Runner{Agent: &Agent{Provider: &answersOf{said("", Usage{}, ToolCall{Name: "t", Args: "{}"}), said("done", Usage{})}, Toolsets: []Toolset{ToolList{tool}}}, Observe: func(e Event) { shown = append(shown, e) }}
		if journalled {
			r.Journal = &kept{}
		}
		if _, err := r.Run(t.Context(), UserText("go")); err != nil {
			t.Fatal(err)
		}
		for _, e := range shown {
			if e.Kind == EventCallStarted && (len(e.Argv) > 0) != journalled {
				t.Errorf("with a journal: %t: the start has the command %q", journalled, e.Argv)
			}
			if has := e.Total != nil; has != (e.Kind == EventEnd) {
				t.Errorf("the event %s has a total: %t", e.Kind, has)
			}
		}
	}
	ask := func(context.Context, *Invocation, Verdict) Verdict { return Verdict{Rule: "own"} }
	person := func(context.Context, Event) (json.RawMessage, error) { return json.RawMessage(`"allow"`), nil }
	for _, tt := range []struct {
		r    *Runner
		rule string
		asks bool
	}{{&Runner{}, "", false}, {&Runner{Ask: ask}, "own", true}, {&Runner{Person: person}, "", true}, {&Runner{Ask: ask, Person: person}, "own", true}} {
		tt.r.Agent, tt.r.Lease.Path = &Agent{}, []string{"above"}
		g := &tt.r.root().tree.gate
		if (g.Ask != nil) != tt.asks || g.Redact != nil {
			t.Errorf("%+v: the gate asks: %t, redacts: %t", tt, g.Ask != nil, g.Redact != nil)
		} else if tt.asks {
			inv := &Invocation{Host: tt.r.root(), run: tt.r.root()}
			if v := g.Ask(t.Context(), inv, Verdict{Decision: AskPerson}); v.Rule != tt.rule || tt.rule == "" && v.Decision != Allow {
				t.Errorf("%+v: the answer is %+v", tt, v)
			}
		}
	}
	secrets := &redact.Redactor{}
	if g := &(&Runner{Agent: &Agent{}, Secrets: secrets}).root().tree.gate; g.Redact == nil {
		t.Error("the gate of a run with secrets does not redact")
	}
	if Redact(nil, nil) != nil || Redact(secrets, nil) != nil || Redact(nil, func(Event) {}) == nil || Redact(secrets, func(Event) {}) == nil {
		t.Error("an observer is there without need, or missing")
	}
}

// TestAQuestionAsAForm of MCP servers and of agents.
func TestAQuestionAsAForm(t *testing.T) {
	for _, tt := range []struct {
		e           Event
		asker, form string
	}{
		{Event{What: "elicit", Tool: "srv", Path: []string{"a", "b"}, Schema: json.RawMessage(`{"x":1}`)}, "srv of agent a > b", `{"x":1}`}, {Event{What: "elicit", Path: []string{"a"}}, "agent a", ""}, {Event{What: "ask", Tool: "t", Path: []string{"a"}, Schema: json.RawMessage("1")}, "agent a", `{"properties":{"answer":{"type":"string"}},"required":["answer"],"type":"object"}`},
		{Event{What: "ask", Path: []string{"a"}, Choices: []string{"y", "n"}}, "agent a", `{"properties":{"answer":{"enum":["y","n"],"type":"string"}},"required":["answer"],"type":"object"}`},
	} {
		if tt.e.Asker() != tt.asker || string(tt.e.Form()) != tt.form {
			t.Errorf("%+v: %q asks with %s", tt.e, tt.e.Asker(), tt.e.Form())
		}
	}
	for _, tt := range []struct{ what, action, content, want string }{
		{"elicit", "accept", `{"x":1}`, `{"action":"accept","content":{"x":1}}`}, {"elicit", "decline", "", `{"action":"decline"}`},
		{"ask", "accept", `{"answer":"y"}`, `"y"`}, {"ask", "decline", `{"answer":"y"}`, ""}, {"ask", "accept", `{}`, ""}, {"ask", "accept", `[`, ""}, {"ask", "accept", `["y"]`, ""}, {"ask", "cancel", ``, ""},
	} {
		got, err := (&Event{What: tt.what}).Filled(tt.action, json.RawMessage(tt.content))
		if string(got) != tt.want || (err == ErrNobody) != (tt.want == "") {
			t.Errorf("%+v: %s, %v", tt, got, err)
		}
	}
}
