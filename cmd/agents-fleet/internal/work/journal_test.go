package work

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
)

// A flaky store fails a number of appends, before or after it has done them.
type flaky struct {
	store.Store
	before, after int
}

func (s *flaky) Append(ctx context.Context, record string, after int64, events [][]byte) error {
	if s.before > 0 {
		s.before--
		return errors.New("the link is down")
	}
	err := s.Store.Append(ctx, record, after, events)
	if err == nil && s.after > 0 {
		s.after--
		return errors.New("the link is down")
	}
	return err
}

func open(t *testing.T, s store.Store, own func(*agent.Event) bool) *journal {
	t.Helper()
	record, err := (&store.Records{Store: s}).Get(t.Context(), "R")
	if err != nil {
		t.Fatal(err)
	}
	return &journal{record: record, own: own, known: record.Position()}
}

func folder(t *testing.T) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func started(key string) agent.Event {
	return agent.Event{Kind: agent.EventCallStarted, Session: "R", Key: key, Time: time.Now()}
}

// A store that fails for a moment loses nothing and adds nothing twice.
func TestAStoreThatFails(t *testing.T) {
	for _, s := range []*flaky{{before: 2}, {after: 1}, {before: 1, after: 1}} {
		s.Store = folder(t)
		j := open(t, s, func(*agent.Event) bool { return true })
		for _, key := range []string{"one", "two"} {
			if err := j.Append(t.Context(), started(key)); err != nil {
				t.Fatal(err)
			}
			if err := j.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if lines, err := s.Read(t.Context(), "R", 0); err != nil || len(lines) != 2 {
			t.Errorf("the record has %d events, %v", len(lines), err)
		}
	}
}

// The second of two workers that start the same call starts nothing; another call does not
// matter.
func TestTheSecondWorkerIsSuperseded(t *testing.T) {
	s := folder(t)
	one := open(t, s, func(e *agent.Event) bool { return e.Key == "one" })
	again := open(t, s, func(e *agent.Event) bool { return e.Key == "one" })
	other := open(t, s, func(e *agent.Event) bool { return e.Key == "two" })
	for _, c := range []struct {
		j    *journal
		key  string
		want error
	}{{one, "one", nil}, {again, "one", store.ErrSuperseded}, {other, "two", nil}} {
		_ = c.j.Append(t.Context(), started(c.key))
		if err := c.j.Sync(t.Context()); !errors.Is(err, c.want) {
			t.Errorf("start of %s: %v, want %v", c.key, err, c.want)
		}
	}
	if err := again.Append(t.Context(), started("one")); !errors.Is(err, store.ErrSuperseded) {
		t.Errorf("the next event: %v", err)
	}
}

// What does not last is written with the next event, pieces of text as one.
func TestPiecesOfText(t *testing.T) {
	s := folder(t)
	j := open(t, s, func(*agent.Event) bool { return false })
	for _, text := range []string{"a", "b", "c"} {
		j.observe(agent.Event{Kind: agent.EventText, Session: "R", Text: text})
	}
	_ = j.Append(t.Context(), agent.Event{Kind: agent.EventAnswer, Session: "R"})
	if _, err := j.finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	events := j.record.Events()
	if len(events) != 2 || events[0].Text != "abc" || events[1].Kind != agent.EventAnswer {
		t.Errorf("the events %v", events)
	}
	if err := j.Append(t.Context(), started("late")); err == nil {
		t.Error("a journal that is finished takes events")
	}
}

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
				}, func(context.Context) *agent.EndError { return &agent.EndError{Status: agent.StatusInterrupted} }}
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

// A run whose store does not say why it was cancelled is cancelled nevertheless. The store is asked
// once, and heartbeats go on until the work has ended.
func TestACancelDoesNotWaitForTheStore(t *testing.T) {
	for _, silence := range []time.Duration{30 * time.Millisecond, 300 * time.Millisecond, time.Second} {
		for _, before := range []int{0, 1, 3} { // heartbeats
			t.Run(fmt.Sprintf("%v, after %d", silence, before), func(t *testing.T) {
				t.Parallel()
				var suite testsuite.WorkflowTestSuite
				env := suite.NewTestActivityEnvironment()
				env.SetWorkerStopChannel(make(chan struct{}))
				p, asked, over := &beats{errs: append(make([]error, before), temporal.NewCanceledError())}, atomic.Int64{}, make(chan struct{})
				life := func(ctx context.Context) error {
					l := &life{p, silence, func(why error) { t.Errorf("it was abandoned: %v", why) }, func(ctx context.Context) *agent.EndError {
						asked.Add(1)
						select {
						case <-ctx.Done():
						case <-over:
						}
						return &agent.EndError{Status: agent.StatusInterrupted}
					}}
					work, end := l.live(ctx)
					defer end()
					select {
					case <-work.Done():
					case <-time.After(10 * time.Second):
						close(over)
						return errors.New("the work does not end")
					}
					for n := p.n.Load(); p.n.Load() < n+3; {
						time.Sleep(time.Millisecond)
					}
					if n := asked.Load(); n != 1 {
						t.Errorf("the store was asked %d times", n)
					}
					return nil
				}
				env.RegisterActivity(life)
				if _, err := env.ExecuteActivity(life); err != nil {
					t.Error(err)
				}
			})
		}
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
