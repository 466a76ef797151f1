package agent_test

import (
	"encoding/json"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

func TestCostForAPerson(t *testing.T) {
	for want, u := range map[string]agent.Usage{
		"":                    {},
		"unpriced":            {Requests: 3},
		"$0.00":               {Requests: 1, Priced: 1},
		"$0.006":              {Requests: 1, Priced: 1, Cost: agent.Dollar * 6 / 1000},
		"$0.0061":             {Requests: 1, Priced: 1, Cost: 610_000},
		"$0.00000001":         {Requests: 1, Priced: 1, Cost: 1},
		"$0.10":               {Requests: 1, Priced: 1, Cost: agent.Dollar/10 - 1},
		"$0.05":               {Requests: 1, Priced: 1, Cost: agent.Dollar / 20},
		"$12.35":              {Requests: 1, Priced: 1, Cost: 1_234_567_890},
		"-$2.00":              {Requests: 1, Priced: 1, Cost: -2 * agent.Dollar},
		"$0.012 + 2 unpriced": {Requests: 5, Priced: 3, Cost: 1_230_000},

		"$0.012 (1 estimated)":              {Requests: 5, Priced: 5, Cost: 1_230_000, Estimated: 1},
		"$0.012 + 2 unpriced (1 estimated)": {Requests: 5, Priced: 3, Cost: 1_230_000, Estimated: 1},
	} {
		if got := u.CostText(); got != want {
			t.Errorf("CostText of %+v = %q, want %q", u, got, want)
		}
	}
}

// A sum of floating-point numbers would be 0.30000000000000004.
func TestCostsAddUpExactly(t *testing.T) {
	var sum agent.Usage
	for _, cost := range []string{"0.1", "0.2", "0.00000001"} {
		var u agent.Usage
		if err := json.Unmarshal([]byte(`{"requests":1,"priced":1,"cost":`+cost+`}`), &u); err != nil {
			t.Fatal(err)
		}
		sum = sum.Add(u)
	}
	if got, _ := json.Marshal(sum.Cost); string(got) != "0.30000001" {
		t.Errorf("the sum is %s", got)
	}
}

func TestTotalUsageIsReadable(t *testing.T) {
	total := agent.TotalUsage{Calls: 1, Usage: agent.Usage{Requests: 3, Priced: 3, InputTokens: 2600, OutputTokens: 400, Cost: agent.Dollar * 61 / 10_000}}
	if got, want := total.String(), "3 requests, 2.6k in / 0.4k out, $0.0061, 1 call"; got != want {
		t.Errorf("String = %q, want %q", got, want)
	}
	if got, want := (agent.TotalUsage{}).String(), "0 requests, 0 in / 0 out, 0 calls"; got != want {
		t.Errorf("String of nothing = %q, want %q", got, want)
	}
}
