package work_test

import (
	"os"
	"testing"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/work"
	"github.com/agents-exe/agents/pkg/agent"
	"go.temporal.io/sdk/client"
)

// build is the build to which a run belongs.
func (f *fleet) build(run client.WorkflowRun) string {
	f.t.Helper()
	about, err := f.client.DescribeWorkflowExecution(f.t.Context(), run.GetID(), "")
	if err != nil {
		f.t.Fatal(err)
	}
	return about.WorkflowExecutionInfo.GetVersioningInfo().GetDeploymentVersion().GetBuildId()
}

// current waits until new runs begin with a build.
func (f *fleet) current(build string) {
	f.t.Helper()
	for range 300 {
		about, err := f.client.WorkerDeploymentClient().GetHandle(f.queue).Describe(f.t.Context(), client.WorkerDeploymentDescribeOptions{})
		if v := about.Info.RoutingConfig.CurrentVersion; err == nil && v != nil && v.BuildID == build {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	f.t.Fatalf("build %s is not the current one", build)
}

// A run finishes with the build that began it. New runs begin with the newest one, even if
// a worker of an older one starts again.
func TestARunFinishesWithItsBuild(t *testing.T) {
	f := newFleet(t, waiting)
	of := func(build string) func(*work.Options) {
		return func(o *work.Options) { o.Deployment, o.BuildID = f.queue, build }
	}
	stop := f.worker(of("one"))
	f.current("one")
	first := f.submit("go")
	f.wait(first.GetID(), "the call", callStarted)
	f.worker(of("two"))
	f.current("two")
	stop()
	f.worker(of("one"))
	second := f.submit("go")
	if err := os.WriteFile(f.log+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for run, want := range map[client.WorkflowRun]string{first: "one", second: "two"} {
		if out := f.result(run); out.Status != string(agent.StatusOK) || f.build(run) != want {
			t.Errorf("status %s, build %s, want %s\n%s", out.Status, f.build(run), want, f.shown(run.GetID()))
		}
	}
}
