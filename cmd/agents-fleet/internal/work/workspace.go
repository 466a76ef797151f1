package work

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/archive"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/pkg/agent"
	"go.temporal.io/sdk/temporal"
)

// workspaces are those of the runs whose tools this host runs.
type workspaces struct {
	all archive.Workspaces

	mu   sync.Mutex
	open map[string]*archive.Workspace // by record
}

func newWorkspaces(s store.Store, o *Options) *workspaces {
	return &workspaces{all: archive.Workspaces{Store: s, Dir: filepath.Join(o.Dir, "workspaces"), Environ: o.Load.Environ}, open: map[string]*archive.Workspace{}}
}

func (w *workspaces) of(ctx context.Context, task *flow.Task) (*archive.Workspace, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.open[task.Record]; s != nil {
		return s, nil
	}
	s, err := w.all.Prepare(ctx, task.Record, task.Options.Workspace)
	if err == nil {
		w.open[task.Record] = s
	}
	return s, err
}

func (w *workspaces) forget(record string) *archive.Workspace {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.open[record]
	delete(w.open, record)
	return s
}

// claim is flow.ClaimActivity: this worker takes the workspace over, unless another one has
// done so since the host of the task.
func (w *Worker) claim(ctx context.Context, task flow.Task) (flow.Claim, error) {
	queue, err := w.hostQueue()
	if err != nil {
		return flow.Claim{}, err
	}
	for host := task.Host; ; {
		host.Term++
		name := flow.HostName(task.Record, host.Term)
		put, err := w.store.Put(ctx, name, []byte(queue))
		if err != nil {
			return flow.Claim{}, err
		}
		if put {
			w.spaces.forget(task.Record)
			return flow.Claim{Queue: queue, Term: host.Term}, nil
		}
		if moved, err := w.moved(ctx, task.Record, host); err != nil || moved {
			if err != nil {
				return flow.Claim{}, err
			}
			continue
		}
		data, err := w.store.Get(ctx, name)
		return flow.Claim{Queue: string(data), Term: host.Term}, err
	}
}

// moved reports whether another worker has the workspace after a host.
func (w *Worker) moved(ctx context.Context, record string, host flow.Claim) (bool, error) {
	_, err := w.store.Get(ctx, flow.HostName(record, host.Term+1))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// enter prepares the workspace of the run, if it has one.
func (a *attempt) enter(ctx context.Context) error {
	if a.task.Options.Workspace == "" {
		return nil
	}
	moved, err := a.w.moved(ctx, a.task.Record, a.task.Host)
	if err == nil && moved {
		err = errMoved
	}
	if err == nil {
		a.space, err = a.w.spaces.of(ctx, &a.task)
	}
	return err
}

// errMoved has the workflow ask for the host of the workspace.
var errMoved = temporal.NewNonRetryableApplicationError("another host has the workspace", flow.Moved, nil)

// save stores what a call has changed in the workspace, before its result is recorded. A
// workspace that cannot be stored is a warning: the run continues on this host.
func (a *attempt) save(ctx context.Context) error {
	if a.space == nil {
		return nil
	}
	err := a.space.Snapshot(context.WithoutCancel(ctx))
	if err == nil || errors.Is(err, store.ErrSuperseded) {
		return err
	}
	a.journal.observe(agent.Event{Kind: agent.EventWarning, Time: time.Now(), Session: a.task.Session, Agent: a.agent.Slug,
		Text: fmt.Sprintf("the workspace was not stored, so no other host can continue from here: %s", err)})
	return nil
}

// leave removes the workspace from this host after the end of the root. Its last snapshot
// stays in the store.
func (a *attempt) leave() {
	if a.space == nil || a.task.Session != a.task.Record {
		return
	}
	if s := a.w.spaces.forget(a.task.Record); s != nil {
		if err := s.Remove(); err != nil {
			a.w.o.Note(fmt.Sprintf("remove the workspace of run %s: %s", a.task.Record, err))
		}
	}
}
