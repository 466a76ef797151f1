package work

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
)

const (
	// heartbeatMost is the longest time between two heartbeats. It is also how long a
	// running program may not notice that its run was cancelled.
	heartbeatMost = 500 * time.Millisecond
	// heartbeatWait is how long the server may take to answer one, and the store to say why a
	// run was cancelled.
	heartbeatWait = 2 * time.Second
	// lostAttempts is the attempt of an activity in which store.ErrLost ends the run. On
	// NFS, what another host has written may only become visible after a while.
	lostAttempts = 5
)

var (
	errStopping = errors.New("the worker is stopping")
	errLost     = errors.New("the activity was given to another worker")
)

// A pulse sends the heartbeats of activities. It is a client.Client, which returns errors,
// unlike activity.RecordHeartbeat.
type pulse interface {
	RecordActivityHeartbeat(ctx context.Context, token []byte, details ...any) error
}

// A life is what ends the work of an activity.
type life struct {
	pulse pulse
	// silence is how long the server may not answer before it takes the activity away.
	silence time.Duration
	// abandon is called when the worker stops or has lost the activity, before the work ends,
	// so that nothing is recorded about it.
	abandon func(error)
	// cancelled returns why the run was cancelled. Its ctx ends soon: no heartbeat is sent
	// meanwhile.
	cancelled func(ctx context.Context) *agent.EndError
}

// live returns the context of the work. end must be called; nothing of live runs after it.
func (l *life) live(ctx context.Context) (work context.Context, end func()) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	over, ended := make(chan struct{}), make(chan struct{})
	give := func(why error) {
		l.abandon(why)
		cancel(why)
	}
	limit := min(l.silence/3, heartbeatWait)
	stop := sync.OnceFunc(func() { // each heartbeat says again that the run was cancelled
		asking, done := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer done()
		cancel(l.cancelled(asking))
	})
	go func() {
		defer close(ended)
		interval := min(l.silence/3, heartbeatMost)
		beat := time.NewTicker(interval)
		defer beat.Stop()
		stopping, gone, last := activity.GetWorkerStopChannel(ctx), ctx.Done(), time.Now()
		for {
			select {
			case <-over:
				return
			case <-stopping:
				stopping = nil
				give(errStopping)
			case <-gone:
				if gone = nil; temporal.IsCanceledError(context.Cause(ctx)) {
					stop()
				} else {
					give(errLost)
				}
			case <-beat.C:
				err := heartbeat(ctx, l.pulse, limit)
				switch {
				case temporal.IsCanceledError(err):
					stop()
					fallthrough
				case err == nil:
					last = time.Now()
				case errors.As(err, new(*serviceerror.NotFound)) || time.Since(last) > l.silence:
					give(errLost)
				}
			}
		}
	}()
	return work, func() {
		close(over)
		<-ended
		cancel(nil)
	}
}

// heartbeat sends a heartbeat, and tries for a while.
func heartbeat(ctx context.Context, p pulse, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return p.RecordActivityHeartbeat(ctx, activity.GetInfo(ctx).TaskToken)
}

// failure is the error of an activity: the server repeats it unless it is of type
// "permanent".
func failure(ctx context.Context, err error) error {
	var permanent *permanentError
	switch {
	case err == nil, errors.Is(err, errMoved):
		return err
	case errors.As(err, &permanent), errors.Is(err, guard.ErrPanic), errors.Is(err, store.ErrLost) && activity.GetInfo(ctx).Attempt >= lostAttempts:
		return temporal.NewNonRetryableApplicationError(err.Error(), "permanent", nil)
	case errors.Is(err, errStopping), errors.Is(err, errLost), errors.Is(err, store.ErrSuperseded):
		return temporal.NewApplicationErrorWithOptions(err.Error(), "handover", temporal.ApplicationErrorOptions{
			Category: temporal.ApplicationErrorCategoryBenign, NextRetryDelay: 100 * time.Millisecond})
	}
	return temporal.NewApplicationError(err.Error(), "temporary")
}

// A permanentError is one that another attempt would have too.
type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }
