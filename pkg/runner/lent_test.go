package runner_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// TestARequestOfAProgramIsNoAgentInReceipts: what its tool changes counts as a change.
func TestARequestOfAProgramIsNoAgentInReceipts(t *testing.T) {
	ask := tool{"edit", func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
		_, err := runner.AskLent(ctx, inv, runner.ProgramRequest{Model: "lent", Request: &agent.Request{Messages: []agent.Message{agent.UserText("q")}}, Prompt: "q"}, func(agent.Delta) {})
		return agent.Result{}, err
	}}
	check := harmless{tool{"check", func(context.Context, *agent.Invocation) (agent.Result, error) { return agent.Result{}, nil }}}
	expert := newAgent(byTurn("", calls(call("", "check", "{}")), calls(call("", "edit", "{}")), text("done"), text("done"), text("done"), text("done")), ask, check)
	expert.Lend, expert.LendTools = []agent.Loan{{Name: "lent", Model: "lent", Provider: byTurn("", text("lent answer"))}}, []string{"edit"}
	expert.Accept = []agent.Condition{{Call: "check", After: agent.LastChange}}
	sub := &agent.Subagent{Name: "expert", Agent: expert, Expect: agent.Expect{Receipt: agent.ReceiptFull}}
	lead := newAgent(byTurn("", calls(call("", "expert", `{"prompt":"q"}`)), text("done")), sub)
	j := &journal{}
	_, err := (&runner.Runner{Agent: lead, Journal: j}).Run(t.Context(), agent.UserText("go"))
	i := slices.IndexFunc(j.events, func(e agent.Event) bool { return e.Kind == agent.EventCallEnded && e.Tool == "expert" })
	if err != nil || i < 0 || j.events[i].Receipt == nil {
		t.Fatalf("%v; event %d", err, i)
	}
	if e := j.events[i]; e.Receipt.Agents != 0 || !e.Result.Failed || !strings.Contains(e.Result.Text(), "after the last change") {
		t.Errorf("%d agents; the result is %q", e.Receipt.Agents, e.Result.Text())
	}
}
