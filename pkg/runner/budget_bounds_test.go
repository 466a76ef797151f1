package runner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// TestTheTimeOfALeaseShortensThatOfTheAgent, and never lengthens it.
func TestTheTimeOfALeaseShortensThatOfTheAgent(t *testing.T) {
	for _, tt := range []struct{ lease, own, want float64 }{{0, 0, 0}, {2, 0, 2}, {0, 3, 3}, {2, 3, 2}, {3, 2, 2}} {
		budget := func(s float64) (b agent.Budget) {
			if s > 0 {
				b.Seconds = &s
			}
			return b
		}
		r := spender(nil, newTree(agent.Lease{Budget: budget(tt.lease)}), "root", budget(tt.own), agent.TotalUsage{})
		if r.account.timed != time.Duration(tt.want*float64(time.Second)) {
			t.Errorf("%v of a lease and %v of the agent are %s", tt.lease, tt.own, r.account.timed)
		}
	}
}

// TestABudgetOfDollarsNeedsPrices: only of a request that it limits and whose price is unknown.
func TestABudgetOfDollarsNeedsPrices(t *testing.T) {
	dollars, calls := agent.Budget{USD: ptr(agent.Dollar)}, agent.Budget{Turns: ptr[int64](5)}
	for name, tt := range map[string]struct {
		above, own agent.Budget
		usage      agent.Usage
		warns      bool
	}{
		"unpriced":                    {own: dollars, usage: agent.Usage{Requests: 1}, warns: true},
		"unpriced below":              {above: dollars, usage: agent.Usage{Requests: 1}, warns: true},
		"unpriced, with other limits": {above: dollars, own: calls, usage: agent.Usage{Requests: 1}, warns: true},
		"priced":                      {own: dollars, usage: agent.Usage{Requests: 1, Priced: 1}},
		"free":                        {own: dollars, usage: agent.Usage{}},
		"partly priced":               {own: dollars, usage: agent.Usage{Requests: 2, Priced: 1, Cost: 1}},
		"no budget of dollars":        {own: calls, usage: agent.Usage{Requests: 1}},
	} {
		tr := newTree(agent.Lease{})
		var warnings []agent.Event
		tr.watch = func(e agent.Event) { warnings = append(warnings, e) }
		root := spender(nil, tr, "root", tt.above, agent.TotalUsage{})
		own := spender(root, tr, "own", tt.own, agent.TotalUsage{})
		for range 2 {
			settle, err := own.reserveRequest(t.Context(), agent.Step{})
			if err != nil {
				t.Fatal(err)
			}
			settle(tt.usage)
		}
		if (len(warnings) == 1) != tt.warns || len(warnings) > 1 {
			t.Errorf("%s: the warnings are %v", name, warnings)
		}
	}
}

// TestAnEstimateGrowsWithTheConversation: nothing but a turn until a request was answered.
func TestAnEstimateGrowsWithTheConversation(t *testing.T) {
	largest := amounts{10, 100, 30, 1}
	for name, tt := range map[string]struct {
		a    account
		size int
		want amounts
	}{
		"not limited":       {account{known: true, largest: largest}, 50, amounts{amountTurns: 1}},
		"not known":         {account{within: true, largest: largest}, 50, amounts{amountTurns: 1}},
		"a smaller one":     {account{within: true, known: true, largest: largest}, 50, amounts{20, 200, 60, 1}},
		"a larger one":      {account{within: true, known: true, largest: largest}, 300, amounts{60, 600, 60, 1}},
		"no tokens of it":   {account{within: true, known: true, largest: amounts{10, 0, 30, 1}}, 300, amounts{20, 0, 60, 1}},
		"an immense amount": {account{within: true, known: true, largest: amounts{1 << 60, 100, 30, 1}}, 50, amounts{1 << 50, 200, 60, 1}},
	} {
		if got := tt.a.estimate(tt.size); got != tt.want {
			t.Errorf("%s: the estimate is %v, want %v", name, got, tt.want)
		}
	}
}

// TestAnAgentInAnotherProcessNeedsALevel.
func TestAnAgentInAnotherProcessNeedsALevel(t *testing.T) {
	for _, tt := range []struct {
		depth, channel int
		ok             bool
	}{{0, 1, false}, {1, 1, true}, {2, 1, true}, {0, 0, true}} {
		tr := newTree(agent.Lease{})
		r := spender(nil, tr, "root", agent.Budget{Depth: &tt.depth}, agent.TotalUsage{})
		_, err := tr.reserver(nil)(t.Context(), Need{Call: &agent.Invocation{Spec: agent.ToolSpec{Name: "t", Channel: tt.channel}, Caller: r, Driver: &call{run: r}}})
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, agent.ErrDepth) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// TestWhatACallerRefusesIsReleased: also if its session is gone in the meantime.
func TestWhatACallerRefusesIsReleased(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		gone bool
		held int64
	}{"granted": {held: 1}, "refused": {err: agent.ErrBudget}, "gone": {gone: true}, "both": {err: agent.ErrBudget, gone: true}} {
		tr := newTree(agent.Lease{})
		r := spender(nil, tr, "root", agent.Budget{Calls: ptr[int64](3)}, agent.TotalUsage{})
		tr.root = r
		s := &remote{node: r.below(&agent.Agent{}, "")}
		tr.remotes["c"] = s
		tr.reserveShared = func(context.Context, agent.Event) (left, total agent.Budget, err error) {
			tr.mu.Lock()
			defer tr.mu.Unlock()
			if tt.gone {
				delete(tr.remotes, "c")
			}
			return agent.Budget{}, agent.Budget{}, tt.err
		}
		tr.mu.Lock()
		err := s.reserve(t.Context(), agent.Event{Session: "c", Key: "c.1.1"})
		if tr.mu.Unlock(); err != tt.err || r.account.held[amountCalls] != tt.held {
			t.Errorf("%s: %v, %d calls are held", name, err, r.account.held[amountCalls])
		}
	}
}

// TestACallIsReservedUntilItsOwnEvents: its start or its end.
func TestACallIsReservedUntilItsOwnEvents(t *testing.T) {
	for kind, held := range map[agent.EventKind]int64{agent.EventCallStarted: 0, agent.EventCallEnded: 0, agent.EventVerdict: 1, agent.EventAnswer: 1} {
		r := spender(nil, newTree(agent.Lease{}), "root", agent.Budget{Calls: ptr[int64](3)}, agent.TotalUsage{})
		s := r.away("a.1.1")
		if err := s.admit("c.1.1"); err != nil {
			t.Fatal(err)
		}
		if s.settle(&agent.Event{Kind: kind, Key: "c.1.1"}); r.account.held[amountCalls] != held {
			t.Errorf("after %s, %d calls are held", kind, r.account.held[amountCalls])
		}
	}
}

// TestOnlyACallersLimitIsNamedSo: that of a person is the agent's own.
func TestOnlyACallersLimitIsNamedSo(t *testing.T) {
	for _, path := range [][]string{nil, {"above"}} {
		tr := newTree(agent.Lease{Path: path})
		tr.root = spender(nil, tr, "root", agent.Budget{}, agent.TotalUsage{})
		if tr.limit(&agent.Budget{Calls: ptr[int64](3)}); tr.root.account.leased[amountCalls] != (path != nil) {
			t.Errorf("with the path %q, the limit is of the caller: %t", path, path == nil)
		}
	}
}

// TestLittleIsLeft as docs/budgets.md says: a fifth, and of less than a tenth two requests.
func TestLittleIsLeft(t *testing.T) {
	for _, tt := range []struct {
		kind          int
		left, largest int64
		want          bool
	}{
		{amountInput, 21, 0, false}, {amountInput, 20, 0, true}, {amountInput, 10, 0, true}, {amountInput, 9, 0, false}, {amountInput, 10, 90, true},
		{amountInput, 9, 4, true}, {amountInput, 8, 4, true}, {amountInput, 7, 4, false}, {amountInput, 21, 4, false},
		{amountTurns, 1, 0, true}, {amountTurns, 21, 0, false}, {amountTurns, 20, 0, true}, {amountInput, 1, 0, false},
		{amountCalls, 1, 0, false}, {amountCalls, 0, 0, true}, {amountCalls, -1, 0, true},
	} {
		r := &run{}
		if r.account.known = tt.largest > 0; r.account.known {
			r.account.largest[tt.kind] = tt.largest
		}
		if got := r.low(tt.kind, tt.left, 100); got != tt.want {
			t.Errorf("%+v of 100: little is left: %t", tt, got)
		}
	}
}

// TestTheBudgetWithTheLeastIsNamed: the first of several.
func TestTheBudgetWithTheLeastIsNamed(t *testing.T) {
	limits := func(calls int64) agent.Budget {
		return agent.Budget{InputTokens: ptr[int64](100), OutputTokens: ptr[int64](100), Calls: &calls}
	}
	for name, tt := range map[string]struct {
		budget agent.Budget
		total  agent.TotalUsage
		later  *agent.Budget // of the caller, after the run began
		step   agent.StepKind
		asked  string
		want   string // "" if the model may continue
	}{
		"enough":                 {budget: limits(5), total: agent.TotalUsage{Usage: agent.Usage{InputTokens: 79, OutputTokens: 79}}, step: agent.StepModel},
		"equally little":         {budget: limits(5), total: agent.TotalUsage{Usage: agent.Usage{InputTokens: 80, OutputTokens: 80}}, step: agent.StepModel, want: "budget inputTokens 100 of agent root is nearly spent ("},
		"less of the second":     {budget: limits(5), total: agent.TotalUsage{Usage: agent.Usage{InputTokens: 80, OutputTokens: 81}}, step: agent.StepModel, want: "budget outputTokens 100 of agent root is nearly spent ("},
		"no call":                {budget: limits(5), total: agent.TotalUsage{Usage: agent.Usage{InputTokens: 80}, Calls: 5}, step: agent.StepModel, want: "budget calls 5 of agent root spent ("},
		"no call from the start": {budget: limits(0), step: agent.StepModel},
		"a summary":              {budget: limits(5), total: agent.TotalUsage{Usage: agent.Usage{InputTokens: 80}}, step: agent.StepSummary},
		"asked before":           {budget: limits(5), total: agent.TotalUsage{Usage: agent.Usage{InputTokens: 80}}, step: agent.StepModel, asked: "x"},
		"limited later":          {total: agent.TotalUsage{Usage: agent.Usage{InputTokens: 1}}, later: &agent.Budget{InputTokens: ptr[int64](1000)}, step: agent.StepModel},
	} {
		tr := newTree(agent.Lease{})
		r := spender(nil, tr, "root", tt.budget, agent.TotalUsage{})
		if tr.root = r; tt.later != nil {
			r.account.within = true
			tr.limit(tt.later)
		}
		r.account.note(agent.Usage{InputTokens: 1, OutputTokens: 1})
		r.total, r.session.Closing = tt.total, tt.asked
		err := r.closing(agent.Step{Kind: tt.step})
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if err != nil && (!errors.Is(err, agent.ErrBudget) || errors.Is(err, agent.ErrTurns)) {
			t.Errorf("%s: %v is another error", name, err)
		}
	}
}

// TestLittleTimeIsLeft of the run's own time, or of that of a run above which ends earlier.
func TestLittleTimeIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for name, tt := range map[string]struct {
			above, own float64 // seconds that are left, 0 for no limit
			step       agent.StepKind
			asked      string
			want       string
		}{
			"no limit":             {step: agent.StepModel},
			"a fifth":              {own: 20, step: agent.StepModel, want: "budget seconds 100 of agent own is nearly spent"},
			"more than a fifth":    {own: 20.1, step: agent.StepModel},
			"a tenth":              {own: 10, step: agent.StepModel, want: "agent own is"},
			"less than a tenth":    {own: 8, step: agent.StepModel},
			"the caller's":         {above: 15, step: agent.StepModel, want: "budget seconds 90 of agent root is"},
			"the caller is before": {above: 15, own: 16, step: agent.StepModel, want: "agent root is"},
			"the caller is after":  {above: 16, own: 15, step: agent.StepModel, want: "agent own is"},
			"the caller has time":  {above: 500, own: 15, step: agent.StepModel, want: "agent own is"},
			"a summary":            {own: 20, step: agent.StepSummary},
			"asked before":         {own: 20, step: agent.StepModel, asked: "x"},
		} {
			tr := newTree(agent.Lease{})
			root := spender(nil, tr, "root", agent.Budget{}, agent.TotalUsage{})
			own := spender(root, tr, "own", agent.Budget{}, agent.TotalUsage{})
			root.account.timed, own.account.timed = 90*time.Second, 100*time.Second
			if tt.above > 0 {
				root.account.until = now.Add(time.Duration(tt.above * float64(time.Second)))
				own.account.began = root.account.until.Add(-100 * time.Second)
			}
			if tt.own > 0 {
				own.account.until = now.Add(time.Duration(tt.own * float64(time.Second)))
				own.account.began = own.account.until.Add(-100 * time.Second)
			}
			own.session.Closing = tt.asked
			for _, err := range []error{own.closingTime(agent.Step{Kind: tt.step}), own.closing(agent.Step{Kind: tt.step})} {
				if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s: %v, want %q", name, err, tt.want)
				}
			}
		}
	})
}
