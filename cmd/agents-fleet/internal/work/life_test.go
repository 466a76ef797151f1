package work

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
)

// beats answers each heartbeat with its next error, and then with the last one.
type beats struct {
	errs []error
	n    atomic.Int64
}

func (b *beats) RecordActivityHeartbeat(context.Context, []byte, ...any) error {
	return b.errs[min(int(b.n.Add(1)), len(b.errs))-1]
}

func TestLife(t *testing.T) {
	down := serviceerror.NewUnavailable("down")
	for _, c := range []struct {
		name      string
		errs      []error
		silence   time.Duration
		stop      bool
		want      agent.Status // of the cause; "" for none
		abandoned error
	}{
		{name: "well", errs: []error{nil}, silence: 30 * time.Millisecond},
		{name: "a short break", errs: []error{down, nil}, silence: 1500 * time.Millisecond},
		{name: "a long break", errs: []error{down}, silence: 30 * time.Millisecond, abandoned: errLost},
		{name: "given to another worker", errs: []error{serviceerror.NewNotFound("no")}, silence: 30 * time.Millisecond, abandoned: errLost},
		{name: "cancelled", errs: []error{nil, temporal.NewCanceledError()}, silence: time.Hour, want: agent.StatusInterrupted},
		{name: "the worker stops", errs: []error{nil}, silence: time.Hour, stop: true, abandoned: errStopping},
	} {
		t.Run(c.name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			stopping := make(chan struct{})
			env.SetWorkerStopChannel(stopping)
			p, abandoned := &beats{errs: c.errs}, make(chan error, 1)
			life := func(ctx context.Context) error {
				l := &life{p, c.silence, func(why error) {
					select {
					case abandoned <- why:
					default:
					}
				}, func() *agent.EndError { return &agent.EndError{Status: agent.StatusInterrupted} }}
				work, end := l.live(ctx)
				defer end()
				if c.stop {
					close(stopping)
				}
				if c.want == "" && c.abandoned == nil {
					for int(p.n.Load()) < len(c.errs)+1 {
						time.Sleep(time.Millisecond)
					}
					return work.Err()
				}
				<-work.Done()
				var ended *agent.EndError
				if errors.As(context.Cause(work), &ended) != (c.want != "") || ended != nil && ended.Status != c.want {
					t.Errorf("the cause is %v", context.Cause(work))
				}
				return nil
			}
			env.RegisterActivity(life)
			if _, err := env.ExecuteActivity(life); err != nil {
				t.Error(err)
			}
			select {
			case why := <-abandoned:
				if !errors.Is(why, c.abandoned) {
					t.Errorf("abandoned: %v", why)
				}
			default:
				if c.abandoned != nil {
					t.Error("it was not abandoned")
				}
			}
		})
	}
}

// A panic ends the run with a report: no attempt is made again, and the worker stays.
func TestAPanicEndsOneRun(t *testing.T) {
	var said string
	w := &Worker{o: Options{Note: func(line string) { said += line }}}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(w.step)
	_, err := env.ExecuteActivity(w.step, flow.Task{Input: flow.Input{Start: "sha256-" + strings.Repeat("0", 64)}}) // the worker has no store
	failed, ok := errors.AsType[*temporal.ApplicationError](err)
	if !ok || !failed.NonRetryable() || !strings.Contains(err.Error(), guard.ErrPanic.Error()) || !strings.Contains(said, "attempt.go") {
		t.Errorf("the step ends with %v; reported %s", err, said)
	}
}
