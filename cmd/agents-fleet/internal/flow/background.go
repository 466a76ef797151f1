package flow

import (
	"cmp"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// leaveAfter is how long a call waits for a sub-agent that may work in the background.
const leaveAfter = 2 * time.Second

// A leftChild is a sub-agent whose caller may continue before it ends.
type leftChild struct {
	key  string // of its call
	in   Input  // of its workflow, if it has one
	from string // the key of the sub-agent that had it before, if that was in the background
	stop workflow.CancelFunc
	over bool
	err  error
}

// leave starts a sub-agent that may work in the background.
func (r *run) leave(call Call, c Child) *leftChild {
	if c.Session == "" {
		return r.watch(&leftChild{key: call.Key}, func(ctx workflow.Context) error { return r.aside(ctx, call) })
	}
	return r.watch(&leftChild{key: call.Key, in: r.childInput(c)}, func(ctx workflow.Context) error { return r.child(ctx, call.Key, c) })
}

// watch does work, after which a sub-agent has ended.
func (r *run) watch(l *leftChild, work func(workflow.Context) error) *leftChild {
	var life workflow.Context
	life, l.stop = workflow.WithCancel(r.life)
	r.left = append(r.left, l)
	workflow.Go(life, func(ctx workflow.Context) {
		l.err = work(ctx)
		l.over = true
		r.ended++
	})
	return l
}

// takeOver watches sub-agents that have outlived the one of the call from.
func (r *run) takeOver(from string, list []Handed) {
	for _, h := range list {
		r.watch(&leftChild{key: h.Key, in: h.Input, from: from}, func(ctx workflow.Context) error { return r.handed(ctx, h) })
	}
}

// stopTime is how long a sub-agent that is stopped may take before its workflow is looked for, which
// is then stopped again, each time after twice the time up to lostTime. One that works is looked for
// after lostTime.
const (
	stopTime = time.Second
	lostTime = 5 * time.Minute
)

// handed waits until a sub-agent that has outlived its caller has ended.
func (r *run) handed(ctx workflow.Context, h Handed) error {
	in := h.Input
	over := func() bool { _, ok := r.told[in.Session]; return ok }
	life, stop := workflow.NewDisconnectedContext(ctx)
	defer stop()
	reason := ""
	for wait := stopTime; reason == "" && !over(); {
		limit, stopped := lostTime, ctx.Err() != nil
		if stopped {
			_ = workflow.RequestCancelExternalWorkflow(life, in.Session, "").Get(life, nil) // no error if it has ended
			limit, wait = wait, min(2*wait, lostTime)
		}
		if _, err := workflow.AwaitWithTimeout(life, limit, func() bool { return over() || !stopped && ctx.Err() != nil }); err != nil {
			return err
		}
		if over() || !stopped && ctx.Err() != nil {
			continue
		}
		if gone := signalEnded(life, in.Session, Ended{}); gone != nil {
			reason = gone.Error() // its workflow is gone; if it has announced its end, that counts
		}
	}
	ctx = life
	e, told := r.told[in.Session]
	if told {
		reason = e.Reason
	}
	r.reached(e.At)
	r.takeOver(h.Key, e.Left)
	if reason != "" {
		return r.endSession(ctx, in, statusInterrupted, reason)
	}
	return nil
}

// left waits for the sub-agent for a while, and reports whether its call returns while it works.
func (l *leftChild) left(ctx workflow.Context, wait time.Duration) (left bool, err error) {
	over, err := workflow.AwaitWithTimeout(ctx, wait, func() bool { return l.over })
	if err != nil { // the calls are cancelled
		l.stop()
		ctx, stop := workflow.NewDisconnectedContext(ctx)
		defer stop()
		if err := workflow.Await(ctx, func() bool { return l.over }); err != nil {
			return false, err
		}
		over = true
	}
	if !over {
		return true, nil
	}
	return false, l.err
}

// aside runs a sub-agent without a workflow until it ends.
func (r *run) aside(ctx workflow.Context, call Call) error {
	task := Task{Key: call.Key, Tool: call.Tool, Aside: true}
	var called Called
	err := r.activity(ctx, CallActivity, task, &called)
	if err != nil && (temporal.IsCanceledError(err) || ctx.Err() != nil) { // it ran nowhere, or its worker died, and it is not repeated
		ctx, stop := workflow.NewDisconnectedContext(ctx)
		defer stop()
		task.End = statusInterrupted
		err = r.activity(ctx, CallActivity, task, &called)
	}
	r.reached(called.At)
	return err
}

// await waits until one of the sub-agents has ended, or the time is over.
func (r *run) await(ctx workflow.Context, w *Wait) {
	_, _ = workflow.AwaitWithTimeout(ctx, w.Most, func() bool { // an error means that the calls are cancelled
		for _, key := range w.Keys {
			if !slices.ContainsFunc(r.left, func(l *leftChild) bool { return l.key == key && !l.over }) {
				return true
			}
		}
		return false
	})
}

// settle stops the sub-agents in the background except those that stay, and waits until they have ended.
func (r *run) settle(ctx workflow.Context, stays func(*leftChild) bool) error {
	open := func(l *leftChild) bool { return !l.over && !stays(l) }
	ctx, stop := workflow.NewDisconnectedContext(ctx)
	defer stop()
	for slices.ContainsFunc(r.left, open) { // those that end may leave others
		for _, l := range r.left {
			if open(l) {
				l.stop()
			}
		}
		n := len(r.left)
		if err := workflow.Await(ctx, func() bool { return len(r.left) > n || !slices.ContainsFunc(r.left, open) }); err != nil {
			return err
		}
	}
	return r.forget()
}

// forget drops the sub-agents that have ended. It returns an error if the end of one of them could
// not be recorded.
func (r *run) forget() (err error) {
	r.left = slices.DeleteFunc(r.left, func(l *leftChild) bool {
		if l.over {
			err = cmp.Or(err, l.err)
		}
		return l.over
	})
	return err
}

// announce tells the callers above the direct one that this sub-agent has ended: one of them may have
// taken it over.
func announce(ctx workflow.Context, in Input, out Result, err error) {
	ctx, stop := workflow.NewDisconnectedContext(ctx)
	defer stop()
	ended := Ended{Session: in.Session, At: out.At, Left: out.Left}
	if err != nil {
		ended.Reason = err.Error()
	}
	for _, caller := range in.Callers[:len(in.Callers)-1] {
		_ = signalEnded(ctx, caller, ended)
	}
}

// signalEnded returns an error if the workflow has ended.
func signalEnded(ctx workflow.Context, to string, e Ended) error {
	return workflow.SignalExternalWorkflow(ctx, to, "", SignalEnded, e).Get(ctx, nil)
}
