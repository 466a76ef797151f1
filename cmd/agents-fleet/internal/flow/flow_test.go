package flow_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
)

// A fake does the activities of a test.
type fake struct {
	mu    sync.Mutex
	tasks []flow.Task // in their order
	step  func(flow.Task) (flow.Next, error)
	call  func(flow.Task) (flow.Called, error)
	host  func(flow.Task) (flow.Claim, error)
	now   int // calls in progress
	most  int
}

func (f *fake) note(t flow.Task) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tasks = append(f.tasks, t)
}

func (f *fake) env(t *testing.T) *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(flow.Run, workflow.RegisterOptions{Name: flow.Workflow})
	env.RegisterActivityWithOptions(func(_ context.Context, t flow.Task) (flow.Next, error) { f.note(t); return f.step(t) }, activity.RegisterOptions{Name: flow.StepActivity})
	env.RegisterActivityWithOptions(func(_ context.Context, t flow.Task) (flow.Called, error) {
		f.note(t)
		f.mu.Lock()
		f.now++
		f.most = max(f.most, f.now)
		f.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
		f.mu.Lock()
		f.now--
		f.mu.Unlock()
		return f.call(t)
	}, activity.RegisterOptions{Name: flow.CallActivity})
	env.RegisterActivityWithOptions(func(_ context.Context, t flow.Task) (flow.Claim, error) { f.note(t); return f.host(t) }, activity.RegisterOptions{Name: flow.ClaimActivity})
	env.RegisterActivityWithOptions(func(context.Context, flow.Kept) error { return nil }, activity.RegisterOptions{Name: flow.KeepActivity})
	env.SetTestTimeout(20 * time.Second)
	return env
}

// anything is what the test environment accepts any argument for.
const anything = "mock.Anything"

var input = flow.Input{Record: "S", Session: "S", Folder: "sha256:f", File: "agent.json", Start: "sha256:s"}

func calls(n, parallel int) flow.Next {
	next := flow.Next{Parallel: parallel}
	for i := range n {
		next.Calls = append(next.Calls, flow.Call{Key: "S.1." + string(rune('1'+i)), Tool: "t"})
	}
	return next
}

// turnsOnce has calls in its first turn and then ends.
func turnsOnce(first flow.Next) func(flow.Task) (flow.Next, error) {
	asked := false
	return func(t flow.Task) (flow.Next, error) {
		if asked || t.End != "" {
			return flow.Next{Ended: "ok"}, nil
		}
		asked = true
		return first, nil
	}
}

func TestCallsRunAtTheSameTimeUpToTheLimit(t *testing.T) {
	for _, limit := range []int{1, 3} {
		f := &fake{step: turnsOnce(calls(8, limit)), call: func(flow.Task) (flow.Called, error) { return flow.Called{}, nil }}
		env := f.env(t)
		env.ExecuteWorkflow(flow.Workflow, input)
		if err := env.GetWorkflowError(); err != nil || f.most > limit || len(f.tasks) != 10 {
			t.Errorf("limit %d: %v, %d at the same time, %d tasks", limit, err, f.most, len(f.tasks))
		}
	}
}

// The call of a sub-agent is an activity, a child workflow and an activity again.
func TestACallOfASubagent(t *testing.T) {
	first := flow.Next{Parallel: 1, Calls: []flow.Call{{Key: "S.1.1", Tool: "a"}, {Key: "S.1.2", Tool: "b"}}}
	root := turnsOnce(first)
	f := &fake{call: func(t flow.Task) (flow.Called, error) {
		if t.Ended {
			return flow.Called{}, nil
		}
		return flow.Called{Child: &flow.Child{Session: "C" + t.Key, Agent: "sub", Start: "sha256:c"}}, nil
	}}
	f.step = func(t flow.Task) (flow.Next, error) {
		if t.Session == "S" {
			return root(t)
		}
		return flow.Next{Ended: "ok"}, nil
	}
	env := f.env(t)
	env.ExecuteWorkflow(flow.Workflow, input)
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, task := range f.tasks {
		got = append(got, strings.Join(append([]string{task.Session, task.Key}, task.Path...), " "))
	}
	want := []string{"S ", "S S.1.1", "CS.1.1  sub", "S S.1.1", "S S.1.2", "CS.1.2  sub", "S S.1.2", "S "}
	if !slices.Equal(got, want) {
		t.Errorf("tasks %q, want %q", got, want)
	}
}

// A sub-agent whose workflow fails has its session ended before the call gets its result.
func TestASubagentWhoseWorkflowFails(t *testing.T) {
	first := flow.Next{Parallel: 1, Calls: []flow.Call{{Key: "S.1.1", Tool: "a"}}}
	root, broken := turnsOnce(first), true
	f := &fake{call: func(t flow.Task) (flow.Called, error) {
		if t.Ended {
			return flow.Called{}, nil
		}
		return flow.Called{Child: &flow.Child{Session: "C", Agent: "sub"}}, nil
	}}
	var ended []flow.Task
	f.step = func(t flow.Task) (flow.Next, error) {
		if t.Session == "S" {
			return root(t)
		}
		if t.End != "" {
			ended = append(ended, t)
		}
		if broken = broken && len(ended) < 2; broken { // in the child itself
			return flow.Next{}, temporal.NewNonRetryableApplicationError("broken", "permanent", nil)
		}
		return flow.Next{Ended: "failed"}, nil
	}
	env := f.env(t)
	env.ExecuteWorkflow(flow.Workflow, input)
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if n := len(ended); n != 2 || ended[1].End != "failed" || !strings.Contains(ended[1].Reason, "broken") {
		t.Errorf("the session was ended by %+v", ended)
	}
	if last := f.tasks[len(f.tasks)-2]; !last.Ended || last.Key != "S.1.1" {
		t.Errorf("the last call was %+v", last)
	}
}

func TestACancelledRunEndsItsSession(t *testing.T) {
	f := &fake{call: func(flow.Task) (flow.Called, error) { return flow.Called{}, nil }}
	f.step = func(t flow.Task) (flow.Next, error) {
		if t.End != "" {
			return flow.Next{Ended: t.End}, nil
		}
		return calls(1, 1), nil
	}
	env := f.env(t)
	env.OnActivity(flow.CallActivity, anything, anything).After(time.Hour).Return(flow.Called{}, nil)
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	env.ExecuteWorkflow(flow.Workflow, input)
	var cancelled *temporal.CanceledError
	if err := env.GetWorkflowError(); !errors.As(err, &cancelled) {
		t.Errorf("the run ended with %v", err)
	}
	if last := f.tasks[len(f.tasks)-1]; last.End != "interrupted" {
		t.Errorf("the last task is %+v", last)
	}
}

// A long run continues as a new workflow with the same input, where it was.
func TestALongRunContinuesAsNew(t *testing.T) {
	f := &fake{call: func(flow.Task) (flow.Called, error) {
		return flow.Called{At: flow.Position{Number: 7, Digest: "d"}}, nil
	}}
	f.step = func(flow.Task) (flow.Next, error) { return calls(1, 1), nil }
	env := f.env(t)
	env.SetContinueAsNewSuggested(true)
	env.ExecuteWorkflow(flow.Workflow, input)
	var again *workflow.ContinueAsNewError
	if err := env.GetWorkflowError(); !errors.As(err, &again) {
		t.Fatalf("the run ended with %v", err)
	}
	var in flow.Input
	if err := converter.GetDefaultDataConverter().FromPayloads(again.Input, &in); err != nil {
		t.Fatal(err)
	}
	if in.Resumed == nil || in.Resumed.At.Number != 7 || in.Session != "S" {
		t.Errorf("it continues with %+v", in)
	}
}

// When the host of the workspace is gone, another one takes over and the task is repeated
// there.
func TestAnotherHostTakesOver(t *testing.T) {
	f := &fake{step: turnsOnce(flow.Next{Ended: "ok"})}
	f.host = func(t flow.Task) (flow.Claim, error) {
		return flow.Claim{Queue: "host" + string(rune('1'+t.Host.Term)), Term: t.Host.Term + 1}, nil
	}
	env := f.env(t)
	var queues []string
	env.OnActivity(flow.StepActivity, anything, anything).Return(func(ctx context.Context, task flow.Task) (flow.Next, error) {
		queues = append(queues, task.Host.Queue)
		if task.Host.Term == 1 {
			return flow.Next{}, temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
		}
		return flow.Next{Ended: "ok"}, nil
	})
	in := input
	in.Options.Workspace = "w"
	env.ExecuteWorkflow(flow.Workflow, in)
	if err := env.GetWorkflowError(); err != nil || queues[0] != "host1" || queues[len(queues)-1] != "host2" {
		t.Errorf("%v, the queues %q", err, queues)
	}
}

// A call of a sub-agent in the background returns a handle after two seconds. The run continues, can
// wait for the sub-agent to end, and does not end before it. If the sub-agent is cancelled, its own
// workflow records the end, and so does that of its caller.
func TestASubagentInTheBackground(t *testing.T) {
	child := flow.Task{Input: flow.Input{Record: "S", Session: "C", Path: []string{"sub"}, Folder: input.Folder, File: input.File, Start: "sha256:c", Root: input.Start, Callers: []string{"S"}}}
	for name, tc := range map[string]struct {
		time  time.Duration // of the sub-agent
		steps []flow.Next   // of the root
		wait  time.Duration
		want  []string // the tasks after the first call
	}{
		"quick":                                  {time.Second, []flow.Next{calls(1, 1), {Ended: "ok"}}, 0, []string{"ended S.1.1", "step"}},
		"slow, and nothing more":                 {time.Hour, []flow.Next{calls(1, 1), {Open: true}, {Ended: "ok"}}, 0, []string{"left S.1.1", "step", "end of C", "end of C", "settled step"}},
		"its end is told before that of the run": {4 * time.Second, []flow.Next{calls(1, 1), {Open: true}, {Ended: "ok"}}, -1, []string{"left S.1.1", "step", "step"}},
		"waited for":                             {10 * time.Second, []flow.Next{calls(1, 1), {Parallel: 1, Calls: []flow.Call{{Key: "S.2.1"}}}, {Ended: "ok"}}, time.Minute, []string{"left S.1.1", "step", "S.2.1", "ended S.2.1", "step"}},
		"waited for too briefly":                 {time.Hour, []flow.Next{calls(1, 1), {Parallel: 1, Calls: []flow.Call{{Key: "S.2.1"}}}, {Open: true}, {Ended: "ok"}}, time.Minute, []string{"left S.1.1", "step", "S.2.1", "ended S.2.1", "step", "end of C", "end of C", "settled step"}},
	} {
		f := &fake{call: func(t flow.Task) (flow.Called, error) {
			switch {
			case t.Ended, t.Left:
				return flow.Called{}, nil
			case t.Key == "S.2.1":
				return flow.Called{Wait: &flow.Wait{Keys: []string{"S.1.1"}, Most: tc.wait}}, nil
			}
			return flow.Called{Child: &flow.Child{Session: "C", Agent: "sub", Start: "sha256:c", Background: true}}, nil
		}}
		var got []string
		env := f.env(t)
		env.OnActivity(flow.StepActivity, anything, child).After(tc.time).Return(flow.Next{Ended: "ok"}, nil)
		others := env.OnActivity(flow.StepActivity, anything, anything)
		if tc.wait < 0 { // it takes longer than the sub-agent
			others.After(time.Hour)
		}
		others.Return(func(_ context.Context, t flow.Task) (flow.Next, error) {
			f.note(t)
			if t.Session == "C" {
				return flow.Next{Ended: t.End}, nil
			}
			next := tc.steps[0]
			tc.steps = tc.steps[1:]
			return next, nil
		})
		env.ExecuteWorkflow(flow.Workflow, input)
		if err := env.GetWorkflowError(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, task := range f.tasks[2:] {
			switch {
			case task.Session == "C":
				got = append(got, "end of C")
			case task.Key != "" && task.Ended:
				got = append(got, "ended "+task.Key)
			case task.Key != "" && task.Left:
				got = append(got, "left "+task.Key)
			case task.Key != "":
				got = append(got, task.Key)
			case task.Settled:
				got = append(got, "settled step")
			default:
				got = append(got, "step")
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: the tasks are %q, want %q", name, got, tc.want)
		}
	}
}

// A sub-agent in the background without a workflow is an activity, beside which its caller continues
// as soon as the session has begun. If it is cancelled before it runs, another activity ends it.
func TestASubagentAside(t *testing.T) {
	for name, tc := range map[string]struct {
		time  time.Duration // of the sub-agent
		begun int           // how many times the caller asks until the session has begun
		err   error
		want  []string
	}{
		"quick":               {time.Second, 1, nil, []string{"S.1.1", "ended S.1.1", "step"}},
		"slow, then stopped":  {time.Hour, 1, nil, []string{"S.1.1", "left S.1.1", "step", "end of S.1.1", "settled step"}},
		"it begins late":      {time.Hour, 3, nil, []string{"S.1.1", "left S.1.1", "left S.1.1", "left S.1.1", "step", "end of S.1.1", "settled step"}},
		"it cannot be worked": {time.Second, 1, temporal.NewNonRetryableApplicationError("broken", "permanent", nil), []string{"S.1.1", "step failed"}},
	} {
		left, ended := 0, false
		f := &fake{call: func(task flow.Task) (flow.Called, error) {
			if task.Left {
				left++
			}
			if task.End != "" {
				return flow.Called{}, nil
			}
			if task.Ended || task.Left && left >= tc.begun {
				return flow.Called{}, nil
			}
			return flow.Called{Child: &flow.Child{Agent: "sub", Background: true}}, nil
		}}
		f.step = func(task flow.Task) (flow.Next, error) {
			switch {
			case task.End != "":
				return flow.Next{Ended: task.End}, nil
			case !ended:
				ended = true
				return calls(1, 1), nil
			case left > 0 && !task.Settled:
				return flow.Next{Open: true}, nil
			}
			return flow.Next{Ended: "ok"}, nil
		}
		env := f.env(t)
		aside := flow.Task{Input: input, Key: "S.1.1", Aside: true}
		env.OnActivity(flow.CallActivity, anything, aside).After(tc.time).Return(flow.Called{}, tc.err)
		env.OnActivity(flow.CallActivity, anything, anything).Return(func(_ context.Context, task flow.Task) (flow.Called, error) {
			f.note(task)
			return f.call(task)
		})
		env.ExecuteWorkflow(flow.Workflow, input)
		if err := env.GetWorkflowError(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got []string
		for _, task := range f.tasks[1:] {
			what := "step"
			switch {
			case task.Ended:
				what = "ended " + task.Key
			case task.Left:
				what = "left " + task.Key
			case task.Key != "" && task.End != "":
				what = "end of " + task.Key
			case task.Key != "":
				what = task.Key
			case task.Settled:
				what = "settled step"
			case task.End != "":
				what = "step " + task.End
			}
			got = append(got, what)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: the tasks are %q, want %q", name, got, tc.want)
		}
	}
}
