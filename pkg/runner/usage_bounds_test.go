package runner

import (
	"errors"
	"fmt"
	"github.com/agents-exe/agents/pkg/agent"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAUsageIsPossible: each of its numbers has limits.
func TestAUsageIsPossible(t *testing.T) {
	for i := range reflect.TypeFor[agent.Usage]().NumField() {
		for n, want := range map[int64]bool{0: true, 1: true, 1 << 50: true, 1<<50 + 1: false, -1: false} {
			var u agent.Usage
			reflect.ValueOf(&u).Elem().Field(i).SetInt(n)
			if got := u.Possible(); got != want {
				t.Errorf("%+v is possible: %t", u, got)
			}
			var sum agent.Usage
			if sum = sum.Add(u); sum != u || sum.Sub(u) != (agent.Usage{}) || u.Add(u).Sub(u) != u {
				t.Errorf("the sum with nothing of %+v is %+v", u, sum)
			}
		}
	}
}

// TestWhatAServerDoesNotReportIsEstimated: four bytes of all that it reads are a token.
func TestWhatAServerDoesNotReportIsEstimated(t *testing.T) {
	answer := agent.UserText("abcdefgh") // 24 bytes
	req := &agent.Request{System: "12345678", Messages: []agent.Message{agent.UserText("abcd")}, Tools: []agent.ToolSpec{{Name: "ab", Description: "cde", Schema: []byte("{    }")}}}
	if got, want := agent.EstimateUsage(req, nil), (agent.Usage{Requests: 1, InputTokens: 39/4 + 1, Estimated: 1}); got != want {
		t.Errorf("the estimate is %+v, want %+v", got, want)
	}
	for _, tt := range []struct {
		u    agent.Usage
		a    *agent.Message
		want agent.Usage
	}{
		{agent.Usage{}, nil, agent.Usage{Requests: 1, InputTokens: 10, Estimated: 1}}, {agent.Usage{Requests: 2}, &answer, agent.Usage{Requests: 2, InputTokens: 10, OutputTokens: 6, Estimated: 2}},
		{agent.Usage{InputTokens: 1}, &answer, agent.Usage{Requests: 1, InputTokens: 1}}, {agent.Usage{OutputTokens: 1}, &answer, agent.Usage{Requests: 1, OutputTokens: 1}},
	} {
		if got := tt.u.OrEstimate(req, tt.a); got != tt.want {
			t.Errorf("%+v is %+v, want %+v", tt.u, got, tt.want)
		}
	}
	for _, tt := range []struct {
		resp *agent.Response
		err  error
		want agent.Usage
	}{{&agent.Response{}, nil, agent.Usage{Requests: 1}}, {&agent.Response{Usage: agent.Usage{Requests: 3}}, nil, agent.Usage{Requests: 3}}, {nil, errors.New("x"), agent.Usage{}}, {nil, fmt.Errorf("x: %w", &agent.ModelError{Usage: agent.Usage{Requests: 2}}), agent.Usage{Requests: 2}}} {
		if got := usageOf(tt.resp, tt.err); got != tt.want {
			t.Errorf("usageOf(%v, %v) = %+v", tt.resp, tt.err, got)
		}
	}
}

// TestUsageForAPerson.
func TestUsageForAPerson(t *testing.T) {
	for _, tt := range []struct {
		u    agent.Usage
		want string
	}{
		{agent.Usage{}, ""}, {agent.Usage{Requests: 1}, "unpriced"}, {agent.Usage{Requests: 2, Priced: 1, Cost: agent.Dollar}, "$1.00 + 1 unpriced"}, {agent.Usage{Requests: 1, Cost: agent.Dollar}, "$1.00 + 1 unpriced"}, {agent.Usage{Requests: 1, Priced: 1}, "$0.00"}, {agent.Usage{Priced: 1, Cost: agent.Dollar}, "$1.00"},
		{agent.Usage{Requests: 1, Priced: 1, Cost: agent.Dollar, Estimated: 1}, "$1.00 (1 estimated)"}, {agent.Usage{Requests: 1, Estimated: 1}, "unpriced"}, {agent.Usage{Cost: agent.Dollar}, ""},
	} {
		if got := tt.u.CostText(); got != tt.want {
			t.Errorf("the cost of %+v is %q, want %q", tt.u, got, tt.want)
		}
	}
	for _, tt := range []struct {
		u    agent.Usage
		want string
	}{{agent.Usage{}, "0 in / 0 out"}, {agent.Usage{InputTokens: 2, CachedTokens: 1, OutputTokens: 3, Estimated: 1}, "about 2 in (1 cached) / 3 out"}} {
		if got := tt.u.TokenText(); got != tt.want {
			t.Errorf("the tokens are %q, want %q", got, tt.want)
		}
	}
	for n, want := range map[int]string{0: "0", 99: "99", 100: "0.1k", 99_949: "99.9k", 99_950: "100k", 999_499: "999k", 999_500: "1.0M"} {
		if got := agent.Brief(n); got != want {
			t.Errorf("Brief(%d) = %s, want %s", n, got, want)
		}
	}
	for m, want := range map[agent.Money]string{0: "$0.00", agent.Dollar: "$1.00", agent.Dollar / 10: "$0.10", agent.Dollar/10 - 1: "$0.10", 9_900_000: "$0.099", 6_140_000: "$0.061", 6_150_000: "$0.062", 610_000: "$0.0061", 1: "$0.00000001", 10: "$0.0000001", 99: "$0.00000099", 123_500_000: "$1.24", 123_499_999: "$1.23", -agent.Dollar: "-$1.00", -1: "-$0.00000001"} {
		if got := m.Text(); got != want {
			t.Errorf("%d is %s, want %s", m, got, want)
		}
	}
	if got, want := (agent.TotalUsage{Usage: agent.Usage{Requests: 1, InputTokens: 5}, Calls: 2}).String(), "1 request, 5 in / 0 out, unpriced, 2 calls"; got != want {
		t.Errorf("the total is %q, want %q", got, want)
	}
	if got, want := (agent.TotalUsage{Calls: 1}).String(), "0 requests, 0 in / 0 out, 1 call"; got != want {
		t.Errorf("the total is %q, want %q", got, want)
	}
}

// TestTotalsDivideWhatWasConsumed by agents and by tools.
func TestTotalsDivideWhatWasConsumed(t *testing.T) {
	var total agent.TotalUsage
	for _, e := range []agent.Event{
		{Kind: agent.EventAnswer, Agent: "a"}, {Kind: agent.EventCallEnded, Tool: "t"}, {Kind: agent.EventMessage, Agent: "a", Usage: &agent.Usage{Requests: 9}},
		{Kind: agent.EventAnswer, Agent: "a", Usage: &agent.Usage{Requests: 1}}, {Kind: agent.EventFailure, Agent: "b", Usage: &agent.Usage{Requests: 2}}, {Kind: agent.EventCallStarted, Tool: "t"},
		{Kind: agent.EventCallEnded, Tool: "t", Millis: 5, Result: &agent.ToolResult{Parts: []agent.Part{agent.Text("ab")}}}, {Kind: agent.EventCallEnded, Tool: "t", Millis: 1, Result: &agent.ToolResult{Failed: true}}, {Kind: agent.EventCallEnded, Tool: "t", Result: &agent.ToolResult{}},
	} {
		total.Note(&e)
	}
	want := agent.TotalUsage{Usage: agent.Usage{Requests: 3}, Calls: 1, Agents: map[string]agent.Usage{"a": {Requests: 1}, "b": {Requests: 2}}, Tools: map[string]agent.ToolUsage{"t": {Calls: 3, Failed: 1, OutputBytes: 2, Millis: 6}}}
	if diff := cmp.Diff(want, total); diff != "" {
		t.Error(diff)
	}
	for _, sum := range []agent.TotalUsage{agent.TotalUsage{}.Add(total), total.Add(agent.TotalUsage{})} {
		if diff := cmp.Diff(want, sum); diff != "" {
			t.Error(diff)
		}
	}
	twice := total.Add(total)
	if twice.Tools["t"] != (agent.ToolUsage{6, 2, 4, 12}) || twice.Agents["b"].Requests != 4 || total.Agents["b"].Requests != 2 {
		t.Errorf("twice the total is %+v", twice)
	}
}
