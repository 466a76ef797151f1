package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// fits wants an answer of more than one letter and gives it back in capitals.
func fits(_ context.Context, answer string) (string, error) {
	if len(answer) < 2 {
		return "", errors.New("it has " + answer + " alone")
	}
	return strings.ToUpper(answer), nil
}

func TestAnAnswerThatIsNotAcceptedIsAskedForAgain(t *testing.T) {
	m := &model{answers: []*agent.Response{text("a"), calls(call("c", "echo", "{}")), text("b"), text("good")}}
	a := newAgent(m, echo("echo"))
	j := &journal{}
	out, err := (&runner.Runner{Agent: a, Journal: j, Accept: fits}).Run(t.Context(), agent.UserText("go"))
	if err != nil || out.Answer != "GOOD" || out.Turns != 4 || out.Total.Usage.Requests != 4 || out.Status != agent.StatusOK {
		t.Fatalf("Run = %+v, %v", out, err)
	}
	told := m.requests[1].Messages
	if got := told[len(told)-1].Text(); !strings.Contains(got, "it has a alone") {
		t.Errorf("the model is told %q", got)
	}
	end := j.events[len(j.events)-1]
	if n := strings.Count(j.kinds(), "end"); end.Text != "GOOD" || n != 2 { // and call_ended
		t.Errorf("the events are %s, the last %+v", j.kinds(), end)
	}
}

func TestARunEndsWhenNoAnswerIsAccepted(t *testing.T) {
	a := newAgent(&model{answers: []*agent.Response{text("a"), text("b"), text("c"), text("good")}})
	r := &runner.Runner{Agent: a, Accept: fits}
	out, err := r.Run(t.Context(), agent.UserText("go"))
	if !errors.Is(err, agent.ErrAnswer) || out.Status != agent.StatusInvalid || out.Answer != "c" || out.Turns != agent.MaxAnswers {
		t.Fatalf("Run = %+v, %v", out, err)
	}
	if out, err = r.Run(t.Context(), agent.UserText("again")); err != nil || out.Answer != "GOOD" {
		t.Errorf("the next prompt: %+v, %v", out, err)
	}
}

// TestAttemptsAreCountedOverProcesses dies at every event: the answers of all
// processes count, and none is asked for once more.
func TestAttemptsAreCountedOverProcesses(t *testing.T) {
	newTree := func() *agent.Agent {
		return newAgent(&script{answers: map[int]*agent.Response{1: text("a"), 3: text("b"), 5: text("c"), 7: text("good")}})
	}
	full := &journal{}
	if _, err := (&runner.Runner{Agent: newTree(), Journal: full, Accept: fits}).Run(t.Context(), agent.UserText("go")); !errors.Is(err, agent.ErrAnswer) {
		t.Fatal(err)
	}
	for at := 2; at < len(full.events); at++ {
		j := &journal{events: full.events[:at:at]}
		r := load(t, j.events)
		r.Agent, r.Journal, r.Accept = newTree(), j, fits
		out, err := r.Resume(t.Context())
		if !errors.Is(err, agent.ErrAnswer) || out.Turns != 3 || out.Total.Usage.Requests-out.Total.Usage.Estimated != 3 || strings.Replace(j.kinds(), "resume ", "", 1) != full.kinds() {
			t.Errorf("resumed at %d: %+v, %v; events %s", at, out, err, j.kinds())
		}
	}
}
