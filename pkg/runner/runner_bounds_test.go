package runner

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"

	"github.com/agents-exe/agents/pkg/leaf/redact"
)

// commanding is a tool that tells what it executes.
type commanding struct{ toolOf }

func (commanding) Command(*agent.Invocation) ([]string, string) { return []string{"prog"}, "sha256:x" }

// TestTheGateOfARunIsThatOfItsRunner.
func TestTheGateOfARunIsThatOfItsRunner(t *testing.T) {
	for _, journalled := range []bool{false, true} {
		tool := commanding{func() (agent.Result, error) { return agent.Result{}, nil }}
		var shown []agent.Event
		r := &Runner{Agent: &agent.Agent{Provider: &answersOf{said("", agent.Usage{}, agent.ToolCall{Name: "t", Args: "{}"}), said("done", agent.Usage{})}, Toolsets: []agent.Toolset{agent.ToolList{tool}}}, Observe: func(e agent.Event) { shown = append(shown, e) }}
		if journalled {
			r.Journal = &kept{}
		}
		if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
			t.Fatal(err)
		}
		for _, e := range shown {
			if e.Kind == agent.EventCallStarted && (len(e.Argv) > 0) != journalled {
				t.Errorf("with a journal: %t: the start has the command %q", journalled, e.Argv)
			}
			if has := e.Total != nil; has != (e.Kind == agent.EventEnd) {
				t.Errorf("the event %s has a total: %t", e.Kind, has)
			}
		}
	}
	ask := func(context.Context, *agent.Invocation, agent.Verdict) agent.Verdict {
		return agent.Verdict{Rule: "own"}
	}
	person := func(context.Context, agent.Event) (json.RawMessage, error) { return json.RawMessage(`"allow"`), nil }
	for _, tt := range []struct {
		r    *Runner
		rule string
		asks bool
	}{{&Runner{}, "", false}, {&Runner{Ask: ask}, "own", true}, {&Runner{Person: person}, "", true}, {&Runner{Ask: ask, Person: person}, "own", true}} {
		tt.r.Agent, tt.r.Lease.Path = &agent.Agent{}, []string{"above"}
		g := &tt.r.root().tree.gate
		if (g.Ask != nil) != tt.asks || g.Redact != nil {
			t.Errorf("%+v: the gate asks: %t, redacts: %t", tt, g.Ask != nil, g.Redact != nil)
		} else if tt.asks {
			inv := &agent.Invocation{Caller: tt.r.root(), Driver: &call{run: tt.r.root()}}
			if v := g.Ask(t.Context(), inv, agent.Verdict{Decision: agent.AskPerson}); v.Rule != tt.rule || tt.rule == "" && v.Decision != agent.Allow {
				t.Errorf("%+v: the answer is %+v", tt, v)
			}
		}
	}
	secrets := &redact.Redactor{}
	if g := &(&Runner{Agent: &agent.Agent{}, Secrets: secrets}).root().tree.gate; g.Redact == nil {
		t.Error("the gate of a run with secrets does not redact")
	}
	if Redact(nil, nil) != nil || Redact(secrets, nil) != nil || Redact(nil, func(agent.Event) {}) == nil || Redact(secrets, func(agent.Event) {}) == nil {
		t.Error("an observer is there without need, or missing")
	}
}
