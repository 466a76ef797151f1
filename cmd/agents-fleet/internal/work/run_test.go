package work_test

import (
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

var oneTool = map[string]string{
	"agent.json": agentFile("root", `,"toolDirectory":"tools"`),
	"root.script.json": `{"rules":[
		{"when":{"role":"user"},"answer":{"calls":[{"tool":"bash_note","args":{"text":"one"}}]}},
		{"when":{"role":"tool"},"answer":{"text":"it said ${lastMessage}"}}]}`,
	"tools/note": toolFile("note", "once", `echo "$AGENTS_CALL_ID $3" >>"$FLEET_LOG"; echo "noted $3"`),
}

func TestRunWithATool(t *testing.T) {
	f := newFleet(t, oneTool)
	f.worker()
	run := f.submit("go")
	out := f.result(run)
	if out.Status != string(agent.StatusOK) {
		t.Errorf("status %s\n%s", out.Status, f.shown(run.GetID()))
	}
	t.Log(f.shown(run.GetID()))
	if got := f.lines(); len(got) != 1 || got[0] != run.GetID()+".1.1 one" {
		t.Errorf("the tool wrote %q", got)
	}
}
