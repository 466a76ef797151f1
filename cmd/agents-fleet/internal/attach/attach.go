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
	"maps"
	"slices"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/pkg/agent"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A Run is a run of a fleet. Its methods are safe for concurrent use.
type Run struct {
	Client client.Client
	Store  store.Store
	// ID is that of the run: of its workflow, its record and the root's session.
	ID string
	// Note is called with messages for a person who waits for events; nil drops them.
	Note func(text string)
}

var ErrNoRun = errors.New("there is no such run")

// The waits between two looks at a record without new events.
const (
	firstWait = 20 * time.Millisecond
	lastWait  = 500 * time.Millisecond
)

// quietTime is how long a run may have no events before Events asks whether it has a worker.
// waitTime is how long work of the run may wait for a worker before it says that there is none,
// and polled is how long ago a worker that is running may have asked for work: it asks again
// within a minute.
const (
	quietTime = 5 * time.Second
	waitTime  = 10 * time.Second
	polled    = 70 * time.Second
)

// Events yields the events that follow number after, with Seq, while the run continues. The last is
// the end event of the root, or comes with an error.
func (r *Run) Events(ctx context.Context, after int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		records := &store.Records{Store: r.Store}
		wait, looks, closed := firstWait, 0, error(nil)
		last, noted := time.Now(), false
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
				wait, looks, last, noted = firstWait, 0, time.Now(), false
			}
			if closed != nil {
				yield(agent.Event{}, closed)
				return
			}
			if looks%10 == 0 { // first, and then every five seconds
				closed = r.closed(ctx)
			}
			if !noted && closed == nil && r.Note != nil && time.Since(last) > quietTime {
				if text := r.Unattended(ctx); text != "" {
					noted = true
					r.Note(text)
				}
				last = time.Now()
			}
			if looks++; closed == nil && !pause(ctx, wait) {
				yield(agent.Event{}, context.Cause(ctx))
				return
			}
			wait = min(wait*3/2, lastWait)
		}
	}
}

// Unattended returns a message if no worker takes work of the run, and "" if one does or if
// that is not known.
func (r *Run) Unattended(ctx context.Context) string {
	about, err := r.Client.DescribeWorkflowExecution(ctx, r.ID, "")
	if err != nil || about.WorkflowExecutionInfo.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return ""
	}
	if waits(about) { // sooner than the server forgets a worker that has died
		return fmt.Sprintf("run %s has waited for a worker for more than %s: none is running, or all are busy", r.ID, waitTime)
	}
	queue := about.ExecutionConfig.GetTaskQueue().GetName()
	workers, err := r.Client.DescribeTaskQueue(ctx, queue, enums.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return ""
	}
	build, any := about.WorkflowExecutionInfo.GetVersioningInfo().GetDeploymentVersion().GetBuildId(), false
	for _, p := range workers.Pollers {
		if time.Since(p.LastAccessTime.AsTime()) > polled {
			continue
		}
		if any = true; build == "" || p.GetDeploymentOptions().GetBuildId() == build {
			return ""
		}
	}
	if any {
		return fmt.Sprintf("no worker with the build %s, which began run %s, is running: the run waits for one", build, r.ID)
	}
	return fmt.Sprintf("no worker takes work from the queue %s: run %s waits for one", queue, r.ID)
}

// waits reports whether no worker has taken the next work of a run for a while.
func waits(about *workflowservice.DescribeWorkflowExecutionResponse) bool {
	since := func(t *timestamppb.Timestamp) bool { return t != nil && time.Since(t.AsTime()) > waitTime }
	task := about.PendingWorkflowTask
	return task.GetState() == enums.PENDING_WORKFLOW_TASK_STATE_SCHEDULED && since(task.ScheduledTime) ||
		slices.ContainsFunc(about.PendingActivities, func(a *workflow.PendingActivityInfo) bool {
			return a.State == enums.PENDING_ACTIVITY_STATE_SCHEDULED && since(a.ScheduledTime)
		})
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
		if s == enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT {
			return &agent.EndError{Status: agent.StatusDeadline, Text: flow.TimedOut}
		}
		if s == enums.WORKFLOW_EXECUTION_STATUS_CANCELED || s == enums.WORKFLOW_EXECUTION_STATUS_TERMINATED {
			status = agent.StatusInterrupted
		}
		return &agent.EndError{Status: status, Text: "the workflow of the run ended: " + s.String()}
	}
}

func (r *Run) Reply(ctx context.Context, question string, answer json.RawMessage) error {
	if len(answer) == 0 {
		answer = json.RawMessage("null") // nobody answers
	}
	blob, err := store.PutBlob(ctx, r.Store, r.ID, answer)
	if err != nil {
		return err
	}
	return r.update(ctx, client.UpdateWorkflowOptions{WorkflowID: r.ID, UpdateName: flow.UpdateReply, Args: []any{flow.Reply{Question: question, Blob: blob}}})
}

func (r *Run) Answered(ctx context.Context, question string) bool {
	_, err := r.Store.Get(ctx, flow.ReplyName(r.ID, question))
	return !errors.Is(err, fs.ErrNotExist)
}

// Input sends a message to the agent with a session; "" is the root.
func (r *Run) Input(ctx context.Context, session string, m agent.Message) error {
	return r.Send(ctx, session, "", m)
}

// Send is like Input. Calls with the same id, if it is not empty, send the message only once.
func (r *Run) Send(ctx context.Context, session, id string, m agent.Message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	blob, err := store.PutBlob(ctx, r.Store, r.ID, text)
	if err != nil {
		return err
	}
	to, u := cmp.Or(session, r.ID), flow.InputMessage{Blob: blob}
	for tries := 0; ; tries++ {
		err := r.update(ctx, client.UpdateWorkflowOptions{WorkflowID: to, UpdateID: id, UpdateName: flow.UpdateInput, Args: []any{u}})
		if own, _ := errors.AsType[*temporal.ApplicationError](err); own != nil && own.Type() == flow.OwnWorkflow {
			if tries > 20 || !pause(ctx, firstWait) {
				return ErrEnded
			}
			to, u.Session = session, "" // it has begun meanwhile
			continue
		}
		if !errors.Is(err, ErrEnded) {
			return err
		}
		up, works := r.above(ctx, to)
		if up == "" || !works && to == session { // its caller may have ended
			return err
		}
		to, u.Session = up, session // an agent without a workflow of its own, perhaps not yet
	}
}

// above returns the session of the caller of an agent, "" of the root, and whether the agent works.
func (r *Run) above(ctx context.Context, session string) (up string, works bool) {
	records := &store.Records{Store: r.Store}
	record, err := records.Get(ctx, r.ID)
	if err != nil {
		return "", false
	}
	for _, e := range record.Events() {
		switch {
		case e.Session != session:
		case e.Kind == agent.EventSession:
			up, works = agent.CallSession(e.Parent), true
		case e.Kind == agent.EventEnd:
			works = false
		}
	}
	return up, works
}

func (r *Run) update(ctx context.Context, o client.UpdateWorkflowOptions) error {
	o.WaitForStage = client.WorkflowUpdateStageCompleted
	h, err := r.Client.UpdateWorkflow(ctx, o)
	if err == nil {
		err = h.Get(ctx, nil)
	}
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return ErrEnded
	}
	return err
}

// Cancel ends the run; the status is interrupted.
func (r *Run) Cancel(ctx context.Context) error { return r.cancel(ctx, r.ID) }

// Stop ends the sub-agent with a session. Its caller reads the reason, and continues.
func (r *Run) Stop(ctx context.Context, session, reason string) error {
	if _, err := r.Store.Put(ctx, flow.StopName(r.ID, session), []byte(reason)); err != nil {
		return err
	}
	for wait := firstWait; ; wait *= 2 {
		err := r.cancel(ctx, session)
		if !errors.Is(err, ErrNoRun) {
			return err
		}
		if _, works := r.above(ctx, session); !works {
			return ErrEnded
		}
		if wait > 8*firstWait || !pause(ctx, wait) { // it has no workflow of its own: who runs it finds the reason
			return nil
		}
	}
}

// cancel cancels the workflow of the run or of a sub-agent.
func (r *Run) cancel(ctx context.Context, id string) error {
	if about, err := r.Client.DescribeWorkflowExecution(ctx, id, ""); err == nil && about.WorkflowExecutionInfo.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return ErrEnded
	}
	err := r.Client.CancelWorkflow(ctx, id, "")
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return fmt.Errorf("%w: %s", ErrNoRun, id)
	}
	return err
}

// Terminate has the server end the run and its sub-agents, and records the end, so that
// workers record nothing more.
func (r *Run) Terminate(ctx context.Context) error {
	const reason = "the run was terminated"
	about, err := r.Client.DescribeWorkflowExecution(ctx, r.ID, "")
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return fmt.Errorf("%w: %s", ErrNoRun, r.ID)
	}
	if err != nil {
		return err
	}
	ended := about.WorkflowExecutionInfo.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING
	if !ended {
		err = r.Client.TerminateWorkflow(ctx, r.ID, "", reason)
	}
	if err = errors.Join(err, r.terminateBelow(ctx, reason), r.recordEnd(ctx, reason)); err == nil && ended {
		err = ErrEnded
	}
	return err
}

// terminateBelow ends the sub-agents that the server lists.
func (r *Run) terminateBelow(ctx context.Context, reason string) (err error) {
	request := &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf("%s = %q AND ExecutionStatus = 'Running'", flow.AgentsRoot.GetName(), r.ID)}
	for {
		page, listErr := r.Client.ListWorkflow(ctx, request)
		if listErr != nil {
			return errors.Join(err, listErr)
		}
		for _, w := range page.Executions {
			endErr := r.Client.TerminateWorkflow(ctx, w.Execution.WorkflowId, "", reason)
			if _, gone := errors.AsType[*serviceerror.NotFound](endErr); !gone {
				err = errors.Join(err, endErr)
			}
		}
		if request.NextPageToken = page.NextPageToken; len(page.NextPageToken) == 0 {
			return err
		}
	}
}

// recordEnd adds an end to the record, unless it has one or does not exist. The cost of the
// requests in progress is not known.
func (r *Run) recordEnd(ctx context.Context, reason string) error {
	records := &store.Records{Store: r.Store}
	record, err := records.Get(ctx, r.ID)
	if err != nil || len(record.Events()) == 0 {
		return err
	}
	ended := func(e *agent.Event) bool { return e.Kind == agent.EventEnd && e.Session == r.ID }
	end := agent.Event{Kind: agent.EventEnd, Session: r.ID, Time: time.Now(), Status: agent.StatusInterrupted, Error: reason, Total: &agent.TotalUsage{}}
	asked := map[string]agent.Event{} // the requests in progress, by their sessions
	for _, e := range record.Events() {
		if ended(&e) {
			return nil
		}
		if e.Session == r.ID {
			end.Agent, end.Turn = cmp.Or(e.Agent, end.Agent), max(e.Turn, end.Turn)
		}
		switch {
		case e.Kind == agent.EventRequest:
			asked[e.Session] = e
		case e.Kind.Lasting():
			delete(asked, e.Session)
			end.Total.Note(&e)
		}
	}
	var events []agent.Event
	for _, session := range slices.Sorted(maps.Keys(asked)) {
		e := asked[session]
		events = append(events, agent.Event{Kind: agent.EventFailure, Session: session, Agent: e.Agent, Parent: e.Parent, Depth: e.Depth, Turn: e.Turn,
			Time: end.Time, Status: end.Status, Error: reason, Usage: &agent.Usage{Requests: 1}})
		end.Total.Note(&events[len(events)-1])
	}
	end.Millis = end.Time.Sub(record.Events()[0].Time).Milliseconds()
	if _, err = record.Append(ctx, record.Position(), append(events, end), ended); errors.Is(err, store.ErrSuperseded) {
		return nil
	}
	return err
}

var ErrEnded = errors.New("the run has ended")
