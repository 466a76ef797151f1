package proof

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/pkg/agent"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"
)

// noting calls its tool in four turns, in one of them twice at the same time, and a
// sub-agent that calls a tool.
func noting(then string) agentDef {
	return agentDef{Slug: "root", Then: then, Rules: []rule{
		calls(1, "bash_note"), calls(2, "bash_note", "bash_note"), calls(3, "expert_helper"), calls(4, "bash_note"), says(5, "done"),
	}, Below: []agentDef{{Slug: "helper", Then: then, Rules: []rule{calls(1, "bash_note"), says(2, "helped")}}}}
}

const notingCalls = 5

// TestWorkerKilledAtEveryBoundary kills a worker before and after each activity, and before
// and after each append to the record. Another worker takes over.
func TestWorkerKilledAtEveryBoundary(t *testing.T) {
	f := newFleet(t)
	folder, start := f.pack(noting("")), f.prompt(agent.Budget{})
	points := f.points(folder, start)
	if !full { // a part, spread over all of them
		var some []string
		for i := 0; i < len(points); i += max(len(points)/10, 1) {
			some = append(some, points[i])
		}
		points = some
	}
	places := make(chan struct{}, 4)
	var all sync.WaitGroup
	for i, point := range points {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			t.Run(point, func(t *testing.T) { f.on(t, fmt.Sprintf("kill%d", i)).killedAt(point, folder, start) })
		})
	}
	all.Wait()
	t.Logf("%d kills", len(points))
}

// on is the fleet for a test below, with a task queue of its own.
func (f *fleet) on(t *testing.T, queue string) *fleet {
	other := *f
	other.T, other.queue = t, queue
	return &other
}

// points returns all points of a run, as PROOF_KILL has them.
func (f *fleet) points(folder, start string) []string {
	f.Helper()
	file := filepath.Join(f.dir, "points")
	w := f.on(f.T, "points").worker("PROOF_POINTS=" + file)
	id := f.on(f.T, "points").submit(folder, start)
	if r := f.await(id); r.Status != string(agent.StatusOK) {
		f.Fatalf("the run ended as %s\n%s%s", r.Status, f.story(id), w.stderr)
	}
	if made := f.calledOnce(id, f.notes()); made != notingCalls {
		f.Fatalf("%d calls were made, want %d\n%s", made, notingCalls, f.story(id))
	}
	w.kill()
	data, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	count := map[string]int{}
	var list []string
	for line := range strings.Lines(string(data)) {
		point := strings.TrimSpace(line)
		count[point]++
		list = append(list, fmt.Sprintf("%s:%d", point, count[point]))
	}
	return list
}

// killedAt lets a worker die at a point, and another one continue.
func (f *fleet) killedAt(point, folder, start string) {
	first := f.worker("PROOF_KILL=" + point)
	id := f.submit(folder, start)
	select {
	case <-first.over():
	case <-time.After(time.Minute):
		// What runs at the same time can be done with fewer appends.
		f.Logf("the worker did not reach %s", point)
		first.kill()
	}
	second := f.worker()
	r := f.await(id)
	if r.Status != string(agent.StatusOK) {
		f.Errorf("the run ended as %s\n%s%s", r.Status, f.story(id), second.stderr)
	}
	f.calledOnce(id, f.notes())
	second.kill()
}

// over is closed when the process has ended.
func (p *process) over() <-chan struct{} {
	go func() { _ = p.wait() }()
	return p.ended
}

// TestWorkersKilledAtRandom kills one of four workers every now and then.
func TestWorkersKilledAtRandom(t *testing.T) {
	f := newFleet(t)
	folder, start := f.pack(noting("sleep 0.1; echo noted")), f.prompt(agent.Budget{})
	random := rand.New(rand.NewPCG(1, 2))
	var workers []*process
	for range 4 {
		workers = append(workers, f.worker())
	}
	var ids []string
	kills := size(6, 130)
	for range kills {
		ids = append(ids, f.submit(folder, start))
		time.Sleep(time.Duration(200+random.IntN(1000)) * time.Millisecond)
		i := random.IntN(len(workers))
		workers[i].kill()
		workers[i] = f.worker()
	}
	elsewhere, unknown := 0, 0
	for _, id := range ids {
		if r := f.await(id); r.Status != string(agent.StatusOK) {
			t.Errorf("run %s ended as %s\n%s", id, r.Status, f.story(id))
		}
		if len(f.workers(id)) > 1 {
			elsewhere++
		}
	}
	notes := f.notes()
	for _, id := range ids {
		unknown += notingCalls - f.calledOnce(id, notes)
	}
	t.Logf("%d kills, %d runs, %d of them on several workers, %d calls not made (of unknown outcome)", kills, len(ids), elsewhere, unknown)
}

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
