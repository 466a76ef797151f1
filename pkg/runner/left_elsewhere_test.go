package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/toolbox/background"
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

func (e *elsewhere) Await(keys []string, most time.Duration) bool {
	e.list = append(e.list, "wait "+strings.Join(keys, " ")+" "+most.String())
	return !e.over
}

// delegating returns what makes Runners of sessions, whose delegations it collects.
func (f *fleet) delegating(there runner.Elsewhere, delegated *[]runner.Delegation) func(session string) *runner.Runner {
	return func(session string) *runner.Runner {
		r := f.runner(session)
		r.Elsewhere = there
		r.Delegate = func(_ context.Context, d runner.Delegation) error {
			*delegated = append(*delegated, d)
			if d.Session != "" { // otherwise nothing has begun
				f.leases[d.Session] = d.Lease
			}
			return nil
		}
		return r
	}
}

// An otherAgent is no agent of the tree, although it works in this process.
type otherAgent struct{ agent.Tool }

func (otherAgent) Unwrap() any { return nil }

// The Runner of a call runs the agent in the background that no other one can run. Its caller is left
// once its session has begun, and is told of its end once, wherever the Runner dies. A failure before
// the session is the result.
func TestARunnerRunsAnAgentAside(t *testing.T) {
	type asideTest struct {
		die   int    // before this event of the record
		left  bool   // its caller has the handle
		fails error  // the agent, before its session
		told  string // the answer, or a part of it
		then  string // what becomes of it after it has died: "denied", "gone" or "cancelled"
	}
	const waited, left = "told: slow's answer\n", "told: [agent slow-1-1 has ended]\nslow's answer"
	tests := map[string]asideTest{
		"it is quick":          {0, false, nil, waited, ""},
		"its caller continues": {0, true, nil, left, ""},
		"it fails at once":     {0, false, errors.New("not there"), "told: error: not there\n", ""},
	}
	for at := 4; at <= 12; at++ { // from its start to the end of its session
		tests[fmt.Sprint("it dies before event ", at)] = asideTest{at, false, nil, waited, ""}
		if at > 6 { // it has its prompt
			for then, reason := range map[string]string{"denied": "no more", "gone": "no such program", "cancelled": "enough"} {
				for _, left := range []bool{false, true} {
					text := reason
					if then == "denied" && !left { // as for every call that began
						text = "whether it took effect is not known"
					}
					tests[fmt.Sprintf("it dies before event %d and is %s, left %v", at, then, left)] = asideTest{at, left, nil, text, then}
				}
			}
			tests[fmt.Sprint("it dies before event ", at, " while its caller continues")] = asideTest{at, true, nil, left, ""}
		}
	}
	for name, tc := range tests {
		var done []string
		dead := false
		main := leaving(0, &done, func(last string) *agent.Response { return text("told: " + last) })
		list := main.Toolsets[0].(agent.ToolList)
		slow := list[0]
		list[0] = otherAgent{agent.Wrap(slow, func(ctx context.Context, inv *agent.Invocation, next agent.Tool) (agent.Result, error) {
			switch {
			case tc.fails != nil:
				return agent.Result{}, tc.fails
			case tc.then == "gone" && dead:
				return agent.Result{}, errors.New("no such program")
			}
			return next.Call(ctx, inv)
		})}
		f := &fleet{t: t, agents: map[string]*agent.Agent{"": main, "main": main}, ids: ids(), leases: map[string]agent.Lease{}}
		var delegated []runner.Delegation
		of := f.delegating(&elsewhere{}, &delegated)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		root := of("")
		must(root.Prompt(t.Context(), agent.UserText("go")))
		id := root.Session().ID
		_, err := of(id).Step(t.Context())
		must(err)
		key := of(id).Session().Next().Calls[0].Key
		must(of(id).StepCall(t.Context(), key))
		must(of(id).Leave(t.Context(), key)) // nothing has begun
		if len(delegated) != 2 || delegated[0].Session != "" || delegated[1].Session != "" || !delegated[0].Background || delegated[0].Key != key {
			t.Errorf("%s: delegated %+v", name, delegated)
		}
		r := of(id)
		if tc.die > 0 {
			d := &dying{at: tc.die}
			d.events = f.record.events
			r.Journal = d
			if err := r.Aside(t.Context(), key); !errors.Is(err, agent.ErrJournal) {
				t.Errorf("%s: it died with %v", name, err)
			}
			f.record.events, dead = d.events, true
			r = of(id)
		}
		switch {
		case tc.left && tc.die > 0:
			must(of(id).Leave(t.Context(), key))
			r = of(id)
		case tc.left:
			r.Observe = func(e agent.Event) {
				if e.Kind == agent.EventSetup && e.Depth == 1 {
					must(of(id).Leave(t.Context(), key))
				}
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		switch tc.then {
		case "denied":
			r.Policy = func(_ context.Context, inv *agent.Invocation) agent.Verdict {
				if inv.Spec.IsAgent() {
					return agent.Verdict{Decision: agent.Deny, Reason: "no more"}
				}
				return agent.Verdict{Decision: agent.Allow}
			}
		case "cancelled":
			cancel(&agent.EndError{Status: agent.StatusInterrupted, Text: "enough"})
		}
		must(r.Aside(ctx, key))
		cancel(nil)
		must(of(id).Aside(t.Context(), key)) // it has ended
		if open := len(of(id).Session().OpenCalls()) > 0; open != (!tc.left && tc.fails == nil && tc.then != "denied") {
			t.Errorf("%s: the call is open: %v", name, open)
		}
		if len(of(id).Session().Next().Calls) > 0 {
			must(of(id).StepCall(t.Context(), key))
		}
		f.run(id)
		last := f.record.events[len(f.record.events)-1]
		ends := 0
		for _, e := range f.record.events {
			if e.Kind == agent.EventEnd && e.Depth == 1 {
				ends++
			}
		}
		if ok := last.Text == tc.told || tc.then != "" && strings.Contains(last.Text, tc.told); last.Kind != agent.EventEnd || last.Depth != 0 || !ok || len(told(f.record.events)) > 1 || ends != 1 && tc.fails == nil {
			t.Errorf("%s: the last event is %s %q, the model was told %q, the agent ended %d times", name, last.Kind, last.Text, told(f.record.events), ends)
		}
	}
}

// An agent that ends while its caller stops others, about whose ends nobody is told, is told to the
// caller's caller.
func TestWhatEndsLateIsHandedOver(t *testing.T) {
	var done []string
	mid := leaving(0, &done, func(last string) *agent.Response { return text("mid: " + last) })
	mid.Slug = "mid"
	list := mid.Toolsets[0].(agent.ToolList)
	slow := list[0].(*backgroundAgent)
	list[0] = detached{slow}
	main := &agent.Agent{Slug: "main", Provider: thinker(func(last string) (*agent.Response, time.Duration) {
		if last == "go" {
			return calls(call("m", "expert_mid", `{"prompt":"go"}`)), 0
		}
		return text("told: " + last), 0
	}), Toolsets: []agent.Toolset{append(agent.ToolList{&agent.Subagent{Name: "expert_mid", Agent: mid}}, background.Tools()...)}}
	f := &fleet{t: t, agents: map[string]*agent.Agent{"": main, "main": main, "mid": mid, "slow": slow.Agent}, ids: ids(), leases: map[string]agent.Lease{}}
	var delegated []runner.Delegation
	of := f.delegating(&elsewhere{}, &delegated)
	step := func(r *runner.Runner) {
		t.Helper()
		if _, err := r.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	call := func(session string) (key string) {
		t.Helper()
		step(of(session))
		key = of(session).Session().Next().Calls[0].Key
		if err := of(session).StepCall(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		return key
	}
	root := of("")
	if err := root.Prompt(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	id := root.Session().ID
	call(id)
	key := call(delegated[0].Session)
	if d := delegated[1]; !d.Background || !d.Detach {
		t.Fatalf("delegated %+v", d)
	}
	if err := of(delegated[0].Session).Leave(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	step(of(delegated[0].Session)) // it answers
	f.run(delegated[1].Session)
	late := of(delegated[0].Session)
	late.NoNotices = true
	step(late)
	if s := of(delegated[0].Session).Session(); len(s.Left) != 1 || s.Left[0].Key != key {
		t.Errorf("mid has left %+v", s.Left)
	}
	f.run(id)
	last := f.record.events[len(f.record.events)-1]
	if last.Text != "told: [agent slow-1-1.1-1 has ended]\nslow's answer" {
		t.Errorf("the last event is %s %q", last.Kind, last.Text)
	}
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
	of := f.delegating(there, &delegated)
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
	if want := []string{"send " + child + " " + id + ".2.2 hurry", "wait " + key + " 5s", "stop " + child + " its caller stopped it", "wait " + key + " 1m0s"}; !slices.Equal(there.list[:min(4, len(there.list))], want) {
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
