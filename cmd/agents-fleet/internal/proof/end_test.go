package proof

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/agents-exe/agents/pkg/agent"
)

// TestCancelledRunLeavesNoProcess cancels a run whose tools, its own and a sub-agent's, run
// programs in the background.
func TestCancelledRunLeavesNoProcess(t *testing.T) {
	f := newFleet(t)
	f.worker()
	mark := fmt.Sprintf("77%d", os.Getpid())
	then := "sleep " + mark + " & sleep " + mark
	folder := f.pack(agentDef{Slug: "root", Then: then, Rules: []rule{calls(1, "bash_note", "expert_helper"), says(2, "done")},
		Below: []agentDef{{Slug: "helper", Then: then, Rules: []rule{calls(1, "bash_note"), says(2, "helped")}}}})
	id := f.submit(folder, f.prompt(agent.Budget{}))
	f.until("both tools run", func() bool { return len(running("sleep", mark)) == 4 })
	if err := f.client.CancelWorkflow(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := f.client.GetWorkflow(ctx, id, "").Get(ctx, nil); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("the workflow ended with %v, want one that was cancelled", err)
	}
	if left := running("sleep", mark); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	ends := map[string]agent.Status{}
	for _, e := range f.events(id) {
		if e.Kind == agent.EventEnd {
			ends[e.Agent] = e.Status
		}
	}
	if ends["root"] != agent.StatusInterrupted || ends["helper"] != agent.StatusInterrupted {
		t.Errorf("the sessions ended as %v\n%s", ends, f.story(id))
	}
}

// running lists the processes with this command line.
func running(args ...string) []string {
	want := []byte(strings.Join(args, "\x00") + "\x00")
	var list []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && bytes.Equal(data, want) {
			list = append(list, file)
		}
	}
	return list
}

// TestStoppedWorkerGivesBackItsWork stops a worker as a deployment does, with SIGTERM, while
// its tool is running. Nobody reads that the run was interrupted.
func TestStoppedWorkerGivesBackItsWork(t *testing.T) {
	f := newFleet(t)
	first := f.worker()
	gate := filepath.Join(f.dir, "gate")
	folder := f.pack(noting("while ! [ -e '" + gate + "' ]; do sleep 0.05; done; echo noted"))
	id := f.submit(folder, f.prompt(agent.Budget{}))
	f.until("a call is made", func() bool { return len(f.notes()) > 0 })
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := first.wait(); err != nil {
		t.Errorf("the worker ended with %v\n%s", err, first.stderr)
	}
	f.file(gate, "", 0o600)
	f.worker()
	if r := f.await(id); r.Status != string(agent.StatusOK) {
		t.Errorf("the run ended as %s\n%s", r.Status, f.story(id))
	}
	f.calledOnce(id, f.notes())
	for _, e := range f.events(id) {
		if e.Status == agent.StatusInterrupted || e.Result != nil && strings.Contains(agent.Message{Parts: e.Result.Parts}.Text(), "interrupt") {
			t.Errorf("event %s says that the run was interrupted: %+v", e.Kind, e)
		}
	}
}

// TestRunFinishesWithItsBuild replaces the build of the workers during a run.
func TestRunFinishesWithItsBuild(t *testing.T) {
	f := newFleet(t)
	build := func(id string) *process {
		p := f.worker("PROOF_DEPLOYMENT=proof", "PROOF_BUILD="+id)
		f.until("build "+id+" is the current one", func() bool {
			d, err := f.client.WorkerDeploymentClient().GetHandle("proof").Describe(t.Context(), client.WorkerDeploymentDescribeOptions{})
			return err == nil && d.Info.RoutingConfig.CurrentVersion != nil && d.Info.RoutingConfig.CurrentVersion.BuildID == id
		})
		return p
	}
	gate := filepath.Join(f.dir, "gate")
	waits := f.pack(noting("while ! [ -e '" + gate + "' ]; do sleep 0.05; done; echo noted"))
	start := f.prompt(agent.Budget{})
	one := build("one")
	old := f.submit(waits, start)
	f.until("a call is made", func() bool { return len(f.notes()) > 0 })
	two := build("two")
	later := f.submit(f.pack(noting("")), start)
	if r := f.await(later); r.Status != string(agent.StatusOK) {
		t.Errorf("the later run ended as %s\n%s%s", r.Status, f.story(later), two.stderr)
	}
	f.file(gate, "", 0o600)
	if r := f.await(old); r.Status != string(agent.StatusOK) {
		t.Errorf("the earlier run ended as %s\n%s%s", r.Status, f.story(old), one.stderr)
	}
	for id, p := range map[string]*process{old: one, later: two} {
		for _, identity := range f.workers(id) {
			if !strings.HasPrefix(identity, fmt.Sprintf("%d@", p.cmd.Process.Pid)) {
				t.Errorf("worker %s worked for run %s, which belongs to process %d", identity, id, p.cmd.Process.Pid)
			}
		}
	}
}

// TestServerKilled kills the server while runs are in progress, and starts it again on its
// file.
func TestServerKilled(t *testing.T) {
	f := newFleet(t)
	folder, start := f.pack(noting("sleep 0.1; echo noted")), f.prompt(agent.Budget{})
	for range 2 {
		f.worker()
	}
	var ids []string
	for range size(4, 40) {
		ids = append(ids, f.submit(folder, start))
	}
	kills := size(2, 10)
	for i := range kills {
		f.until("calls are made", func() bool { return len(f.notes()) > notingCalls*len(ids)*(i+1)/(kills+1) })
		f.server.kill()
		time.Sleep(300 * time.Millisecond) // the workers notice
		f.startServer()
	}
	for _, id := range ids {
		if r := f.await(id); r.Status != string(agent.StatusOK) {
			t.Errorf("run %s ended as %s\n%s", id, r.Status, f.story(id))
		}
		if made := f.calledOnce(id, f.notes()); made != notingCalls {
			t.Errorf("%d calls of run %s were made, want %d\n%s", made, id, notingCalls, f.story(id))
		}
	}
}
