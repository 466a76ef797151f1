package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
)

// ends is a tool whose result ends the run.
func ends(name string, status agent.Status) agent.Tool {
	return tool{name, func(context.Context, *agent.Invocation) (agent.Result, error) {
		r := agent.TextResult("because of " + name)
		r.End = status
		return r, nil
	}}
}

// plans is a tool that adds its arguments to the plan, as a task.
func plans() agent.Tool {
	return tool{"plan", func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
		r := agent.TextResult("planned")
		r.Task = &agent.Task{}
		return r, json.Unmarshal([]byte(inv.Call.Args), r.Task)
	}}
}

func TestAResultEndsTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		tool   agent.Tool
		status agent.Status
		answer string
		err    string
		turns  int
	}{
		"ok":      {ends("stop", agent.StatusOK), agent.StatusOK, "because of stop", "", 1},
		"refused": {ends("stop", agent.StatusRefused), agent.StatusRefused, "", "because of stop", 1},
		"a failed result": {tool{"stop", func(context.Context, *agent.Invocation) (agent.Result, error) {
			return agent.Result{End: agent.StatusOK}, errors.New("no")
		}}, agent.StatusOK, "next", "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(byTurn("", calls(call("", "stop", "{}"), call("", "echo", "{}")), text("next")), c.tool, echo("echo"))
			r := &runner.Runner{Agent: a}
			out, err := r.Run(t.Context(), agent.UserText("go"))
			if out.Status != c.status || out.Answer != c.answer || fmt.Sprint(err) != cmpErr(c.err) || out.Turns != c.turns {
				t.Errorf("Run = %+v, %v", out, err)
			}
			if r.Session().Unfinished() {
				t.Error("the session is unfinished")
			}
			if out, err = r.Run(t.Context(), agent.UserText("and now?")); err != nil || out.Answer != "next" {
				t.Errorf("the next run = %+v, %v", out, err)
			}
		})
	}
}

func cmpErr(s string) string {
	if s == "" {
		return "<nil>"
	}
	return s
}

func TestASubagentThatRefusesSaysWhy(t *testing.T) {
	child := newAgent(byTurn("", calls(call("", "reject", "{}"))), ends("reject", agent.StatusRefused))
	child.Slug = "child"
	a := newAgent(byTurn("", calls(call("a", "child", `{"prompt":"q"}`)), text("done")), &agent.Subagent{Name: "child", Agent: child})
	r := &runner.Runner{Agent: a}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	list := r.Session().Messages
	if got := list[len(list)-2].Results[0]; !got.Failed || got.Text() != "[refused] agent child did not answer: because of reject" {
		t.Errorf("the caller reads %+v", got)
	}
}

func TestThePlanIsWhatTheResultsSay(t *testing.T) {
	a := newAgent(byTurn("", calls(call("", "plan", `{"id":"a","title":"first"}`), call("", "plan", `{"id":"b","parent":"a","title":"second"}`)),
		calls(call("", "plan", `{"id":"a","state":"done"}`), call("", "look", "{}")), text("done")), plans(),
		tool{"look", func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
			s := inv.SessionState()
			return agent.TextResult(fmt.Sprint(len(s.Messages[len(s.Messages)-1].Calls), []agent.Task(s.Plan))), nil
		}})
	r := &runner.Runner{Agent: a}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	want := agent.Plan{{ID: "a", Title: "first", State: agent.TaskDone}, {ID: "b", Parent: "a", Title: "second"}}
	if d := cmp.Diff(want, r.Session().Plan); d != "" {
		t.Error(d)
	}
	list := r.Session().Messages
	if got := list[len(list)-2].Results[1].Text(); got != "2 [{a  first  } {b a second  }]" {
		t.Errorf("a call sees %q", got)
	}
}
