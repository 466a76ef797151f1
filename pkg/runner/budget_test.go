package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// limit is a budget of one amount.
func limit(kind string, n int64) agent.Budget {
	switch kind {
	case "usd":
		m := agent.Money(n) * agent.Dollar / 100
		return agent.Budget{USD: &m}
	case "inputTokens":
		return agent.Budget{InputTokens: &n}
	case "outputTokens":
		return agent.Budget{OutputTokens: &n}
	case "turns":
		return agent.Budget{Turns: &n}
	}
	return agent.Budget{Calls: &n}
}

// costly answers with calls of echo, for ever, and each answer costs 1.05 dollars, 100
// input tokens and 10 output tokens.
func costly(n int) agent.Provider {
	return providerFunc(func(req *agent.Request) (*agent.Response, error) {
		r := calls()
		for range n {
			r.Message.Calls = append(r.Message.Calls, call("", "echo", fmt.Sprintf(`{"turn":%d}`, req.Turn)))
		}
		r.Usage = agent.Usage{Requests: 1, InputTokens: 100, OutputTokens: 10, Cost: 105 * agent.Dollar / 100, Priced: 1}
		return r, nil
	})
}

func TestABudgetEndsItsRun(t *testing.T) {
	for _, tt := range []struct {
		budget agent.Budget
		turns  int
		want   string
	}{
		{limit("usd", 200), 2, "budget usd 2.00 of agent root spent (2.10)"},
		{limit("usd", 0), 0, "budget usd 0.00 of agent root spent (0.00)"},
		{limit("inputTokens", 260), 3, "budget inputTokens 260 of agent root spent (300)"},
		{limit("outputTokens", 20), 2, "budget outputTokens 20 of agent root spent (20)"},
		{limit("turns", 2), 2, "budget turns 2 of agent root is nearly spent (1); asked for its answer, the model called tools"},
		{limit("calls", 3), 2, "budget calls 3 of agent root spent (3); asked for its answer, the model called tools"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			a := newAgent(costly(2), echo("echo"))
			a.Budget = tt.budget
			j := &journal{}
			out, err := (&runner.Runner{Agent: a, Journal: j}).Run(t.Context(), agent.UserText("go"))
			if strings.Contains(tt.want, "calls") && tt.budget.Calls != nil {
				tt.turns++ // the answer needs no call
			}
			if err == nil || err.Error() != tt.want || out.Status != agent.StatusBudget || !errors.Is(err, agent.ErrBudget) && agent.StatusOf(err) != agent.StatusBudget || out.Turns != tt.turns {
				t.Errorf("Run = %+v, %v, want %s after %d turns", out, err, tt.want, tt.turns)
			}
			if tt.budget.Calls != nil && out.Total.Calls != 3 {
				t.Errorf("%d calls ran, want 3", out.Total.Calls)
			}
			for _, e := range j.events {
				if e.Kind == agent.EventEnd && (e.Error != tt.want || e.Status != agent.StatusBudget) {
					t.Errorf("recorded: %s %s", e.Status, e.Error)
				}
			}
		})
	}
}

func TestTheSmallestBudgetCounts(t *testing.T) {
	for name, tt := range map[string]struct {
		own, lease int64
		path       []string
		want       string
	}{
		"own":     {200, 500, nil, "budget usd 2.00 of agent root spent (2.10)"},
		"flag":    {500, 200, nil, "budget usd 2.00 of agent root spent (2.10)"},
		"caller":  {500, 200, []string{"top", "lead"}, "budget usd 2.00 of agent root, from its caller lead, spent (2.10)"},
		"no own":  {-1, 200, nil, "budget usd 2.00 of agent root spent (2.10)"},
		"own too": {200, 200, []string{"lead"}, "budget usd 2.00 of agent root spent (2.10)"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(costly(1), echo("echo"))
			if tt.own >= 0 {
				a.Budget = limit("usd", tt.own)
			}
			r := &runner.Runner{Agent: a, Lease: agent.Lease{Budget: limit("usd", tt.lease), Path: tt.path}}
			if _, err := r.Run(t.Context(), agent.UserText("go")); err == nil || err.Error() != tt.want {
				t.Errorf("Run = %v, want %s", err, tt.want)
			}
		})
	}
}

// TestABudgetCoversSubagents: the amounts of sub-agents count for their callers, a
// sub-agent that its caller's budget stops ends with it, and one with its own does not
// end its caller.
func TestABudgetCoversSubagents(t *testing.T) {
	tree := func(root, child agent.Budget) *runner.Runner {
		expert := newAgent(costly(1), echo("echo"))
		expert.Slug, expert.Budget = "expert", child
		lead := newAgent(byTurn("", calls(call("a", "expert", `{"prompt":"q"}`)), text("done")), &agent.Subagent{Name: "expert", Agent: expert})
		lead.Slug, lead.Budget = "lead", root
		return &runner.Runner{Agent: lead}
	}
	result := func(r *runner.Runner) string { return r.Session().Messages[2].Results[0].Text() }

	r := tree(agent.Budget{}, limit("usd", 200))
	out, err := r.Run(t.Context(), agent.UserText("go"))
	if want := "[budget] agent expert did not answer: budget usd 2.00 of agent expert spent (2.10)"; err != nil || out.Answer != "done" || result(r) != want {
		t.Errorf("Run = %+v, %v; the result is %q, want %q", out, err, result(r), want)
	}
	r = tree(limit("usd", 200), agent.Budget{})
	out, err = r.Run(t.Context(), agent.UserText("go"))
	want := "budget usd 2.00 of agent lead spent (2.10 + 1 unpriced with 1 sub-agent)"
	if out.Status != agent.StatusBudget || err == nil || err.Error() != want || result(r) != "[budget] agent expert did not answer: "+want {
		t.Errorf("Run = %+v, %v; the result is %q, want %q", out, err, result(r), want)
	}
}

func TestAResumedRunHasConsumedWhatItsJournalSays(t *testing.T) {
	for _, path := range [][]string{nil, {"lead"}} {
		a := newAgent(costly(1), echo("echo"))
		j := &dying{at: 5} // after the first call started
		if _, err := (&runner.Runner{Agent: a, Journal: j}).Run(t.Context(), agent.UserText("go")); !errors.Is(err, errDead) {
			t.Fatal(err)
		}
		j.at = -1
		r := load(t, j.events)
		r.Agent, r.Journal = a, j
		r.Lease = agent.Lease{Budget: limit("usd", 300), Path: path}
		out, err := r.Resume(t.Context())
		want, turns := "budget usd 3.00 of agent root spent (3.15)", 3
		if path != nil { // it is what is left
			want, turns = "budget usd 4.05 of agent root, from its caller lead, spent (4.20)", 4
		}
		if err == nil || err.Error() != want || out.Turns != turns {
			t.Errorf("Resume with path %v = %+v, %v, want %s", path, out, err, want)
		}
	}
}

func TestTheSecondsOfABudgetEndTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := tool{"echo", func(ctx context.Context, _ *agent.Invocation) (agent.Result, error) {
			select {
			case <-ctx.Done():
				return agent.Result{}, context.Cause(ctx)
			case <-time.After(7 * time.Minute):
				return agent.TextResult("slept"), nil
			}
		}}
		seconds := 600.0
		expert := newAgent(costly(1), slow)
		expert.Slug, expert.Budget.Seconds = "expert", &seconds
		lead := newAgent(byTurn("", calls(call("a", "expert", `{"prompt":"q"}`)), text("done")), &agent.Subagent{Name: "expert", Agent: expert})
		start := time.Now()
		r := &runner.Runner{Agent: lead}
		out, err := r.Run(t.Context(), agent.UserText("go"))
		want := "[budget] agent expert did not answer: budget seconds 600 of agent expert spent"
		if got := r.Session().Messages[2].Results[0].Text(); err != nil || out.Status != agent.StatusOK || got != want || time.Since(start) != 10*time.Minute {
			t.Errorf("Run = %+v, %v after %s: %q, want %q", out, err, time.Since(start), got, want)
		}
	})
}

func TestADeadlineEndsItsRunAndAllBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := tool{"echo", func(ctx context.Context, _ *agent.Invocation) (agent.Result, error) {
			<-ctx.Done()
			return agent.Result{}, ctx.Err()
		}}
		expert := newAgent(costly(1), hang)
		expert.Slug, expert.Deadline = "expert", time.Hour
		lead := newAgent(byTurn("", calls(call("a", "expert", `{"prompt":"q"}`)), text("done")), &agent.Subagent{Name: "expert", Agent: expert})
		lead.Deadline = time.Minute
		r := &runner.Runner{Agent: lead}
		out, err := r.Run(t.Context(), agent.UserText("go"))
		want := "the time limit of 60 s of agent root passed"
		if out.Status != agent.StatusDeadline || err == nil || err.Error() != want {
			t.Errorf("Run = %+v, %v, want %s", out, err, want)
		}
		lead.Deadline, expert.Deadline = time.Hour, time.Minute
		r = &runner.Runner{Agent: lead}
		if _, err = r.Run(t.Context(), agent.UserText("go")); err != nil {
			t.Fatal(err)
		}
		want = "[deadline] agent expert did not answer: the time limit of 60 s of agent expert passed"
		if got := r.Session().Messages[2].Results[0].Text(); got != want {
			t.Errorf("the result is %q, want %q", got, want)
		}
	})
}

// TestTheLeaseIsWhatIsLeft looks at what a call may hand to another process.
func TestTheLeaseIsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got agent.Lease
		nested := tool{"echo", func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
			got = inv.Caller.Lease(ctx, inv)
			return agent.TextResult("ok"), nil
		}}
		m := costly(1)
		expert := newAgent(providerFunc(func(req *agent.Request) (*agent.Response, error) {
			if req.Turn > 1 {
				return text("answer"), nil
			}
			return m.Generate(t.Context(), req, nil)
		}), nested)
		expert.Slug, expert.Deadline = "expert", time.Minute
		expert.Budget = limit("calls", 7)
		lead := newAgent(byTurn("", calls(call("a", "expert", `{"prompt":"q"}`)), text("done")), &agent.Subagent{Name: "expert", Agent: expert})
		lead.Slug, lead.Budget = "lead", limit("usd", 500)
		turns, depth := int64(10), 4
		r := &runner.Runner{Agent: lead, Lease: agent.Lease{Budget: agent.Budget{Turns: &turns, Depth: &depth}, Path: []string{"top"}}}
		if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
			t.Fatal(err)
		}
		usd, calls, left, below, seconds := agent.Money(395*agent.Dollar/100), int64(6), int64(8), 2, 60.0
		want := agent.Lease{Budget: agent.Budget{USD: &usd, Calls: &calls, Turns: &left, Depth: &below, Seconds: &seconds}, Path: []string{"top", "lead", "expert"}, Shared: true}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lease (-want +got):\n%s", diff)
		}
	})
}

func TestTheDepthOfABudgetCountsFromItsAgent(t *testing.T) {
	self := newAgent(nil)
	var refusal string
	self.Provider = providerFunc(func(req *agent.Request) (*agent.Response, error) {
		if req.Turn > 1 {
			refusal += req.Messages[2].Results[0].Text() + "\n"
			return text("back"), nil
		}
		return calls(call("a", "self", `{"prompt":"deeper"}`)), nil
	})
	self.Toolsets = []agent.Toolset{agent.ToolList{&agent.Subagent{Name: "self", Agent: self}}}
	two := 2
	out, err := (&runner.Runner{Agent: self, Lease: agent.Lease{Budget: agent.Budget{Depth: &two}}}).Run(t.Context(), agent.UserText("go"))
	want := "[limit] agent root did not answer: depth limit reached: the depth budget allows no agent below root\nback\nback\n"
	if err != nil || out.Total.Usage.Requests != 6 || refusal != want {
		t.Errorf("Run = %+v, %v: %s", out, err, refusal)
	}
}

// A nested agent is a tool that runs as if in a process of its own.
type nested struct {
	name  string
	agent *agent.Agent
}

func (n nested) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: n.name, Schema: json.RawMessage(`{"type":"object"}`), Channel: channel.Version}
}

func (n nested) Call(ctx context.Context, inv *agent.Invocation) (result agent.Result, err error) {
	childIn, toChild := io.Pipe()
	fromChild, childOut := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s := &channel.Server{In: childIn, Out: childOut, Start: func(ctx context.Context, start agent.Start) (*runner.Channel, error) {
			return (&runner.Runner{Agent: n.agent}).Start(ctx, start), nil
		}}
		_, _ = s.Serve(context.Background())
		childOut.Close()
	}()
	result, err = channel.Call(ctx, inv, fromChild, toChild)
	fromChild.Close()
	childIn.Close()
	<-ended
	inv.Caller.Called(ctx, inv, err)
	return result, err
}

// TestNoAgentExceedsItsBudgetByMoreThanOneAnswer runs random trees with budgets at
// random nodes, whose sub-agents ask at the same time, in one process and in several.
func TestNoAgentExceedsItsBudgetByMoreThanOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { rapid.Check(struct{ rapid.TB }{t}, noAgentExceedsItsBudget) }) // a bubble has no deadline
}

func noAgentExceedsItsBudget(t *rapid.T) {
	var mu sync.Mutex
	var served agent.Usage
	type node struct {
		agent  *agent.Agent
		budget agent.Budget
	}
	var nodes []*node
	size := func(slug string, turn int) int { return 50 + (len(slug)*31+int(slug[len(slug)-1])*17+turn*13)%50 }
	var build func(slug string, depth int) *node
	build = func(slug string, depth int) *node {
		n := &node{}
		nodes = append(nodes, n)
		width, turns := 0, rapid.IntRange(1, 4).Draw(t, slug+" turns")
		if depth > 0 {
			width = rapid.IntRange(0, 3).Draw(t, slug+" width")
		}
		list := agent.ToolList{echo("echo")}
		first := calls(call("", "echo", `{}`))
		for i := range width {
			child := build(fmt.Sprintf("%s%d", slug, i), depth-1)
			name := "expert_" + child.agent.Slug
			if rapid.Bool().Draw(t, child.agent.Slug+" is nested") {
				list = append(list, nested{name, child.agent})
			} else {
				list = append(list, &agent.Subagent{Name: name, Agent: child.agent})
			}
			first.Message.Calls = append(first.Message.Calls, call("", name, `{"prompt":"q"}`))
		}
		n.agent = newAgent(providerFunc(func(req *agent.Request) (*agent.Response, error) {
			u := agent.Usage{Requests: 1, InputTokens: 1000 * size(slug, req.Turn), OutputTokens: size(slug, req.Turn), Cost: agent.Money(size(slug, req.Turn)), Priced: 1}
			time.Sleep(time.Duration(size(slug, req.Turn)) * time.Millisecond)
			mu.Lock()
			served = served.Add(u)
			mu.Unlock()
			r := *text("done")
			if req.Turn <= turns {
				r = *first
			}
			r.Usage = u
			return &r, nil
		}))
		n.agent.Toolsets = []agent.Toolset{list}
		n.agent.Slug = slug
		if rapid.Bool().Draw(t, slug+" has a budget") {
			n.budget = limit(rapid.SampledFrom([]string{"inputTokens", "outputTokens", "turns", "calls"}).Draw(t, slug+" kind"), 0)
			most := int64(rapid.IntRange(0, 12).Draw(t, slug+" budget"))
			switch b := &n.budget; {
			case b.InputTokens != nil:
				*b.InputTokens = most * 60_000
			case b.OutputTokens != nil:
				*b.OutputTokens = most * 60
				usd := agent.Money(most * 60)
				b.USD = &usd
			case b.Turns != nil:
				*b.Turns = most
			default:
				*b.Calls = most
			}
			n.agent.Budget = n.budget
		}
		return n
	}
	root := build("a", rapid.IntRange(0, 3).Draw(t, "depth"))
	r := &runner.Runner{Agent: root.agent, Observe: func(e agent.Event) {
		if e.Kind != agent.EventEnd {
			return
		}
		n := nodes[slices.IndexFunc(nodes, func(n *node) bool { return n.agent.Slug == e.Agent })]
		over := func(kind string, got int, most *int64, one int) {
			if most != nil && int64(got) > *most+int64(one) {
				t.Errorf("%s consumed %d %s of %d, more than one answer of at most %d over it", e.Agent, got, kind, *most, one)
			}
		}
		over("input tokens", e.Total.Usage.InputTokens, n.budget.InputTokens, 99_000)
		over("output tokens", e.Total.Usage.OutputTokens, n.budget.OutputTokens, 99)
		over("usd", int(e.Total.Usage.Cost), (*int64)(n.budget.USD), 99)
		over("turns", e.Total.Usage.Requests, n.budget.Turns, 0)
		over("calls", e.Total.Calls, n.budget.Calls, 0)
	}}
	out, _ := r.Run(context.Background(), agent.UserText("go"))
	if out.Total.Usage != served {
		t.Errorf("the root counts %+v, and %+v was served", out.Total.Usage, served)
	}
}

func TestABudgetOfDollarsWarnsOnceOfAModelWithoutAPrice(t *testing.T) {
	child := newAgent(byTurn("", calls(call("", "echo", "{}")), text("yes")), echo("echo"))
	a := newAgent(byTurn("", calls(call("", "child", `{"prompt":"1"}`), call("", "child", `{"prompt":"2"}`)), text("done")), &agent.Subagent{Name: "child", Agent: child})
	a.Budget = limit("usd", 200)
	var warned []string
	r := &runner.Runner{Agent: a, Observe: func(e agent.Event) {
		if e.Kind == agent.EventWarning {
			warned = append(warned, e.Text)
		}
	}}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"budget usd cannot be enforced for model test: its price is unknown"}, warned); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
