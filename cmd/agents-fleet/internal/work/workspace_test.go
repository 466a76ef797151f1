package work_test

import (
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/archive"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/work"
	"github.com/agents-exe/agents/pkg/agent"
)

// sharing is an agent whose tools share files: the first call writes one, the second one
// waits, the third one, of a sub-agent, reads the file.
var sharing = map[string]string{
	"agent.json": agentFile("root", `,"toolDirectory":"tools"`),
	"root.script.json": `{"rules":[
		{"when":{"turn":1},"answer":{"calls":[{"tool":"bash_note","args":{"text":"write"}}]}},
		{"when":{"turn":2},"answer":{"calls":[{"tool":"bash_note","args":{"text":"wait"}}]}},
		{"when":{"turn":3},"answer":{"calls":[{"tool":"expert_reader","args":{"prompt":"r"}}]}},
		{"when":{"role":"tool"},"answer":{"text":"it read ${lastMessage}"}}]}`,
	"tools/note": toolFile("note", "once", `case $3 in
write) echo precious >state ;;
wait) echo $$ >>"$FLEET_LOG"; while [ ! -e "$FLEET_LOG.go" ]; do sleep 0.05; done ;;
read) cat state ;;
esac`),
	"tools/reader.json":        agentFile("reader", `,"toolDirectory":"readers"`),
	"tools/reader.script.json": `{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"bash_note","args":{"text":"read"}}]}},{"when":{"role":"tool"},"answer":{"text":"${lastMessage}"}}]}`,
}

func TestAWorkspaceMovesToAnotherHost(t *testing.T) {
	files := sharing
	files["tools/readers/note"] = files["tools/note"]
	f := newFleet(t, files)
	stop := f.worker()
	run := f.submit("go", func(_ *agent.Start, in *flow.Input) {
		spec, err := archive.Spec(t.Context(), f.store, "run", archive.Empty)
		if err != nil {
			t.Fatal(err)
		}
		in.Options.Workspace, in.Options.TakeOver = spec, time.Second
	})
	f.wait(run.GetID(), "the second call", func(e agent.Event) bool { return callStarted(e) && e.Turn == 2 })
	f.pid()
	f.worker(func(o *work.Options) { o.Dir = t.TempDir() }) // it has never seen the workspace
	stop()
	if out, text := f.result(run), f.shown(run.GetID()); out.Status != string(agent.StatusOK) || !strings.Contains(text, "it read precious") {
		t.Errorf("status %s\n%s", out.Status, text)
	}
}
