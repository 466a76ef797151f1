package runner_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// hookedRights have hooks for every moment.
type hookedRights struct {
	namedRights
	hook func(c *agent.HookCall) (agent.HookAnswer, error)
}

func (r *hookedRights) Hooks(string) []agent.Hook {
	return []agent.Hook{{Name: "h", Run: func(_ context.Context, c *agent.HookCall) (agent.HookAnswer, error) { return r.hook(c) }}}
}

// TestHooksOfPromptsAndEnds runs hooks at the moments of a run: a message during it is a prompt,
// and the end is told how the run ended, also if that is an interruption.
func TestHooksOfPromptsAndEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []string
	rights := &hookedRights{hook: func(c *agent.HookCall) (a agent.HookAnswer, err error) {
		seen = append(seen, strings.TrimSpace(c.Hook+" "+c.Tool+c.Prompt+string(c.Status)+c.Answer))
		switch {
		case c.Hook == agent.HookSessionStart:
			a.Context = "a day"
		case c.Prompt == "drop":
			a.Deny = "no"
		case c.Prompt == "keep":
			a.Context = "a note"
		case c.Hook == agent.HookEnd && c.Status != agent.StatusOK:
			err = errors.New("broken")
		}
		return a, err
	}}
	a := &agent.Agent{Slug: "a", Rights: rights, Provider: &model{answers: []*agent.Response{calls(call("", "t", "{}")), text("done"), text("done")}}}
	var warnings, prompts []string
	r := &runner.Runner{Agent: a, Observe: func(e agent.Event) {
		switch {
		case e.Kind == agent.EventWarning:
			warnings = append(warnings, e.Text)
		case e.Kind == agent.EventMessage:
			prompts = append(prompts, e.Message.Text())
		}
	}}
	a.Toolsets = []agent.Toolset{agent.ToolList{callTool(func() {
		r.Input(agent.UserText("drop"))
		r.Input(agent.UserText("keep"))
	})}}
	if _, err := r.Run(ctx, agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := r.Run(ctx, agent.UserText("again")); err == nil {
		t.Error("the second run is not interrupted")
	}
	want := []string{"session_start", "before_prompt go", "before_call t", "after_call t", "before_prompt drop", "before_prompt keep", "end ok", "before_prompt again", "end interrupted"}
	if last := seen[6]; strings.HasPrefix(last, "end ok") {
		seen[6] = "end ok"
	}
	if !slices.Equal(seen, want) {
		t.Errorf("the hooks ran for %q, want %q", seen, want)
	}
	if want := []string{"go\n\n[added by hook h]\na day", "keep\n\n[added by hook h]\na note", "again"}; !slices.Equal(prompts, want) {
		t.Errorf("the prompts are %q, want %q", prompts, want)
	}
	if len(warnings) != 2 || !strings.Contains(warnings[0], "a message is not sent to the model: refused by policy: no (hook h)") || !strings.Contains(warnings[1], "hook h failed at end: broken") {
		t.Errorf("the warnings are %q", warnings)
	}
}

// callTool is a tool t that does something.
type callTool func()

func (callTool) Spec() agent.ToolSpec { return (&rightsTool{name: "t"}).Spec() }
func (f callTool) Call(context.Context, *agent.Invocation) (agent.Result, error) {
	f()
	return agent.TextResult("ran"), nil
}
