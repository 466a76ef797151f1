package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

// leastOf is a model that knows prices.
type leastOf struct{ answersOf }

func (leastOf) LeastCost(u agent.Usage) agent.Money { return agent.Money(u.InputTokens) }

// TestAnInterruptedRequestHasItsLeastCost, unless its provider knows what it consumed.
func TestAnInterruptedRequestHasItsLeastCost(t *testing.T) {
	req, broke := &agent.Request{System: "12345678"}, errors.New("broke")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		err  error
		want agent.Usage
	}{
		"it failed": {t.Context(), broke, agent.Usage{}}, "it ended": {ended, broke, agent.Usage{Requests: 1, InputTokens: 3, Estimated: 1, Cost: 3}}, "it is known": {ended, &agent.ModelError{Usage: agent.Usage{Requests: 4}}, agent.Usage{Requests: 4}},
	} {
		if got := usageOf(nil, interrupted(tt.ctx, &leastOf{}, req, tt.err)); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
	if got := priced(&answersOf{}, agent.Usage{Cost: 5}); got.Cost != 5 {
		t.Errorf("without prices, the cost is %s", got.Cost)
	}
}

// TestARequestOfUnknownCostReserves twice the largest, or the average after a resume, of the
// nearest run with a budget.
func TestARequestOfUnknownCostReserves(t *testing.T) {
	budget := agent.Budget{Turns: ptr[int64](9)}
	largest := account{within: true, known: true, largest: amounts{50, 100, 10, 1}}
	for name, tt := range map[string]struct {
		above, own account
		had, used  agent.Usage
		want       agent.Usage
	}{
		"no budget":            {had: agent.Usage{Requests: 2, OutputTokens: 20}},
		"the largest":          {own: largest, want: agent.Usage{ReservedCost: 100, ReservedTokens: 20}},
		"beyond what is known": {own: largest, used: agent.Usage{Cost: 30, OutputTokens: 5}, want: agent.Usage{Cost: 30, OutputTokens: 5, ReservedCost: 70, ReservedTokens: 15}},
		"it was more":          {own: largest, used: agent.Usage{Cost: 200, OutputTokens: 50}, want: agent.Usage{Cost: 200, OutputTokens: 50}},
		"the average":          {own: account{within: true}, had: agent.Usage{Requests: 2, Cost: 20, OutputTokens: 40}, want: agent.Usage{ReservedCost: 20, ReservedTokens: 40}},
		"nothing is known":     {own: account{within: true}},
		"that above":           {own: account{within: true}, above: largest, want: agent.Usage{ReservedCost: 100, ReservedTokens: 20}},
		"only above":           {above: largest, had: agent.Usage{Requests: 1, OutputTokens: 9}, want: agent.Usage{ReservedCost: 100, ReservedTokens: 20}},
		"the nearest":          {own: account{within: true, known: true, largest: amounts{1, 100, 1, 1}}, above: largest, want: agent.Usage{ReservedCost: 2, ReservedTokens: 2}},
	} {
		tr := newTree(agent.Lease{})
		root := spender(nil, tr, "root", budget, agent.TotalUsage{})
		own := spender(root, tr, "own", budget, agent.TotalUsage{Usage: tt.had})
		root.account, own.account = tt.above, tt.own
		if got := own.reserved(tt.used, 100); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

// TestAttemptsThatFailedSpendABudget: together with what was consumed before.
func TestAttemptsThatFailedSpendABudget(t *testing.T) {
	for turns, ok := range map[int]bool{0: true, 2: true, 3: false, 4: false} {
		tr := newTree(agent.Lease{})
		root := spender(nil, tr, "root", agent.Budget{Turns: ptr[int64](5)}, agent.TotalUsage{Usage: agent.Usage{Requests: 2}})
		own := spender(root, tr, "own", agent.Budget{InputTokens: ptr[int64](100)}, agent.TotalUsage{})
		if err := own.again(agent.Usage{Requests: turns}); (err == nil) != ok || err != nil && !errors.Is(err, agent.ErrBudget) {
			t.Errorf("after %d attempts: %v", turns, err)
		}
	}
	if err := spender(nil, newTree(agent.Lease{}), "root", agent.Budget{}, agent.TotalUsage{}).again(agent.Usage{Requests: 1 << 40}); err != nil {
		t.Errorf("without a budget: %v", err)
	}
}

// long is a session with turns whose results have size bytes each. Its model counts a byte as
// a token.
func long(turns, size int) *agent.Session {
	s := &agent.Session{}
	s.ID, s.Running = "s", true
	s.Messages = []agent.Message{agent.UserText("begin")}
	for i := range turns {
		id := fmt.Sprint("c", i)
		s.Messages = append(s.Messages, agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: id, Name: "t", Args: "{}"}}},
			agent.Message{Role: agent.RoleTool, Results: []agent.ToolResult{{CallID: id, Name: "t", Parts: []agent.Part{agent.Text(strings.Repeat("x", size))}}}})
	}
	// A message counts 16 bytes, and a call and a result 32, beside their text.
	s.CountedBytes = 21 + turns*(16+35+16+32+size)
	s.Tokens = s.CountedBytes
	return s
}

// TestASessionWaitsForARequest: what an earlier process has sent.
func TestASessionWaitsForARequest(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*agent.Session)
		want   bool
	}{
		"it waits":  {func(*agent.Session) {}, true},
		"no run":    {func(s *agent.Session) { s.Running = false }, false},
		"it failed": {func(s *agent.Session) { s.Failure = &agent.Failure{} }, false},
		"it was too long": {func(s *agent.Session) {
			*s = *long(40, 390)
			s.Setup.Digest, s.Failure = "d", &agent.Failure{TooLong: true}
		}, false},
		"no request was made":    {func(s *agent.Session) { s.Setup.Digest = "" }, false},
		"it was answered":        {func(s *agent.Session) { s.Messages = append(s.Messages, agent.Message{Role: agent.RoleAssistant}) }, false},
		"it waits for a summary": {func(s *agent.Session) { *s = *long(40, 390); s.Setup.Digest, s.Limits.ContextTokens = "d", 1000 }, true},
		"it is about to be short": {func(s *agent.Session) {
			*s = *long(6, 5000)
			s.Setup.Digest, s.Limits.ContextTokens, s.NoSummary = "d", 1000, true
		}, false},
	} {
		s := long(0, 0)
		s.Setup = agent.Setup{Digest: "d", System: "12345678"}
		tt.change(s)
		read(t, s)
		if got := s.Unanswered(); (got != (agent.Usage{})) != tt.want || got.Cost != 0 {
			t.Errorf("%s: %+v", name, got)
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
