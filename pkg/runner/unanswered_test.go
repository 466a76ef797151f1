package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// A slow model answers after a time of a list, and then with the last again; a token costs a
// dollar.
type slow struct {
	answers []*agent.Response
	takes   []time.Duration
	asked   int
	fails   func() error // with what a request ends that ctx ends; nil means ctx's error
}

func (m *slow) Generate(ctx context.Context, _ *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	i := m.asked
	m.asked++
	select {
	case <-time.After(m.takes[min(i, len(m.takes)-1)]):
		return m.answers[min(i, len(m.answers)-1)], nil
	case <-ctx.Done():
		if m.fails != nil {
			return nil, m.fails()
		}
		return nil, ctx.Err()
	}
}

func (m *slow) LeastCost(u agent.Usage) agent.Money { return agent.Money(u.InputTokens) * agent.Dollar }

func costing(r *agent.Response, dollars int) *agent.Response {
	r.Usage = agent.Usage{Requests: 1, InputTokens: 10, OutputTokens: 50, Cost: agent.Money(dollars) * agent.Dollar, Priced: 1}
	return r
}

// A request that something ends is in the tree, as one whose cost is not known: with the price
// of its input.
func TestAnInterruptedRequestCounts(t *testing.T) {
	unknown := agent.EstimateUsage(&agent.Request{Messages: []agent.Message{agent.UserText("go")}, Tools: []agent.ToolSpec{tool{"echo", nil}.Spec()}}, nil)
	seconds := 2.0
	for _, tt := range []struct {
		name   string
		limit  func(r *runner.Runner, ctx context.Context) (context.Context, context.CancelFunc)
		status agent.Status
	}{
		{"by the timeout of the run", func(_ *runner.Runner, ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 2*time.Second)
		}, agent.StatusDeadline},
		{"by a person", func(_ *runner.Runner, ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(2*time.Second, cancel)
			return ctx, cancel
		}, agent.StatusInterrupted},
		{"by the agent's deadline", func(r *runner.Runner, ctx context.Context) (context.Context, context.CancelFunc) {
			r.Agent.Deadline = 2 * time.Second
			return ctx, func() {}
		}, agent.StatusDeadline},
		{"by a budget of seconds", func(r *runner.Runner, ctx context.Context) (context.Context, context.CancelFunc) {
			r.Agent.Budget.Seconds = &seconds
			return ctx, func() {}
		}, agent.StatusBudget},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &slow{answers: []*agent.Response{costing(calls(call("a", "echo", "{}")), 3)}, takes: []time.Duration{1500 * time.Millisecond}}
				a := newAgent(m, tool{"echo", func(context.Context, *agent.Invocation) (agent.Result, error) { return agent.TextResult("ok"), nil }})
				budget := 100 * agent.Dollar
				a.Budget.USD = &budget
				j := &journal{}
				r := &runner.Runner{Agent: a, Journal: j}
				ctx, cancel := tt.limit(r, t.Context())
				defer cancel()
				out, err := r.Run(ctx, agent.UserText("go"))
				u := out.Total.Usage
				if agent.StatusOf(err) != tt.status || m.asked != 2 || u.Requests != 2 || u.Unpriced() != 1 || u.Estimated != 1 || u.InputTokens < 10+unknown.InputTokens {
					t.Fatalf("Run = %v after %d requests: %+v", err, m.asked, u)
				}
				least := agent.Money(u.InputTokens-10) * agent.Dollar
				if u.Cost != 3*agent.Dollar+least || u.ReservedTokens != 100 || u.CostText() != u.Cost.Text()+" + 1 unpriced (1 estimated)" {
					t.Errorf("usage %+v, %q; want a cost of 3 and %s", u, u.CostText(), least)
				}
				if again := load(t, j.events); again.From.Total.Usage != (agent.Usage{}) && again.From.Total.Usage != u {
					t.Errorf("the journal has %+v, the run %+v", again.From.Total.Usage, u)
				}
			})
		})
	}
}

// What a Provider reports of a request that ctx ended is not replaced by a guess.
func TestTheUsageOfAnInterruptedRequestIsKept(t *testing.T) {
	for name, usage := range map[string]agent.Usage{"reported": {Requests: 1, InputTokens: 7, OutputTokens: 3, Cost: 5, Priced: 1}, "not sent": {}} {
		synctest.Test(t, func(t *testing.T) {
			m := &slow{takes: []time.Duration{time.Hour}, fails: func() error {
				return &agent.ModelError{Message: "ended", Err: context.DeadlineExceeded, Usage: usage}
			}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			out, err := (&runner.Runner{Agent: newAgent(m)}).Run(ctx, agent.UserText("go"))
			if !errors.Is(err, context.DeadlineExceeded) || out.Total.Usage != usage {
				t.Errorf("%s: Run = %v, %+v, want %+v", name, err, out.Total.Usage, usage)
			}
		})
	}
}

// A sub-agent whose requests are interrupted again and again consumes the budget all the same:
// each counts as much as is reserved for it.
func TestInterruptedRequestsConsumeTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sub := &slow{answers: []*agent.Response{costing(text("x"), 10)}, takes: []time.Duration{time.Millisecond, time.Hour}}
		expert := newAgent(sub)
		expert.Slug, expert.Deadline = "expert", time.Second
		n := 0
		lead := newAgent(providerFunc(func(*agent.Request) (*agent.Response, error) {
			n++
			r := calls(call("", "expert", `{"prompt":"x"}`))
			r.Usage = agent.Usage{Requests: 1, InputTokens: 1, Cost: 1, Priced: 1}
			return r, nil
		}), &agent.Subagent{Name: "expert", Agent: expert})
		budget := 110 * agent.Dollar
		lead.Budget.USD, lead.LoopEnd = &budget, -1
		out, err := (&runner.Runner{Agent: lead}).Run(t.Context(), agent.UserText("go"))
		// 10 for the first, at least 20 for each of the others
		if agent.StatusOf(err) != agent.StatusBudget || sub.asked > 6 || out.Total.Usage.ReservedCost == 0 || out.Total.Usage.Unpriced() != sub.asked-1 {
			t.Errorf("Run = %v after %d requests: %+v", err, sub.asked, out.Total.Usage)
		}
		if err != nil && !strings.Contains(err.Error(), "unpriced") {
			t.Errorf("%v does not say what is unpriced", err)
		}
	})
}

// A process that dies leaves no event of its request. Who resumes its session counts it.
func TestARequestOfAProcessThatDiedCounts(t *testing.T) {
	budget := 1000 * agent.Dollar
	newAgentOf := func() *agent.Agent {
		m := &slow{answers: []*agent.Response{costing(calls(call("a", "echo", "{}")), 80), costing(text("done"), 80)}, takes: []time.Duration{0}}
		a := newAgent(m, tool{"echo", func(context.Context, *agent.Invocation) (agent.Result, error) { return agent.TextResult("ok"), nil }})
		a.Budget.USD = &budget
		return a
	}
	full := &journal{}
	if _, err := (&runner.Runner{Agent: newAgentOf(), Journal: full}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	for at := 2; at < len(full.events); at++ {
		waited := full.events[at].Kind == agent.EventAnswer
		j := &journal{events: full.events[:at:at]}
		r := load(t, j.events)
		before := r.From.Total.Usage
		r.Agent, r.Journal = newAgentOf(), j
		r.Agent.Provider.(*slow).asked = strings.Count(j.kinds(), "answer")
		out, err := r.Resume(t.Context())
		if err != nil {
			t.Fatalf("resumed at %d: %v", at, err)
		}
		if e := j.events[at]; e.Kind != agent.EventResume || e.Total == nil || e.Total.Usage != before || (e.Usage != nil) != waited {
			t.Errorf("resumed at %d (%s): %+v, want a usage %t and the total %+v", at, j.kinds(), e, waited, before)
		}
		if !waited {
			continue
		}
		u := *j.events[at].Usage
		if u.Cost != agent.Money(u.InputTokens)*agent.Dollar || u.Unpriced() != 1 || (u.ReservedCost > 0) != (before.Requests > 0) || out.Total.Usage.Unpriced() != 1 {
			t.Errorf("resumed at %d: the request is %+v, the total %+v", at, u, out.Total.Usage)
		}
		again := load(t, j.events)
		if got := again.From.Total.Usage; got != (agent.Usage{}) && got != out.Total.Usage {
			t.Errorf("resumed at %d: the journal has %+v, the run %+v", at, got, out.Total.Usage)
		}
	}
}

// A summary without a text has its cost, and a budget counts it.
func TestASummaryWithoutATextCounts(t *testing.T) {
	n := 0
	m := providerFunc(func(req *agent.Request) (*agent.Response, error) {
		n++
		if req.Summary {
			return costing(text(" "), 1), nil
		}
		r := calls(call("", "echo", `{"n":"`+strings.Repeat("x", n%7)+`"}`))
		r.Usage = agent.Usage{Requests: 1, InputTokens: 900, OutputTokens: 1, Cost: 1, Priced: 1}
		return r, nil
	})
	a := newAgent(m, tool{"echo", func(context.Context, *agent.Invocation) (agent.Result, error) {
		return agent.TextResult(strings.Repeat("word ", 200)), nil
	}})
	budget := 2 * agent.Dollar
	a.ContextTokens, a.Budget.USD = 1000, &budget
	out, err := (&runner.Runner{Agent: a}).Run(t.Context(), agent.UserText("go"))
	if agent.StatusOf(err) != agent.StatusBudget && out.Status != agent.StatusPartial || out.Total.Usage.Requests != n || out.Total.Usage.Cost < agent.Dollar || out.Total.Usage.Cost > 3*agent.Dollar {
		t.Errorf("Run = %v after %d requests: %+v", err, n, out.Total.Usage)
	}
}

// A Provider that repeats its requests asks the budgets before each.
func TestRepeatedRequestsConsumeTheBudget(t *testing.T) {
	for limit, want := range map[int]int{11: 1, 13: 2, 30: 3, 100: 9} {
		asked := 0
		p := &repeating{func(req *agent.Request) (*agent.Response, error) {
			var sum agent.Usage
			for range 8 {
				asked++
				sum = sum.Add(agent.Usage{Requests: 1, InputTokens: 5, Cost: 12 * agent.Dollar, Priced: 1})
				if err := req.Again(sum); err != nil {
					return nil, &agent.ModelError{Message: err.Error(), Err: err, Usage: sum}
				}
			}
			asked++
			return costing(text("done"), 1), nil
		}}
		a := newAgent(p)
		budget := agent.Money(limit) * agent.Dollar
		a.Budget.USD = &budget
		out, err := (&runner.Runner{Agent: a}).Run(t.Context(), agent.UserText("go"))
		ended := err != nil && strings.HasPrefix(err.Error(), "budget usd ") && strings.Contains(err.Error(), "by attempts that failed") && agent.StatusOf(err) == agent.StatusBudget
		if asked != want || ended != (want < 9) || ended && out.Total.Usage.Requests != want {
			t.Errorf("with %d dollars: Run = %v after %d requests, want %d: %+v", limit, err, asked, want, out.Total.Usage)
		}
	}
}

type repeating struct {
	f func(*agent.Request) (*agent.Response, error)
}

func (p *repeating) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	return p.f(req)
}
