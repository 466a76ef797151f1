package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// inWorkspace is an agent of which each call works in another folder than its caller.
type inWorkspace struct {
	agent.Subagent
	dir string
}

func (w *inWorkspace) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	a := *w.Agent
	a.Here, a.WorkDir = true, w.dir
	return agent.AnswerOf(inv.Run(ctx, &a, agent.UserText("x")))
}

// TestConditionsOfAnAgentWithAWorkspaceAreAboutItsFiles.
func TestConditionsOfAnAgentWithAWorkspaceAreAboutItsFiles(t *testing.T) {
	caller, work := t.TempDir(), t.TempDir()
	write := tool{"write", func(context.Context, *agent.Invocation) (agent.Result, error) {
		return agent.Result{}, os.WriteFile(filepath.Join(work, "out.txt"), []byte("x"), 0o644)
	}}
	expert := newAgent(byTurn("", calls(call("", "write", "{}")), text("done")), write)
	expert.WorkDir = caller
	sub := &inWorkspace{agent.Subagent{Name: "expert", Agent: expert, Expect: agent.Expect{Receipt: agent.ReceiptFull,
		Accept: []agent.Condition{{File: "out.txt"}, {Changed: []string{"out.txt"}}}}}, work}
	lead := newAgent(byTurn("", calls(call("", "expert", `{"prompt":"q"}`)), text("done")), sub)
	j := &journal{}
	_, err := (&runner.Runner{Agent: lead, Journal: j}).Run(t.Context(), agent.UserText("go"))
	i := slices.IndexFunc(j.events, func(e agent.Event) bool { return e.Kind == agent.EventCallEnded && e.Tool == "expert" })
	if err != nil || i < 0 || j.events[i].Result.Failed || j.events[i].Receipt == nil || j.events[i].Receipt.Files.Dir != work || len(j.events[i].Receipt.Files.Changes) != 1 {
		t.Fatalf("%v; the call ended with %+v, %+v", err, j.events[i].Result, j.events[i].Receipt)
	}
}
