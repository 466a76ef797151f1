package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
)

// A fleet drives a record with a new Runner for each step and for each call, as processes
// that share nothing but the record.
type fleet struct {
	t      *testing.T
	s      scenario
	agents map[string]*agent.Agent
	record journal
	ids    func() string
	leases map[string]agent.Lease
	now    func() time.Time
}

func (f *fleet) runner(session string) *runner.Runner {
	var b runner.Rebuilder
	for _, e := range f.record.events {
		if err := b.Apply(e); err != nil {
			f.t.Fatal(err)
		}
	}
	slug, r := "", &runner.Runner{Journal: &f.record, NewID: f.ids, Policy: f.s.policy, Reserve: f.s.reserve, Lease: f.leases[session], Now: f.now}
	if r.From = b.ResumeOf(session); r.From != nil {
		slug = r.From.Session.Agent
	}
	if slug == "" || r.From.Depth == 0 {
		slug, r.Accept = f.agents[""].Slug, f.s.accept
	}
	r.Agent = f.agents[slug]
	r.Delegate = func(_ context.Context, d runner.Delegation) error {
		f.leases[d.Session] = d.Lease
		return nil
	}
	return r
}

// run takes steps in a session until its run is over.
func (f *fleet) run(session string) {
	for {
		r := f.runner(session)
		step := r.Session().Next()
		if step.Kind == agent.StepPrompt {
			return
		}
		if step.Kind != agent.StepCalls {
			_, _ = r.Step(f.t.Context()) // the record has the reason
			continue
		}
		for _, c := range step.Calls {
			f.call(session, c.Key)
		}
	}
}

func (f *fleet) call(session, key string) {
	before := len(f.leases)
	if err := f.runner(session).StepCall(f.t.Context(), key); err != nil {
		f.t.Fatal(err)
	}
	if len(f.leases) == before {
		return
	}
	for child, lease := range f.leases {
		if _, parent, _ := strings.Cut(f.parent(child), " "); parent == key {
			if len(lease.Path) == 0 {
				f.t.Errorf("the lease of %s has no path", child)
			}
			f.run(child)
		}
	}
	if err := f.runner(session).StepCall(f.t.Context(), key); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) parent(session string) string {
	for _, e := range f.record.events {
		if e.Session == session && e.Kind == agent.EventSession {
			return session + " " + e.Parent
		}
	}
	return ""
}

// agentsOf are a and the agents below it by slug, with a under "" as well.
func agentsOf(a *agent.Agent) map[string]*agent.Agent {
	all := map[string]*agent.Agent{"": a, a.Slug: a}
	for _, set := range a.Toolsets {
		if list, ok := set.(agent.ToolList); ok {
			for _, tool := range list {
				if s, ok := tool.(*agent.Subagent); ok {
					all[s.Agent.Slug] = s.Agent
				}
			}
		}
	}
	return all
}

func (s scenario) fleet(t *testing.T) *fleet {
	return &fleet{t: t, s: s, agents: agentsOf(s.agent()), ids: ids(), leases: map[string]agent.Lease{}}
}

// sorted are events without what differs from run to run, in an order that does not depend
// on which call of a turn was first.
func sorted(t *testing.T, events []agent.Event) []string {
	var list []string
	for _, e := range events {
		e.Time, e.Millis, e.Total = time.Time{}, 0, nil
		if e.Receipt != nil {
			r := *e.Receipt
			r.Millis, r.Resumed = 0, false
			e.Receipt = &r
		}
		if e.Kind == agent.EventCallEnded {
			e.Args = "" // a call that is answered from the record has them twice
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(text))
	}
	slices.Sort(list)
	return list
}

func TestRunnersOfOneStepMakeTheSameRun(t *testing.T) {
	for name, s := range scenarios() {
		t.Run(name, func(t *testing.T) {
			want, f := s.run(t), s.fleet(t)
			for _, p := range s.prompts {
				session := ""
				if len(f.record.events) > 0 {
					session = f.record.events[0].Session
				}
				if err := f.runner(session).Prompt(t.Context(), agent.UserText(p)); err != nil {
					t.Fatal(err)
				}
				f.run(f.record.events[0].Session)
			}
			if diff := cmp.Diff(sorted(t, want), sorted(t, f.record.events)); diff != "" {
				t.Errorf("events (-one Runner +many):\n%s", diff)
			}
		})
	}
}

func TestStepCallOfAnUnknownKey(t *testing.T) {
	r := &runner.Runner{Agent: newAgent(byTurn("", text("done")))}
	if err := r.Prompt(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if err := r.StepCall(t.Context(), "S1.1.1"); err == nil || !strings.Contains(err.Error(), "waits for no call") {
		t.Errorf("StepCall = %v", err)
	}
}

// A delegation that fails leaves the call open: another Runner delegates the same session.
func TestADelegationIsRepeated(t *testing.T) {
	f := scenarios()["sub-agent that fails"].fleet(t)
	if err := f.runner("").Prompt(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.runner("S1").Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, broken := f.runner("S1"), errors.New("nobody is there")
	r.Delegate = func(context.Context, runner.Delegation) error { return broken }
	if err := r.StepCall(t.Context(), "S1.1.1"); !errors.Is(err, broken) {
		t.Fatalf("StepCall = %v, want %v", err, broken)
	}
	f.call("S1", "S1.1.1")
	sessions := 0
	for _, e := range f.record.events {
		if e.Kind == agent.EventSession {
			sessions++
		}
	}
	if last := f.record.events[len(f.record.events)-1]; sessions != 2 || last.Kind != agent.EventCallEnded {
		t.Errorf("%d sessions, and the last event is %s", sessions, last.Kind)
	}
}

// The rights of the agents above hold in a Runner of a sub-agent's session.
func TestCallersRestrictARunner(t *testing.T) {
	above := newAgent(byTurn("", text("")))
	above.Rights = &namedRights{verdicts: map[string]agent.Decision{"echo": agent.Deny}}
	r := &runner.Runner{Agent: newAgent(byTurn("", calls(call("a", "echo", "{}")), text("done")), echo("echo")), Callers: []*agent.Agent{above}}
	var results []string
	r.Observe = func(e agent.Event) {
		if e.Kind == agent.EventCallEnded {
			results = append(results, e.Result.Text())
		}
	}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil || len(results) != 1 || !strings.Contains(results[0], "refused by policy") {
		t.Errorf("Run = %v, results %q", err, results)
	}
}

// The time limits of a run count from its beginning, whichever Runner takes the step.
func TestTimeLimitsCountFromTheBeginning(t *testing.T) {
	f := scenarios()["calls"].fleet(t)
	f.agents[""].Deadline = time.Hour
	f.now = func() time.Time { return time.Now().Add(-2 * time.Hour) }
	if err := f.runner("").Prompt(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	f.now = nil
	f.run("S1")
	if end := f.record.events[len(f.record.events)-1]; end.Status != agent.StatusDeadline {
		t.Errorf("the run ended with %s: %s", end.Status, end.Error)
	}
}

func TestLeftOfABudget(t *testing.T) {
	usd, calls := 3*agent.Dollar, int64(7)
	b := agent.Budget{USD: &usd, Calls: &calls}
	left := runner.Left(b, agent.TotalUsage{Usage: agent.Usage{Cost: agent.Dollar, Requests: 5}, Calls: 1})
	if *left.USD != 2*agent.Dollar || *left.Calls != 6 || left.Turns != nil || usd != 3*agent.Dollar {
		t.Errorf("Left = %v %v %v", *left.USD, *left.Calls, left.Turns)
	}
}
