package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
)

// grace is how long an agent may take to end by itself after it was cancelled.
const grace = 5 * time.Second

// maxRestarts is how often a run that the server has lost is continued in a new one.
const maxRestarts = 2

// Call implements agent.Tool. Its only time limits are those of the caller.
func (a *Agent) Call(ctx context.Context, inv *agent.Invocation) (result agent.Result, err error) {
	if inv.Caller == nil {
		return agent.Result{}, errors.New("this call is not part of a run")
	}
	defer func() { inv.Caller.Called(ctx, inv, err) }()
	for try := 0; ; try++ {
		result, err = a.run(ctx, inv)
		lost, ok := errors.AsType[*channel.EndedError](err)
		if !ok || lost.Seq == 0 || try == maxRestarts || ctx.Err() != nil {
			return result, err
		}
		inv.Progress(fmt.Sprintf("%s does not have the run any more; a new one continues it", a.Server.URL))
	}
}

func (a *Agent) run(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	late := context.AfterFunc(ctx, func() { time.AfterFunc(grace, end) })
	defer late()
	s := newStream(alive, a, inv.Progress)
	result, err := channel.Call(ctx, inv, s, s)
	if lost, ok := errors.AsType[*channel.EndedError](err); ok && s.failed != nil && ctx.Err() == nil {
		where := fmt.Sprintf("agent %s at %s", a.Description.Name, a.Server.URL)
		if lost.Seq == 0 {
			return agent.Result{}, fmt.Errorf("%s does not answer: %w", where, s.failed)
		}
		err = fmt.Errorf("%s: %w: %w", where, s.failed, err)
	}
	return result, err
}
