package agent

import (
	"context"
	"errors"
	"fmt"
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

// TestWhatAServerDoesNotReportIsEstimated: four bytes of all that it reads are a token.
func TestWhatAServerDoesNotReportIsEstimated(t *testing.T) {
	answer := UserText("abcdefgh") // 24 bytes
	req := &Request{System: "12345678", Messages: []Message{UserText("abcd")}, Tools: []ToolSpec{{Name: "ab", Description: "cde", Schema: []byte("{    }")}}}
	if got, want := EstimateUsage(req, nil), (Usage{Requests: 1, InputTokens: 39/4 + 1, Estimated: 1}); got != want {
		t.Errorf("the estimate is %+v, want %+v", got, want)
	}
	for _, tt := range []struct {
		u    Usage
		a    *Message
		want Usage
	}{
		{Usage{}, nil, Usage{Requests: 1, InputTokens: 10, Estimated: 1}}, {Usage{Requests: 2}, &answer, Usage{Requests: 2, InputTokens: 10, OutputTokens: 6, Estimated: 2}},
		{Usage{InputTokens: 1}, &answer, Usage{Requests: 1, InputTokens: 1}}, {Usage{OutputTokens: 1}, &answer, Usage{Requests: 1, OutputTokens: 1}},
	} {
		if got := tt.u.OrEstimate(req, tt.a); got != tt.want {
			t.Errorf("%+v is %+v, want %+v", tt.u, got, tt.want)
		}
	}
	for _, tt := range []struct {
		resp *Response
		err  error
		want Usage
	}{{&Response{}, nil, Usage{Requests: 1}}, {&Response{Usage: Usage{Requests: 3}}, nil, Usage{Requests: 3}}, {nil, errors.New("x"), Usage{}}, {nil, fmt.Errorf("x: %w", &ModelError{Usage: Usage{Requests: 2}}), Usage{Requests: 2}}} {
		if got := usageOf(tt.resp, tt.err); got != tt.want {
			t.Errorf("usageOf(%v, %v) = %+v", tt.resp, tt.err, got)
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
		{Kind: EventCallEnded, Tool: "t", Millis: 5, Result: &ToolResult{Parts: []Part{Text("ab")}}}, {Kind: EventCallEnded, Tool: "t", Millis: 1, Result: &ToolResult{Failed: true}},
	} {
		total.Note(&e)
	}
	want := TotalUsage{Usage: Usage{Requests: 3}, Calls: 1, Agents: map[string]Usage{"a": {Requests: 1}, "b": {Requests: 2}}, Tools: map[string]ToolUsage{"t": {Calls: 2, Failed: 1, OutputBytes: 2, Millis: 6}}}
	if diff := cmp.Diff(want, total); diff != "" {
		t.Error(diff)
	}
	for _, sum := range []TotalUsage{TotalUsage{}.Add(total), total.Add(TotalUsage{})} {
		if diff := cmp.Diff(want, sum); diff != "" {
			t.Error(diff)
		}
	}
	twice := total.Add(total)
	if twice.Tools["t"] != (ToolUsage{4, 2, 4, 12}) || twice.Agents["b"].Requests != 4 || total.Agents["b"].Requests != 2 {
		t.Errorf("twice the total is %+v", twice)
	}
}

// leastOf is a model that knows prices.
type leastOf struct{ answersOf }

func (leastOf) LeastCost(u Usage) Money { return Money(u.InputTokens) }

// TestAnInterruptedRequestHasItsLeastCost, unless its provider knows what it consumed.
func TestAnInterruptedRequestHasItsLeastCost(t *testing.T) {
	req, broke := &Request{System: "12345678"}, errors.New("broke")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		err  error
		want Usage
	}{
		"it failed": {t.Context(), broke, Usage{}}, "it ended": {ended, broke, Usage{Requests: 1, InputTokens: 3, Estimated: 1, Cost: 3}}, "it is known": {ended, &ModelError{Usage: Usage{Requests: 4}}, Usage{Requests: 4}},
	} {
		if got := usageOf(nil, interrupted(tt.ctx, &leastOf{}, req, tt.err)); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
	if got := priced(&answersOf{}, Usage{Cost: 5}); got.Cost != 5 {
		t.Errorf("without prices, the cost is %s", got.Cost)
	}
}

// TestARequestOfUnknownCostReserves twice the largest, or the average after a resume, of the
// nearest run with a budget.
func TestARequestOfUnknownCostReserves(t *testing.T) {
	budget := Budget{Turns: ptr[int64](9)}
	largest := account{within: true, known: true, largest: amounts{50, 100, 10, 1}}
	for name, tt := range map[string]struct {
		above, own account
		had, used  Usage
		want       Usage
	}{
		"no budget":            {had: Usage{Requests: 2, OutputTokens: 20}},
		"the largest":          {own: largest, want: Usage{ReservedCost: 100, ReservedTokens: 20}},
		"beyond what is known": {own: largest, used: Usage{Cost: 30, OutputTokens: 5}, want: Usage{Cost: 30, OutputTokens: 5, ReservedCost: 70, ReservedTokens: 15}},
		"it was more":          {own: largest, used: Usage{Cost: 200, OutputTokens: 50}, want: Usage{Cost: 200, OutputTokens: 50}},
		"the average":          {own: account{within: true}, had: Usage{Requests: 2, Cost: 20, OutputTokens: 40}, want: Usage{ReservedCost: 20, ReservedTokens: 40}},
		"nothing is known":     {own: account{within: true}},
		"that above":           {own: account{within: true}, above: largest, want: Usage{ReservedCost: 100, ReservedTokens: 20}},
		"only above":           {above: largest, had: Usage{Requests: 1, OutputTokens: 9}, want: Usage{ReservedCost: 100, ReservedTokens: 20}},
		"the nearest":          {own: account{within: true, known: true, largest: amounts{1, 100, 1, 1}}, above: largest, want: Usage{ReservedCost: 2, ReservedTokens: 2}},
	} {
		tr := newTree(Lease{})
		root := spender(nil, tr, "root", budget, TotalUsage{})
		own := spender(root, tr, "own", budget, TotalUsage{Usage: tt.had})
		root.account, own.account = tt.above, tt.own
		if got := own.reserved(tt.used, 100); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

// TestAttemptsThatFailedSpendABudget: together with what was consumed before.
func TestAttemptsThatFailedSpendABudget(t *testing.T) {
	for turns, ok := range map[int]bool{0: true, 2: true, 3: false, 4: false} {
		tr := newTree(Lease{})
		root := spender(nil, tr, "root", Budget{Turns: ptr[int64](5)}, TotalUsage{Usage: Usage{Requests: 2}})
		own := spender(root, tr, "own", Budget{InputTokens: ptr[int64](100)}, TotalUsage{})
		if err := own.again(Usage{Requests: turns}); (err == nil) != ok || err != nil && !errors.Is(err, ErrBudget) {
			t.Errorf("after %d attempts: %v", turns, err)
		}
	}
	if err := spender(nil, newTree(Lease{}), "root", Budget{}, TotalUsage{}).again(Usage{Requests: 1 << 40}); err != nil {
		t.Errorf("without a budget: %v", err)
	}
}

// TestASessionWaitsForARequest: what an earlier process has sent.
func TestASessionWaitsForARequest(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Session)
		want   bool
	}{
		"it waits":               {func(*Session) {}, true},
		"no run":                 {func(s *Session) { s.Running = false }, false},
		"it failed":              {func(s *Session) { s.Failure = &Failure{} }, false},
		"no request was made":    {func(s *Session) { s.Setup.Digest = "" }, false},
		"it was answered":        {func(s *Session) { s.add(Message{Role: RoleAssistant}) }, false},
		"it waits for a summary": {func(s *Session) { *s = *long(40, 390); s.Setup.Digest, s.Limits.ContextTokens = "d", 1000 }, true},
		"it is about to be short": {func(s *Session) {
			*s = *long(6, 5000)
			s.Setup.Digest, s.Limits.ContextTokens, s.NoSummary = "d", 1000, true
		}, false},
	} {
		s := long(0, 0)
		s.Setup = Setup{Digest: "d", System: "12345678"}
		tt.change(s)
		if got := s.unanswered(); (got != (Usage{})) != tt.want || got.Cost != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
