// Package attach gives clients access to a run of a fleet: it reads the run's events by number
// from the growing record, and sends replies, input and cancellation. [Run.Serve] uses the
// channel of package channel over two byte streams.
package attach

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/pkg/agent"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// A Run is a run of a fleet. Its methods are safe for concurrent use.
type Run struct {
	Client client.Client
	Store  store.Store
	// ID is that of the run: of its workflow, its record and the root's session.
	ID string
}

// ErrNoRun: there is no run with the id.
var ErrNoRun = errors.New("there is no such run")

// The waits between two looks at a record without new events.
const (
	firstWait = 20 * time.Millisecond
	lastWait  = 500 * time.Millisecond
)

// Events yields the events that follow number after, with Seq, while the run continues. The last is
// the end event of the root, or comes with an error.
func (r *Run) Events(ctx context.Context, after int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		records := &store.Records{Store: r.Store}
		wait, looks, closed := firstWait, 0, error(nil)
		for {
			record, err := records.Get(ctx, r.ID)
			if err != nil {
				yield(agent.Event{}, fmt.Errorf("read the record of run %s: %w", r.ID, err))
				return
			}
			events := record.Events()
			for ; after < int64(len(events)); after++ {
				e := events[after]
				e.Seq = after + 1
				if !yield(e, nil) || e.Kind == agent.EventEnd && e.Depth == 0 {
					return
				}
				wait, looks = firstWait, 0
			}
			if closed != nil {
				yield(agent.Event{}, closed)
				return
			}
			if looks%10 == 0 { // first, and then every five seconds
				closed = r.closed(ctx)
			}
			if looks++; closed == nil && !pause(ctx, wait) {
				yield(agent.Event{}, context.Cause(ctx))
				return
			}
			wait = min(wait*3/2, lastWait)
		}
	}
}

// pause reports whether the time has passed before ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// closed returns how the workflow ended, nil if it did not, or cannot be asked.
func (r *Run) closed(ctx context.Context) error {
	about, err := r.Client.DescribeWorkflowExecution(ctx, r.ID, "")
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return fmt.Errorf("%w: %s", ErrNoRun, r.ID)
	}
	if err != nil {
		return nil // the record may still grow
	}
	switch s := about.WorkflowExecutionInfo.Status; s {
	case enums.WORKFLOW_EXECUTION_STATUS_RUNNING, enums.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
		return nil
	default:
		err := r.Client.GetWorkflow(ctx, r.ID, "").Get(ctx, nil)
		if cause, ok := errors.AsType[*temporal.ApplicationError](err); ok {
			return &agent.EndError{Status: agent.StatusFailed, Text: cause.Message()}
		}
		status := agent.StatusFailed
		if s == enums.WORKFLOW_EXECUTION_STATUS_CANCELED || s == enums.WORKFLOW_EXECUTION_STATUS_TERMINATED {
			status = agent.StatusInterrupted
		}
		return &agent.EndError{Status: status, Text: "the workflow of the run ended: " + s.String()}
	}
}

// Reply answers a question of the run.
func (r *Run) Reply(ctx context.Context, question string, answer json.RawMessage) error {
	if len(answer) == 0 {
		answer = json.RawMessage("null") // nobody answers
	}
	blob, err := store.PutBlob(ctx, r.Store, r.ID, answer)
	if err != nil {
		return err
	}
	return r.update(ctx, r.ID, flow.UpdateReply, flow.Reply{Question: question, Blob: blob})
}

// Answered reports whether a question has a reply.
func (r *Run) Answered(ctx context.Context, question string) bool {
	_, err := r.Store.Get(ctx, flow.ReplyName(r.ID, question))
	return !errors.Is(err, fs.ErrNotExist)
}

// Input sends a message to the agent with a session; "" is the root.
func (r *Run) Input(ctx context.Context, session string, m agent.Message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	blob, err := store.PutBlob(ctx, r.Store, r.ID, text)
	if err != nil {
		return err
	}
	return r.update(ctx, cmp.Or(session, r.ID), flow.UpdateInput, flow.InputMessage{Blob: blob})
}

func (r *Run) update(ctx context.Context, id, name string, arg any) error {
	h, err := r.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: id, UpdateName: name, Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err == nil {
		err = h.Get(ctx, nil)
	}
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return ErrEnded
	}
	return err
}

// Cancel ends the run, or the sub-agent with a session; the status is interrupted.
func (r *Run) Cancel(ctx context.Context, session string) error {
	id := cmp.Or(session, r.ID)
	if about, err := r.Client.DescribeWorkflowExecution(ctx, id, ""); err == nil && about.WorkflowExecutionInfo.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return ErrEnded
	}
	err := r.Client.CancelWorkflow(ctx, id, "")
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return fmt.Errorf("%w: %s", ErrNoRun, id)
	}
	return err
}

// ErrEnded: the run has ended.
var ErrEnded = errors.New("the run has ended")
