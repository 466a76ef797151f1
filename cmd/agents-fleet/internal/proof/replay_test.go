package proof

import (
	"os"
	"path/filepath"
	"testing"

	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/pkg/agent"
)

func replayer(t *testing.T) worker.WorkflowReplayer {
	t.Helper()
	r := worker.NewWorkflowReplayer()
	r.RegisterWorkflowWithOptions(flow.Run, workflow.RegisterOptions{Name: flow.Workflow})
	return r
}

// TestRecordedHistories replays the histories of earlier builds. Those in testdata were
// written by TestRecord with RECORD=1; a change of the workflow that cannot replay them
// breaks runs in progress on workers that are not versioned.
func TestRecordedHistories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no histories: %v", err)
	}
	for _, file := range files {
		if err := replayer(t).ReplayWorkflowHistoryFromJSONFile(quiet{}, file); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestRecord replays histories of today: of a run with a sub-agent, of the sub-agent, of a
// run whose worker was killed, and of one that was cancelled.
func TestRecord(t *testing.T) {
	f := newFleet(t)
	folder, start := f.pack(noting("")), f.prompt(agent.Budget{})
	killed := f.worker("PROOF_KILL=after-append:9")
	second := f.submit(folder, start)
	<-killed.over()
	f.worker()
	f.await(second)
	whole := f.submit(folder, start)
	f.await(whole)
	cancelled := f.submit(f.pack(noting("sleep 60")), start)
	made := len(f.notes())
	f.until("a call is made", func() bool { return len(f.notes()) > made })
	if err := f.client.CancelWorkflow(t.Context(), cancelled, ""); err != nil {
		t.Fatal(err)
	}
	_ = f.client.GetWorkflow(t.Context(), cancelled, "").Get(t.Context(), nil)
	runs := map[string]string{"killed": second, "whole": whole, "cancelled": cancelled}
	for _, e := range f.events(whole) {
		if e.Kind == agent.EventSession && e.Depth > 0 {
			runs["sub-agent"] = e.Session
		}
	}
	if len(runs) != 4 {
		t.Fatalf("the run has no sub-agent\n%s", f.story(whole))
	}
	for name, id := range runs {
		h := &history.History{Events: f.history(id)}
		if err := replayer(t).ReplayWorkflowHistory(quiet{}, h); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if os.Getenv("RECORD") == "" {
			continue
		}
		data, err := protojson.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		f.file(filepath.Join("testdata", name+".json"), string(data), 0o644)
	}
}
