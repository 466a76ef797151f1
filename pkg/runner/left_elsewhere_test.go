package runner_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// An elsewhere records what is sent to agents that other Runners run.
type elsewhere struct {
	list []string
	over bool // what is waited for
}

func (e *elsewhere) Send(_ context.Context, session, key string, m agent.Message) error {
	e.list = append(e.list, "send "+session+" "+key+" "+m.Text())
	return nil
}

func (e *elsewhere) Stop(_ context.Context, session, reason string) error {
	e.list = append(e.list, "stop "+session+" "+reason)
	return nil
}

func (e *elsewhere) Await(sessions []string, most time.Duration) bool {
	e.list = append(e.list, "wait "+strings.Join(sessions, " ")+" "+most.String())
	return !e.over
}

// Runners that share only a record leave an agent in the background, send it messages, and tell its
// end once.
func TestRunnersLeaveAnAgentElsewhere(t *testing.T) {
	var done []string
	main := leaving(0, &done, func(last string) *agent.Response {
		switch {
		case strings.Contains(last, "works in the background"):
			return calls(call("l", "agent_list", `{}`), call("m", "agent_send", `{"agent":"slow-1-1","message":"hurry"}`), call("w", "agent_wait", `{"seconds":5}`), call("x", "agent_stop", `{"agent":"slow-1-1"}`))
		case strings.Contains(last, "has not ended after"):
			return text("early")
		}
		return text("told: " + last)
	})
	slow := main.Toolsets[0].(agent.ToolList)[0].(*backgroundAgent).Agent
	f := &fleet{t: t, agents: map[string]*agent.Agent{"": main, "main": main, "slow": slow}, ids: ids(), leases: map[string]agent.Lease{}}
	there, delegated := &elsewhere{}, []runner.Delegation(nil)
	of := func(session string) *runner.Runner {
		r := f.runner(session)
		r.Elsewhere = there
		r.Delegate = func(_ context.Context, d runner.Delegation) error {
			delegated = append(delegated, d)
			f.leases[d.Session] = d.Lease
			return nil
		}
		return r
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	root := of("")
	must(root.Prompt(t.Context(), agent.UserText("go")))
	id := root.Session().ID
	_, err := of(id).Step(t.Context())
	must(err)
	key := of(id).Session().Next().Calls[0].Key
	must(of(id).StepCall(t.Context(), key))
	if len(delegated) != 1 || !delegated[0].Background {
		t.Fatalf("delegated %+v", delegated)
	}
	child := delegated[0].Session
	must(of(id).Leave(t.Context(), key))
	_, err = of(id).Step(t.Context())
	must(err)
	for range 2 { // the second time, nothing more has happened
		for _, c := range of(id).Session().Next().Calls {
			must(of(id).StepCall(t.Context(), c.Key))
		}
		there.over = true
	}
	if want := []string{"send " + child + " " + id + ".2.2 hurry", "wait " + child + " 5s", "stop " + child + " its caller stopped it", "wait " + child + " 1m0s"}; !slices.Equal(there.list[:4], want) {
		t.Errorf("it was reached with %q, want %q", there.list, want)
	}
	var results []string
	for _, c := range of(id).Session().Messages[len(of(id).Session().Messages)-1].Results {
		results = append(results, strings.TrimSpace(c.Text()))
	}
	if want := []string{"slow-1-1 (expert_slow): works", "sent", "none has ended within 5 s", "error: agent slow-1-1 has not ended after 1m0s"}; !slices.Equal(results, want) {
		t.Errorf("the results are %q, want %q", results, want)
	}
	_, err = of(id).Step(t.Context()) // the model answers
	must(err)
	_, err = of(id).Step(t.Context()) // it is told that the agent works, and answers again
	must(err)
	if _, err = of(id).Step(t.Context()); !errors.Is(err, runner.ErrOpen) {
		t.Errorf("the end before that of the agent is %v", err)
	}
	f.run(child)
	f.run(id)
	last := f.record.events[len(f.record.events)-1]
	if got := told(f.record.events); len(got) != 2 || !strings.HasPrefix(got[0], "[still at work for you: slow-1-1") || !strings.HasPrefix(got[1], "[agent slow-1-1 has ended]\nslow's answer") || last.Kind != agent.EventEnd || last.Status != agent.StatusOK || len(done) != 1 {
		t.Errorf("the model was told %q, the last event is %s %s, the tool ran %d times", got, last.Kind, last.Status, len(done))
	}
}
