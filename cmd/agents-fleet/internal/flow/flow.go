package flow

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Statuses of package agent that the workflow itself uses.
const (
	statusFailed      = "failed"
	statusInterrupted = "interrupted"
)

// run is the workflow of one run.
type run struct {
	in     Input
	at     Position
	inputs int
	below  map[string]int // how many messages agents without a workflow got, by session
	// children are the sessions of agents that have one.
	children map[string]bool
	host     Claim
	moving   workflow.Mutex // held while the host changes
	over     bool
	life     workflow.Context // of sub-agents in the background, which outlive a turn
	left     []*leftChild
	ended    int              // how many of left have ended, also before they were dropped
	told     map[string]Ended // by sub-agents that may outlive their callers, by session
}

// Run is the workflow. A run that was cancelled ends with a CanceledError, after its
// session has ended in the record. All other ends are a Result.
func Run(ctx workflow.Context, in Input) (Result, error) {
	out, err := runOnce(ctx, in)
	if in.Detached && !workflow.IsContinueAsNewError(err) {
		announce(ctx, in, out, err)
	}
	return out, err
}

func runOnce(ctx workflow.Context, in Input) (Result, error) {
	r := &run{in: in, below: map[string]int{}, children: map[string]bool{}, moving: workflow.NewMutex(ctx), life: ctx, told: map[string]Ended{}}
	if from := in.Resumed; from != nil {
		r.at, r.inputs, r.host = from.At, from.Inputs, from.Host
	}
	r.in.Resumed = nil
	if err := r.updates(ctx); err != nil {
		return Result{}, err
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var e Ended
			workflow.GetSignalChannel(ctx, SignalEnded).Receive(ctx, &e)
			r.told[e.Session] = e
		}
	})
	next, err := r.turns(ctx)
	if workflow.IsContinueAsNewError(err) {
		return Result{}, err
	}
	stays := func(l *leftChild) bool {
		return err == nil && (slices.Contains(next.Left, l.key) || slices.Contains(next.Left, l.from))
	}
	err = cmp.Or(err, r.settle(ctx, stays))
	if next.Ended == "" {
		last, endErr := r.end(ctx, err)
		if endErr != nil {
			return Result{}, cmp.Or(err, endErr)
		}
		next = last
	}
	return r.finish(ctx, next)
}

// turns takes turns until the run ends. An error means that it has to be ended.
func (r *run) turns(ctx workflow.Context) (next Next, err error) {
	settled := false
	for {
		ended := r.ended
		if next, err = r.step(ctx, Task{Settled: settled}); err != nil || next.Ended != "" {
			return next, err
		}
		settled = next.Open && r.ended == ended // otherwise the model first reads what has ended
		if settled {
			err = r.settle(ctx, func(l *leftChild) bool { return l.in.Detached && len(r.in.Path) > 0 })
		} else {
			err = r.forget()
		}
		if err != nil {
			return Next{}, err
		}
		if err := r.calls(ctx, next); err != nil {
			return Next{}, err
		}
		if ctx.Err() != nil {
			return Next{}, ctx.Err()
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() && workflow.AllHandlersFinished(ctx) && len(r.left) == 0 && !next.Open {
			in := r.in
			in.Resumed = &Resumed{At: r.at, Inputs: r.inputs, Host: r.host}
			return Next{}, workflow.NewContinueAsNewError(ctx, Workflow, in)
		}
	}
}

// end ends the session in the record: the run was cancelled, or why is an error.
func (r *run) end(ctx workflow.Context, why error) (Next, error) {
	task := Task{End: statusFailed}
	if ctx.Err() != nil || temporal.IsCanceledError(why) {
		task.End = statusInterrupted
	} else if why != nil {
		task.Reason = why.Error()
	}
	ctx, stop := workflow.NewDisconnectedContext(ctx)
	defer stop()
	return r.step(ctx, task)
}

// finish sets the search attributes and waits for updates in progress.
func (r *run) finish(ctx workflow.Context, next Next) (Result, error) {
	r.over = true
	cancelled := ctx.Err()
	ctx, stop := workflow.NewDisconnectedContext(ctx)
	defer stop()
	if next.Inputs < r.inputs { // the step says in the record that it came too late
		if _, err := r.step(ctx, Task{}); err != nil {
			return Result{}, err
		}
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, AgentsOutcome.ValueSet(next.Ended), AgentsCost.ValueSet(next.Cost)); err != nil {
		return Result{}, err
	}
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return Result{}, err
	}
	if cancelled != nil && next.Ended == statusInterrupted {
		return Result{}, cancelled
	}
	out := Result{Status: next.Ended, Cost: next.Cost, At: r.at}
	for _, l := range r.left {
		if !l.over {
			out.Left = append(out.Left, Handed{l.key, l.in})
		}
	}
	return out, nil
}

func (r *run) step(ctx workflow.Context, task Task) (next Next, err error) {
	task.Inputs = r.inputs
	err = r.activity(ctx, StepActivity, task, &next)
	r.reached(next.At)
	return next, err
}

// reached notes how far the record is known.
func (r *run) reached(at Position) {
	if at.Number > r.at.Number {
		r.at = at
	}
}

// calls runs the calls of a turn and waits for all of them. An error is that of one that
// could not be run at all; the others are cancelled then.
func (r *run) calls(ctx workflow.Context, next Next) error {
	ctx, stop := workflow.WithCancel(ctx)
	defer stop()
	var failed error
	places := workflow.NewSemaphore(ctx, int64(max(next.Parallel, 1)))
	all := workflow.NewWaitGroup(ctx)
	for _, c := range next.Calls {
		if err := places.Acquire(ctx, 1); err != nil {
			break // cancelled: the last step answers the calls that did not start
		}
		all.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer all.Done()
			defer places.Release(1)
			err := r.call(ctx, c)
			if err != nil && failed == nil {
				failed = err
				stop()
			}
		})
	}
	wait, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	all.Wait(wait)
	return failed
}

func (r *run) call(ctx workflow.Context, c Call) error {
	var called Called
	err := r.activity(ctx, CallActivity, Task{Key: c.Key, Tool: c.Tool}, &called)
	r.reached(called.At)
	task := Task{Key: c.Key, Tool: c.Tool, Ended: true}
	var l *leftChild
	switch {
	case err != nil:
		return err
	case called.Wait != nil:
		r.await(ctx, called.Wait)
	case called.Child == nil:
		return nil
	case called.Child.Background:
		l = r.leave(c, *called.Child)
	default:
		err = r.child(ctx, c.Key, *called.Child)
	}
	begin := workflow.Now(ctx)
	for wait := leaveAfter; err == nil; wait = min(max(leaveAfter, workflow.Now(ctx).Sub(begin)/4), 10*time.Minute) {
		if l != nil {
			task.Left, err = l.left(ctx, wait)
			task.Ended = !task.Left
		}
		var answered Called
		if err == nil {
			answered, err = r.answer(ctx, task)
		}
		switch {
		case err != nil || answered.Child == nil && answered.Wait == nil:
			return err
		case !task.Left: // of one that is left, the session has not begun
			return fmt.Errorf("call %s: its sub-agent has ended and there is no result", c.Key)
		}
	}
	return err
}

// answer records the result of a call, in any case.
func (r *run) answer(ctx workflow.Context, task Task) (answered Called, err error) {
	ctx, stop := workflow.NewDisconnectedContext(ctx)
	defer stop()
	err = r.activity(ctx, CallActivity, task, &answered)
	r.reached(answered.At)
	return answered, err
}

// child runs a sub-agent until it ends. An error means that the end could not be recorded.
func (r *run) child(ctx workflow.Context, key string, c Child) error {
	err := r.childWorkflow(ctx, key, c)
	if err == nil {
		return nil
	}
	ctx, stop := workflow.NewDisconnectedContext(ctx)
	defer stop()
	return r.endSession(ctx, r.childInput(c), endOf(err), err.Error())
}

// endSession records the end of a sub-agent whose workflow ended.
func (r *run) endSession(ctx workflow.Context, in Input, status, reason string) error {
	var ended Next
	err := r.activityOf(ctx, in, StepActivity, Task{End: status, Reason: "the sub-agent's workflow ended: " + reason}, &ended)
	r.reached(ended.At)
	for _, session := range ended.Running { // nobody else stops them
		_ = workflow.RequestCancelExternalWorkflow(ctx, session, "").Get(ctx, nil)
	}
	return err
}

// endOf is the status of a sub-agent whose workflow ended with err.
func endOf(err error) string {
	var terminated *temporal.TerminatedError
	if temporal.IsCanceledError(err) || errors.As(err, &terminated) {
		return statusInterrupted
	}
	return statusFailed
}

func (r *run) childWorkflow(ctx workflow.Context, key string, c Child) error {
	policy := enums.PARENT_CLOSE_POLICY_REQUEST_CANCEL
	if c.Detach && len(r.in.Path) > 0 { // the root hands nothing over
		policy = enums.PARENT_CLOSE_POLICY_ABANDON
	}
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: c.Session, WaitForCancellation: true, ParentClosePolicy: policy,
		TypedSearchAttributes: Attributes(c.Agent, r.in.Record), StaticSummary: c.Agent,
	})
	var out Result
	err := workflow.ExecuteChildWorkflow(ctx, Workflow, r.childInput(c)).Get(ctx, &out)
	r.reached(out.At)
	r.takeOver(key, out.Left)
	return err
}

func (r *run) childInput(c Child) Input {
	in := r.in
	in.Session, in.Start, in.Root = c.Session, c.Start, cmp.Or(in.Root, in.Start)
	r.children[c.Session] = true
	in.Path = append(slices.Clip(r.in.Path), c.Agent)
	in.Callers, in.Detached = append(slices.Clip(r.in.Callers), r.in.Session), c.Background && c.Detach && len(r.in.Path) > 0
	if n := r.below[c.Session]; r.host.Queue != "" || n > 0 {
		in.Resumed = &Resumed{Host: r.host, Inputs: n}
	}
	return in
}

func (r *run) activity(ctx workflow.Context, name string, task Task, out any) error {
	return r.activityOf(ctx, r.in, name, task, out)
}

// activityOf does task for the run of in, where its workspace is. It moves the workspace
// to another host if this one does not respond.
func (r *run) activityOf(ctx workflow.Context, in Input, name string, task Task, out any) error {
	task.Input = in
	task.Input.Resumed = nil
	for {
		if err := r.place(ctx); err != nil {
			return err
		}
		task.At, task.Host = r.at, r.host
		o := r.options(r.host.Queue)
		o.Summary = summary(&task)
		ctx := workflow.WithActivityOptions(ctx, o)
		err := workflow.ExecuteActivity(ctx, name, task).Get(ctx, out)
		if r.host.Queue == "" || !unreachable(err) {
			return err
		}
		if r.host == task.Host {
			r.host.Queue = ""
		}
	}
}

// summary returns what the server's pages show for an activity: the tool of a call, or the
// agent that takes a step.
func summary(task *Task) string {
	switch {
	case task.Tool != "":
		return task.Tool
	case len(task.Path) > 0:
		return task.Path[len(task.Path)-1]
	}
	return "the root"
}

// unreachable reports whether an activity did not start on its host, or the workspace is on
// another one.
func unreachable(err error) bool {
	var timeout *temporal.TimeoutError
	var failed *temporal.ApplicationError
	if errors.As(err, &failed) && failed.Type() == Moved {
		return true
	}
	return errors.As(err, &timeout) && timeout.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// place finds a host for the workspace, if there is a workspace and it has none.
func (r *run) place(ctx workflow.Context) error {
	if r.in.Options.Workspace == "" || r.host.Queue != "" {
		return nil
	}
	if err := r.moving.Lock(ctx); err != nil {
		return err
	}
	defer r.moving.Unlock()
	if r.host.Queue != "" {
		return nil
	}
	task := Task{Input: r.in, At: r.at, Host: r.host}
	ctx = workflow.WithActivityOptions(ctx, r.options(""))
	return workflow.ExecuteActivity(ctx, ClaimActivity, task).Get(ctx, &r.host)
}

// options are those of an activity. Its retries are the infrastructure's: what ran is
// known from the record, so no program runs twice because of them.
func (r *run) options(queue string) workflow.ActivityOptions {
	o := workflow.ActivityOptions{
		TaskQueue: queue, StartToCloseTimeout: longest, HeartbeatTimeout: r.in.Options.Silence(), WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
	}
	if r.at.Number > 0 || len(r.in.Path) > 0 {
		o.Priority = temporal.Priority{PriorityKey: begun}
	}
	if queue != "" {
		o.ScheduleToStartTimeout = r.in.Options.TakeOver
		if o.ScheduleToStartTimeout <= 0 {
			o.ScheduleToStartTimeout = time.Minute
		}
	}
	return o
}

// begun is the priority of runs that have begun: they end before others begin, however
// many wait. That of the others is Temporal's default, 3; a smaller one comes first.
const begun = 2

// longest is how long an activity may take: the limits of a run are in its lease.
const longest = 30 * 24 * time.Hour

var errOver = errors.New("the run has ended")

// updates accepts what a person sends to the run.
func (r *run) updates(ctx workflow.Context) error {
	err := workflow.SetUpdateHandlerWithOptions(ctx, UpdateReply, func(ctx workflow.Context, u Reply) error {
		return keep(ctx, Kept{ReplyName(r.in.Record, u.Question), u.Blob})
	}, workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, u Reply) error {
		return r.acceptable(u.Question != "" && u.Blob != "")
	}})
	if err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, UpdateInput, func(ctx workflow.Context, u InputMessage) error {
		of, i := r.in.Session, r.inputs
		if u.Session == "" {
			r.inputs++
		} else {
			of, i = u.Session, r.below[u.Session]
			r.below[of]++
		}
		return keep(ctx, Kept{InputName(r.in.Record, of, i), u.Blob})
	}, workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, u InputMessage) error {
		if r.children[u.Session] {
			return temporal.NewApplicationError("the agent has a workflow of its own", OwnWorkflow)
		}
		return r.acceptable(u.Blob != "")
	}})
}

func (r *run) acceptable(complete bool) error {
	switch {
	case r.over:
		return errOver
	case !complete:
		return errors.New("the update is incomplete")
	}
	return nil
}

// keep puts an object into the store, even if the run is being cancelled.
func keep(ctx workflow.Context, k Kept) error {
	ctx, stop := workflow.NewDisconnectedContext(ctx)
	defer stop()
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
	})
	return workflow.ExecuteActivity(ctx, KeepActivity, k).Get(ctx, nil)
}
