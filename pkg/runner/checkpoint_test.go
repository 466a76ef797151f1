package runner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
)

// harmless is a tool that only looks.
type harmless struct{ tool }

func (h harmless) Spec() agent.ToolSpec {
	spec := h.tool.Spec()
	spec.Effects = agent.EffectsNone
	return spec
}

// A checkpoint precedes each call with effects, also those of sub-agents, with the turn of the
// root session. One that fails is a warning, and the call runs.
func TestCheckpointsOfCallsWithEffects(t *testing.T) {
	var log []string
	note := func(format string, args ...any) { log = append(log, fmt.Sprintf(format, args...)) }
	edit := tool{"edit", func(context.Context, *agent.Invocation) (agent.Result, error) {
		note("edit")
		return agent.Result{}, nil
	}}
	look := harmless{tool{"look", edit.call}}
	expert := newAgent(byTurn("", calls(call("", "edit", "{}")), text("done")), edit)
	lead := newAgent(byTurn("", calls(call("", "look", "{}")), calls(call("", "expert", `{"prompt":"q"}`)), calls(call("", "edit", "{}")), text("done")),
		edit, look, &agent.Subagent{Name: "expert", Agent: expert})
	n := 0
	r := &runner.Runner{Agent: lead,
		Checkpoint: func(_ context.Context, turn int) (func(), error) {
			n++
			note("before %d", turn)
			if n == 2 {
				return func() { note("failed") }, errors.New("the disk is full")
			}
			return func() { note("ended") }, nil
		},
		Observe: func(e agent.Event) {
			switch e.Kind {
			case agent.EventWarning:
				note("%s", e.Text)
			case agent.EventCallStarted, agent.EventCallEnded:
				note("%s %s", e.Kind, e.Tool)
			}
		},
	}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"call_started look", "edit", "call_ended look",
		"call_started expert", "before 2", "call_started edit", "edit", "call_ended edit", "ended", "call_ended expert",
		"before 3", "what this call changes is not kept: the disk is full", "call_started edit", "edit", "call_ended edit", "failed",
	}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}
