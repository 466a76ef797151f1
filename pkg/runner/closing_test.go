package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// asked answers with calls of echo, at a dollar each, until it is asked for its answer,
// and then with last.
func asked(last *agent.Response) agent.Provider {
	return providerFunc(func(req *agent.Request) (*agent.Response, error) {
		m := req.Messages[len(req.Messages)-1]
		r := *calls(call("", "echo", fmt.Sprintf(`{"turn":%d}`, req.Turn)))
		if m.Role == agent.RoleUser && strings.Contains(m.Text(), "nearly spent") {
			r = *last
		}
		r.Usage = agent.Usage{Requests: 1, InputTokens: 100, OutputTokens: 10, Cost: agent.Dollar, Priced: 1}
		return &r, nil
	})
}

func TestTheModelIsAskedForItsAnswerBeforeABudgetIsSpent(t *testing.T) {
	for _, tt := range []struct {
		name   string
		budget agent.Budget
		reason string
		left   string
		turns  int
	}{
		{"a fifth is left", limit("usd", 500), "budget usd 5.00 of agent root is nearly spent (4.00)", "usd 1.00 of 5.00 left", 5},
		{"two requests are left", limit("usd", 3000), "budget usd 30.00 of agent root is nearly spent (24.00)", "usd 6.00 of 30.00 left", 25},
		{"one turn", limit("turns", 1), "budget turns 1 of agent root is nearly spent (0)", "turns 1 of 1 left", 1},
		{"the calls are used", limit("calls", 3), "budget calls 3 of agent root spent (3)", "calls 0 of 3 left", 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAgent(asked(text("my best")), echo("echo"))
			a.Budget = tt.budget
			j := &journal{}
			r := &runner.Runner{Agent: a, Journal: j}
			out, err := r.Run(t.Context(), agent.UserText("go"))
			if err != nil || out.Status != agent.StatusPartial || out.Answer != "my best" || out.Reason != tt.reason || out.Turns != tt.turns {
				t.Errorf("Run = %+v, %v, want a partial answer after %d turns: %s", out, err, tt.turns, tt.reason)
			}
			closings := 0
			for _, e := range j.events {
				if e.Closing {
					closings++
					if !strings.Contains(e.Message.Text(), tt.left) || e.Error != tt.reason || e.Total == nil || e.Total.Usage.Requests != tt.turns-1 {
						t.Errorf("asked with %q (%s), %+v", e.Message.Text(), e.Error, e.Total)
					}
				}
			}
			if end := j.events[len(j.events)-1]; closings != 1 || end.Status != agent.StatusPartial || end.Text != "my best" || end.Error != tt.reason {
				t.Errorf("asked %d times; the end is %+v", closings, end)
			}
			if r.Session().Unfinished() {
				t.Error("the session is unfinished")
			}
		})
	}
}

func TestABudgetThatIsSpentAtOnceAsksForNothing(t *testing.T) {
	a := newAgent(asked(text("my best")), echo("echo"))
	a.Budget = limit("usd", 105) // 0.05 of it pays for no answer
	out, err := (&runner.Runner{Agent: a}).Run(t.Context(), agent.UserText("go"))
	if out.Status != agent.StatusBudget || err == nil || err.Error() != "budget usd 1.05 of agent root spent (2.00)" {
		t.Errorf("Run = %+v, %v", out, err)
	}
}

func TestThePartialAnswerOfASubagentSaysSo(t *testing.T) {
	child := newAgent(asked(text("half of it")), echo("echo"))
	child.Slug, child.Budget = "child", limit("usd", 500)
	a := newAgent(byTurn("", calls(call("", "child", `{"prompt":"1"}`)), text("done")), &agent.Subagent{Name: "child", Agent: child})
	r := &runner.Runner{Agent: a}
	out, err := r.Run(t.Context(), agent.UserText("go"))
	got := r.Session().Messages[2].Results[0]
	want := "[partial] agent child answered early: budget usd 5.00 of agent child is nearly spent (4.00)\nhalf of it"
	if err != nil || out.Status != agent.StatusOK || got.Failed || got.Text() != want {
		t.Errorf("Run = %+v, %v; the result is %q, want %q", out, err, got.Text(), want)
	}
}

func TestAPartialAnswerIsCheckedToo(t *testing.T) {
	a := newAgent(asked(text("bad")), echo("echo"))
	a.Budget = limit("usd", 1000)
	n := 0
	r := &runner.Runner{Agent: a, Accept: func(context.Context, string) (string, error) {
		if n++; n == 1 {
			return "", errors.New("it is short")
		}
		return "good", nil
	}}
	a.Provider = providerFunc(func(req *agent.Request) (*agent.Response, error) {
		r := *text("bad")
		if m := req.Messages[len(req.Messages)-1]; m.Role == agent.RoleTool || req.Turn == 1 {
			r = *calls(call("", "echo", fmt.Sprintf(`{"turn":%d}`, req.Turn)))
		}
		r.Usage = agent.Usage{Requests: 1, Cost: agent.Dollar, Priced: 1}
		return &r, nil
	})
	out, err := r.Run(t.Context(), agent.UserText("go"))
	if err != nil || out.Status != agent.StatusPartial || out.Answer != "good" || n != 2 {
		t.Errorf("Run = %+v, %v after %d answers", out, err, n)
	}
}

func TestALoopWarnsAndEnds(t *testing.T) {
	poll := func(change int) (*runner.Runner, *[]agent.Request) {
		n := 0
		look := tool{"look", func(context.Context, *agent.Invocation) (agent.Result, error) {
			if n++; n == change {
				return agent.TextResult("new"), nil
			}
			return agent.TextResult("old"), nil
		}}
		m := &model{answers: []*agent.Response{calls(call("", "look", `{"a":1,"b":2}`)), calls(call("", "look", `{ "b": 2, "a": 1 }`)), calls(call("", "look", `{"a":1,"b":2}`))}}
		a := newAgent(m, look)
		a.LoopWarn, a.LoopEnd, a.MaxTurns = 0, 0, 8
		return &runner.Runner{Agent: a, Journal: &journal{}}, &m.requests
	}
	warnings := func(r *runner.Runner) (at []int) {
		for i, m := range r.Session().Messages {
			if m.Role == agent.RoleTool && strings.Contains(m.Results[0].Text(), "third time in a row that look was called") {
				at = append(at, i/2)
			}
		}
		return at
	}
	r, requests := poll(0)
	out, err := r.Run(t.Context(), agent.UserText("go"))
	want := "loop limit reached: look was called 5 times in a row with the same arguments and gave the same result"
	if out.Status != agent.StatusLimit || !errors.Is(err, agent.ErrLoop) && err.Error() != want || out.Turns != 5 || len(*requests) != 5 {
		t.Errorf("Run = %+v, %v", out, err)
	}
	if got := fmt.Sprint(warnings(r)); got != "[3]" {
		t.Errorf("warned at turns %s, want [3]", got)
	}
	if !strings.HasSuffix((*requests)[3].Messages[6].Results[0].Text(), "After 5 times the run ends.]") {
		t.Errorf("the model was asked with %+v", (*requests)[3].Messages[6].Results[0])
	}
	r, _ = poll(3) // another result in between
	if out, err = r.Run(t.Context(), agent.UserText("go")); out.Turns != 8 || fmt.Sprint(warnings(r)) != "[6]" {
		t.Errorf("Run = %+v, %v, warned at %v", out, err, warnings(r))
	}
	r, _ = poll(0)
	r.Agent.LoopWarn, r.Agent.LoopEnd = -1, -1
	if out, err = r.Run(t.Context(), agent.UserText("go")); !errors.Is(err, agent.ErrTurns) || warnings(r) != nil {
		t.Errorf("without a limit: Run = %+v, %v, warned at %v", out, err, warnings(r))
	}
}

func TestAResumedSessionCountsTheLoopOn(t *testing.T) {
	look := tool{"look", func(context.Context, *agent.Invocation) (agent.Result, error) { return agent.TextResult("old"), nil }}
	newAgent := func() *agent.Agent {
		a := newAgent(&model{answers: []*agent.Response{calls(call("", "look", `{}`))}}, look)
		a.LoopWarn, a.LoopEnd, a.Deadline = 0, 0, time.Hour
		return a
	}
	j := &dying{at: 16} // in the fifth turn
	if _, err := (&runner.Runner{Agent: newAgent(), Journal: j}).Run(t.Context(), agent.UserText("go")); !errors.Is(err, errDead) {
		t.Fatal(err)
	}
	j.at = -1
	r := load(t, j.events)
	r.Agent, r.Journal = newAgent(), j
	if out, err := r.Resume(t.Context()); !errors.Is(err, agent.ErrLoop) && agent.StatusOf(err) != agent.StatusLimit || out.Turns != 5 {
		t.Errorf("Resume = %+v, %v after %s", out, err, j.kinds())
	}
}

// A session that refuses an event is as it was.
func TestARefusedClosingChangesNothing(t *testing.T) {
	m := agent.UserText("now answer")
	s := agent.Session{State: agent.State{ID: "S", Running: true, Loop: agent.Loop{Count: 2}, Messages: []agent.Message{agent.UserText("go"), {Role: agent.RoleAssistant}}}}
	err := s.Apply(agent.Event{Kind: agent.EventMessage, Session: "S", Closing: true, Message: &m})
	if err == nil || s.Loop.Count != 2 {
		t.Errorf("Apply: %v; the loop is %+v", err, s.Loop)
	}
}
