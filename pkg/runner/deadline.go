package runner

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// limitTime returns ctx with the run's own time limits: the Deadline of its agent and
// the seconds of its budget. Both can only shorten the time that ctx has left.
func (r *run) limitTime(ctx context.Context) (context.Context, context.CancelFunc) {
	a := &r.account
	a.began, a.until = time.Now(), time.Time{}
	if !r.began.IsZero() {
		a.began = r.began
	}
	a.ends, a.late = time.Time{}, nil
	if d := r.agent.Deadline; d > 0 {
		a.ends, a.late = a.began.Add(d), &deadlineError{fmt.Sprintf("the time limit of %s of agent %s passed", secondsText(d), r.agent.Slug)}
	}
	if a.timed > 0 {
		a.until = a.began.Add(a.timed)
		if a.late == nil || a.until.Before(a.ends) {
			a.ends, a.late = a.until, &budgetError{text: r.timeName() + " spent", time: true}
		}
	}
	if a.late == nil {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, a.ends, a.late)
}

// lateness returns the error for a deadline that r or a run above it set, nil for any other.
func (r *node) lateness(deadline time.Time) error {
	for n := r; n != nil; n = n.up {
		if n.account.late != nil && n.account.ends.Equal(deadline) {
			return n.account.late
		}
	}
	return nil
}

// timeName names the budget of wall time and its agent.
func (r *node) timeName() string {
	return fmt.Sprintf("budget seconds %s of agent %s", strconv.FormatFloat(r.account.timed.Seconds(), 'f', -1, 64), r.agent.Slug)
}

// seconds returns the time of a lease, or of its budget; ok is false if there is none.
func seconds(s *float64) (d time.Duration, ok bool) { return (&agent.Budget{Seconds: s}).Time() }

func secondsText(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
}

// A deadlineError is the cause of a context that the time limit of an agent ended.
type deadlineError struct{ text string }

func (e *deadlineError) Error() string { return e.text }

func (e *deadlineError) Unwrap() error { return context.DeadlineExceeded }

// begun opens the account of a run that begins or is resumed, and returns ctx with the
// run's time limits.
func (r *run) begun(ctx context.Context, anew bool) (context.Context, context.CancelFunc) {
	if anew {
		r.renew()
	} else {
		r.tree.mu.Lock()
		r.openAccount()
		r.tree.mu.Unlock()
	}
	return r.limitTime(ctx)
}

// timed returns ctx with the time limits of a run that is driven by Step.
func (r *run) timed(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.began.IsZero() {
		return ctx, func() {}
	}
	return r.limitTime(ctx)
}

// renew sets what was consumed to zero, for a new prompt.
func (r *run) renew() {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	r.total = agent.TotalUsage{}
	r.openAccount()
}

// leaseTime returns ctx with the time limit of a caller's lease.
func leaseTime(ctx context.Context, l *agent.Lease) (context.Context, context.CancelFunc) {
	d, ok := l.Time()
	if !ok {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, d, &agent.EndError{Status: agent.StatusDeadline, Text: fmt.Sprintf("the caller's time of %s passed", d.Round(time.Millisecond))})
}
