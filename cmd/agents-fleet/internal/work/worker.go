package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/sandbox"
	"github.com/agents-exe/agents/pkg/session"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

type Options struct {
	// Queue is the task queue; "" means flow.Queue.
	Queue string
	// Dir is a folder for the agents that are unpacked and for workspaces, which several
	// workers may share. It is required, and best the same on all hosts: prompts may name it.
	Dir string
	// Load are the options with which agents are loaded, those of the worker's host. Agent, WorkDir and Ladder are set for each tree.
	Load agentfile.Options
	// Deployment and BuildID make a run finish with the build that began it; "" for either
	// means that workers of all builds share all runs.
	Deployment, BuildID string
	// Upgrade makes runs continue with the newest build, which this worker's becomes.
	Upgrade bool
	// Activities is how many run at the same time; 0 means 100.
	Activities int
	// Ended is called with all events of a run that has ended, before its workflow ends; nil
	// drops them. Calls may be concurrent, and repeated.
	Ended func(events []agent.Event)
	// Note is called with lines for the worker's log; nil drops them.
	Note func(line string)
}

// Sandboxed enters a sandbox if the arguments of the process ask for it, and then does not
// return. The program calls it before anything else.
func Sandboxed(args []string) {
	if len(args) > 2 && args[1] == load.SandboxFlag {
		os.Exit(sandbox.Helper(args[2:]))
	}
}

type Worker struct {
	client  client.Client
	store   store.Store
	records *store.Records
	o       Options
	trees   *trees
	spaces  *workspaces
	starts  starts
	host    string // the queue of this worker alone
	hosting sync.Once
	private worker.Worker // of the queue host; nil until a workspace needs it
	version worker.WorkerDeploymentVersion
}

func New(c client.Client, s store.Store, o Options) *Worker {
	o.Queue = cmp.Or(o.Queue, flow.Queue)
	o.Activities = cmp.Or(o.Activities, 100)
	if o.Note == nil {
		o.Note = func(string) {}
	}
	name, _ := os.Hostname()
	return &Worker{
		spaces: newWorkspaces(s, &o),
		client: c, store: s, records: &store.Records{Store: s, MaxBytes: cachedRecords}, o: o, host: o.Queue + "@" + cmp.Or(name, "host") + "-" + session.NewID(),
		version: worker.WorkerDeploymentVersion{DeploymentName: o.Deployment, BuildID: o.BuildID},
	}
}

// What a worker keeps in memory of the runs on which it works: workflows, and bytes of
// records.
const (
	cachedWorkflows = 600
	cachedRecords   = 32 << 20
)

// Run works until ctx ends. It then gives back what it is doing, so that other workers
// continue it, and ends everything that it started.
func (w *Worker) Run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	w.trees = newTrees(life, w)
	defer w.trees.close()
	worker.SetStickyWorkflowCacheSize(cachedWorkflows)
	main := worker.New(w.client, w.o.Queue, w.options(false))
	main.RegisterWorkflowWithOptions(flow.Run, workflow.RegisterOptions{Name: flow.Workflow, VersioningBehavior: w.behavior()})
	w.register(main)
	main.RegisterActivityWithOptions(w.claim, activity.RegisterOptions{Name: flow.ClaimActivity})
	if err := main.Start(); err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}
	defer w.stopPrivate()
	defer main.Stop()
	if w.versioned() {
		if err := w.makeCurrent(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("make build %s of deployment %s the current one: %w", w.o.BuildID, w.o.Deployment, err)
		}
	}
	<-ctx.Done()
	return nil
}

func (w *Worker) register(r worker.ActivityRegistry) {
	r.RegisterActivityWithOptions(w.step, activity.RegisterOptions{Name: flow.StepActivity})
	r.RegisterActivityWithOptions(w.call, activity.RegisterOptions{Name: flow.CallActivity})
	r.RegisterActivityWithOptions(w.keep, activity.RegisterOptions{Name: flow.KeepActivity})
}

// options are those of the worker of the common queue, or of that of this host alone.
func (w *Worker) options(private bool) worker.Options {
	o := worker.Options{
		MaxConcurrentActivityExecutionSize: w.o.Activities, DisableWorkflowWorker: private,
		WorkerStopTimeout: stopTime,
	}
	if w.versioned() {
		o.DeploymentOptions = worker.DeploymentOptions{UseVersioning: true, Version: w.version, DefaultVersioningBehavior: w.behavior()}
	}
	return o
}

// stopTime is how long programs have to end when the worker stops.
const stopTime = 30 * time.Second

func (w *Worker) versioned() bool { return w.o.Deployment != "" && w.o.BuildID != "" }

func (w *Worker) behavior() workflow.VersioningBehavior {
	switch {
	case !w.versioned():
		return workflow.VersioningBehaviorUnspecified
	case w.o.Upgrade:
		return workflow.VersioningBehaviorAutoUpgrade
	}
	return workflow.VersioningBehaviorPinned
}

// makeCurrent has new runs begin with this build, unless the deployment has had it before:
// then a newer one has replaced it, and this worker only finishes its runs.
func (w *Worker) makeCurrent(ctx context.Context) error {
	d := w.client.WorkerDeploymentClient().GetHandle(w.o.Deployment)
	for {
		about, err := d.Describe(ctx, client.WorkerDeploymentDescribeOptions{})
		if err == nil {
			current := about.Info.RoutingConfig.CurrentVersion
			if current != nil && (current.BuildID == w.o.BuildID || !w.o.Upgrade && w.replaced(about.Info)) {
				return nil
			}
			_, err = d.SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{
				BuildID: w.o.BuildID, ConflictToken: about.ConflictToken, IgnoreMissingTaskQueues: true})
		}
		if err == nil {
			return nil
		}
		select { // the server does not know the worker yet, or another one was faster
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// replaced reports whether this build was the current one earlier.
func (w *Worker) replaced(info client.WorkerDeploymentInfo) bool {
	for _, v := range info.VersionSummaries {
		if v.Version.BuildID == w.o.BuildID {
			return v.DrainageStatus != client.WorkerDeploymentVersionDrainageStatusUnspecified
		}
	}
	return false
}

// hostQueue returns the queue of this worker alone, from which it takes work from now on.
func (w *Worker) hostQueue() (string, error) {
	var err error
	w.hosting.Do(func() {
		p := worker.New(w.client, w.host, w.options(true))
		w.register(p)
		if err = p.Start(); err == nil {
			w.private = p
		}
	})
	if err == nil && w.private == nil {
		err = errors.New("the worker's own queue could not be started")
	}
	return w.host, err
}

func (w *Worker) stopPrivate() {
	w.hosting.Do(func() {})
	if w.private != nil {
		w.private.Stop()
	}
}
