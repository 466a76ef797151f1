package work

import (
	"context"
	"errors"
	"time"

	"github.com/agents-exe/agents/cmd/agents-fleet/internal/store"
	"github.com/agents-exe/agents/pkg/agent"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
)

// heartbeatMost is the longest time between two heartbeats. It is also how long a running
// program may not notice that its run was cancelled.
const heartbeatMost = 2 * time.Second

var (
	errStopping = errors.New("the worker stops")
	errLost     = errors.New("the activity was given to another worker")
)

// live returns the context of an activity's work. It ends when the run is cancelled. When
// the worker stops or has lost the activity, abandon is called first, so that nothing is
// recorded about it. end must be called; nothing of live runs after it.
func live(ctx context.Context, silence time.Duration, abandon func(error)) (work context.Context, end func()) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		beat := time.NewTicker(min(silence/3, heartbeatMost))
		defer beat.Stop()
		stopping, gone := activity.GetWorkerStopChannel(ctx), ctx.Done()
		give := func(why error) {
			abandon(why)
			cancel(why)
		}
		for {
			select {
			case <-over:
				return
			case <-beat.C:
				activity.RecordHeartbeat(context.WithoutCancel(ctx))
			case <-stopping:
				stopping = nil
				give(errStopping)
			case <-gone:
				gone = nil
				if cause := context.Cause(ctx); temporal.IsCanceledError(cause) {
					cancel(&agent.EndError{Status: agent.StatusInterrupted, Text: "the run was cancelled"})
				} else {
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

// failure is the error of an activity: the server repeats it unless it is of type
// "permanent".
func failure(err error) error {
	var permanent *permanentError
	switch {
	case err == nil, errors.Is(err, errMoved):
		return err
	case errors.As(err, &permanent):
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
