package agent

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAUsageIsPossible: each of its numbers has limits.
func TestAUsageIsPossible(t *testing.T) {
	for i := range reflect.TypeFor[Usage]().NumField() {
		for n, want := range map[int64]bool{0: true, 1: true, 1 << 50: true, 1<<50 + 1: false, -1: false} {
			var u Usage
			reflect.ValueOf(&u).Elem().Field(i).SetInt(n)
			if got := u.Possible(); got != want {
				t.Errorf("%+v is possible: %t", u, got)
			}
			var sum Usage
			if sum = sum.Add(u); sum != u || sum.Sub(u) != (Usage{}) || u.Add(u).Sub(u) != u {
				t.Errorf("the sum with nothing of %+v is %+v", u, sum)
			}
		}
	}
}

// TestUsageForAPerson.
func TestUsageForAPerson(t *testing.T) {
	for _, tt := range []struct {
		u    Usage
		want string
	}{
		{Usage{}, ""}, {Usage{Requests: 1}, "unpriced"}, {Usage{Requests: 2, Priced: 1, Cost: Dollar}, "$1.00 + 1 unpriced"}, {Usage{Requests: 1, Cost: Dollar}, "$1.00 + 1 unpriced"}, {Usage{Requests: 1, Priced: 1}, "$0.00"}, {Usage{Priced: 1, Cost: Dollar}, "$1.00"},
		{Usage{Requests: 1, Priced: 1, Cost: Dollar, Estimated: 1}, "$1.00 (1 estimated)"}, {Usage{Requests: 1, Estimated: 1}, "unpriced"}, {Usage{Cost: Dollar}, ""},
	} {
		if got := tt.u.CostText(); got != tt.want {
			t.Errorf("the cost of %+v is %q, want %q", tt.u, got, tt.want)
		}
	}
	for _, tt := range []struct {
		u    Usage
		want string
	}{{Usage{}, "0 in / 0 out"}, {Usage{InputTokens: 2, CachedTokens: 1, OutputTokens: 3, Estimated: 1}, "about 2 in (1 cached) / 3 out"}} {
		if got := tt.u.TokenText(); got != tt.want {
			t.Errorf("the tokens are %q, want %q", got, tt.want)
		}
	}
	for n, want := range map[int]string{0: "0", 99: "99", 100: "0.1k", 99_949: "99.9k", 99_950: "100k", 999_499: "999k", 999_500: "1.0M"} {
		if got := Brief(n); got != want {
			t.Errorf("Brief(%d) = %s, want %s", n, got, want)
		}
	}
	for m, want := range map[Money]string{0: "$0.00", Dollar: "$1.00", Dollar / 10: "$0.10", Dollar/10 - 1: "$0.10", 9_900_000: "$0.099", 6_140_000: "$0.061", 6_150_000: "$0.062", 610_000: "$0.0061", 1: "$0.00000001", 10: "$0.0000001", 99: "$0.00000099", 123_500_000: "$1.24", 123_499_999: "$1.23", -Dollar: "-$1.00", -1: "-$0.00000001"} {
		if got := m.Text(); got != want {
			t.Errorf("%d is %s, want %s", m, got, want)
		}
	}
	if got, want := (TotalUsage{Usage: Usage{Requests: 1, InputTokens: 5}, Calls: 2}).String(), "1 request, 5 in / 0 out, unpriced, 2 calls"; got != want {
		t.Errorf("the total is %q, want %q", got, want)
	}
	if got, want := (TotalUsage{Calls: 1}).String(), "0 requests, 0 in / 0 out, 1 call"; got != want {
		t.Errorf("the total is %q, want %q", got, want)
	}
}

// TestTotalsDivideWhatWasConsumed by agents and by tools.
func TestTotalsDivideWhatWasConsumed(t *testing.T) {
	var total TotalUsage
	for _, e := range []Event{
		{Kind: EventAnswer, Agent: "a"}, {Kind: EventCallEnded, Tool: "t"}, {Kind: EventMessage, Agent: "a", Usage: &Usage{Requests: 9}},
		{Kind: EventAnswer, Agent: "a", Usage: &Usage{Requests: 1}}, {Kind: EventFailure, Agent: "b", Usage: &Usage{Requests: 2}}, {Kind: EventCallStarted, Tool: "t"},
		{Kind: EventCallEnded, Tool: "t", Millis: 5, Result: &ToolResult{Parts: []Part{Text("ab")}}}, {Kind: EventCallEnded, Tool: "t", Millis: 1, Result: &ToolResult{Failed: true}}, {Kind: EventCallEnded, Tool: "t", Result: &ToolResult{}},
	} {
		total.Note(&e)
	}
	want := TotalUsage{Usage: Usage{Requests: 3}, Calls: 1, Agents: map[string]Usage{"a": {Requests: 1}, "b": {Requests: 2}}, Tools: map[string]ToolUsage{"t": {Calls: 3, Failed: 1, OutputBytes: 2, Millis: 6}}}
	if diff := cmp.Diff(want, total); diff != "" {
		t.Error(diff)
	}
	for _, sum := range []TotalUsage{TotalUsage{}.Add(total), total.Add(TotalUsage{})} {
		if diff := cmp.Diff(want, sum); diff != "" {
			t.Error(diff)
		}
	}
	twice := total.Add(total)
	if twice.Tools["t"] != (ToolUsage{Calls: 6, Failed: 2, OutputBytes: 4, Millis: 12}) || twice.Agents["b"].Requests != 4 || total.Agents["b"].Requests != 2 {
		t.Errorf("twice the total is %+v", twice)
	}
}
