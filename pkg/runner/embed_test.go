package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// silent is a Provider that returns nothing at all.
type silent struct{}

func (silent) Generate(context.Context, *agent.Request, func(agent.Delta)) (*agent.Response, error) {
	return nil, nil
}

// What a program forgot is an error that names it, however it starts the run.
func TestWhatAProgramForgotIsNamed(t *testing.T) {
	started := func(r *runner.Runner) error {
		c := r.Start(t.Context(), agent.Start{Args: json.RawMessage(`{"prompt": "go"}`)})
		for range c.Events() {
		}
		_, err := c.Wait()
		return err
	}
	stepped := func(r *runner.Runner) error {
		if err := r.Prompt(t.Context(), agent.UserText("go")); err != nil {
			return err
		}
		for {
			step, err := r.Step(t.Context())
			if err != nil || step.Kind == agent.StepPrompt {
				return err
			}
		}
	}
	ran := func(r *runner.Runner) error {
		_, err := r.Run(t.Context(), agent.UserText("go"))
		return err
	}
	for name, c := range map[string]struct {
		agent *agent.Agent
		want  string
	}{
		"no agent":        {nil, "the Runner has no Agent"},
		"no provider":     {&agent.Agent{Slug: "a"}, "ask model of a: the agent has no Provider"},
		"neither":         {&agent.Agent{Slug: "a", Model: "m", Provider: silent{}}, "ask model m: the Provider returned neither a response nor an error"},
		"nothing to name": {&agent.Agent{}, "the agent has no Provider"},
	} {
		for how, run := range map[string]func(*runner.Runner) error{"Start": started, "Step": stepped, "Run": ran} {
			t.Run(name+"/"+how, func(t *testing.T) {
				if err := run(&runner.Runner{Agent: c.agent}); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s = %v, want %q", how, err, c.want)
				}
			})
		}
	}
}

func TestStartNeedsNoVersion(t *testing.T) {
	r := &runner.Runner{Agent: &agent.Agent{Slug: "parrot", Provider: parrot{}, Toolsets: []agent.Toolset{agent.ToolList{shout}}}}
	c := r.Start(t.Context(), agent.Start{Args: json.RawMessage(`{"prompt": "hello"}`)})
	for range c.Events() {
	}
	if out, err := c.Wait(); err != nil || out.Answer != "HELLO!" {
		t.Errorf("Start without a version: %+v, %v; want HELLO!", out, err)
	}
}
