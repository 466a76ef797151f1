package flow

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

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
		i := r.inputs
		r.inputs++
		return keep(ctx, Kept{InputName(r.in.Record, r.in.Session, i), u.Blob})
	}, workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, u InputMessage) error {
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
