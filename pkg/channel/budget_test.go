package channel

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// reserve asks for a reservation, of a request if there is no key, and returns the reply.
func (p *peer) reserve(session, key string) string {
	p.send(of(agent.Event{Kind: agent.EventQuestion, Question: "q1", What: "budget", Session: session, Key: key}))
	for p.in.Scan() {
		var m message
		if json.Unmarshal(p.in.Bytes(), &m) == nil && m.Kind == kindReply {
			return string(m.Answer)
		}
	}
	return "no reply"
}

func TestAnAgentReservesInTheBudgetsOfItsCaller(t *testing.T) {
	dollars, turns, two := 3*agent.Dollar, int64(4), int64(2)
	budget := agent.Budget{USD: &dollars, Turns: &turns, Calls: &two}
	call := agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "call", Name: "t", Args: "{}"}}}
	done := of(agent.Event{Kind: agent.EventCallEnded, CallID: "call", Tool: "t", Key: "S.1.1", N: 1, Result: &agent.ToolResult{CallID: "call", Name: "t"}})
	var replies []string
	for _, tt := range []struct {
		name    string
		play    func(p *peer)
		replies []string
		status  agent.Status
	}{
		{"each request", func(p *peer) {
			replies = append(replies, p.reserve("", ""))
			p.send(answer(call, one), started("S.1.1"), done)
			replies = append(replies, p.reserve("", ""))
			p.send(answer(says("done"), agent.Usage{Requests: 1, Cost: 5 * agent.Dollar, Priced: 1}), end(agent.StatusOK, "done"))
		}, []string{`{"limits":{"usd":3,"turns":3,"calls":1}}`, `{"limits":{"usd":3,"turns":3,"calls":1}}`}, agent.StatusOK},
		{"a request that cannot be paid", func(p *peer) {
			p.reserve("", "")
			p.send(answer(call, agent.Usage{Requests: 1, Cost: 5 * agent.Dollar, Priced: 1}), started("S.1.1"), done)
			replies = append(replies, p.reserve("", ""))
			p.send(end(agent.StatusBudget, "spent"))
		}, []string{`{"error":"budget usd 3.00 of agent outer spent (5.00 + 1 unpriced with 1 sub-agent)"}`}, agent.StatusBudget},
		{"a call", func(p *peer) {
			p.reserve("", "")
			p.send(answer(call, one))
			replies = append(replies, p.reserve("", "S.1.1"), p.reserve("", "S.1.2"))
			p.send(started("S.1.1"), done, end(agent.StatusOK, "done"))
		}, []string{`{"limits":{"usd":3,"turns":3,"calls":1}}`, `{"error":"budget calls 2 of agent outer spent (1 with 1 sub-agent)"}`}, agent.StatusOK},
		{"a session that is not its own", func(p *peer) {
			replies = append(replies, p.reserve("OUTER", ""), p.reserve("", "OUTER.1.2"))
			p.send(end(agent.StatusOK, "done"))
		}, []string{"", ""}, agent.StatusOK},
		{"twice, and it ends without a request", func(p *peer) {
			p.reserve("", "")
			p.reserve("", "")
		}, nil, agent.StatusFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				replies = nil
				var asked bool
				c, _ := callChild(t, func(p *peer) {
					p.in.Scan()
					asked = strings.Contains(p.in.Text(), `"shared":true`)
					p.send(session(), prompt())
					tt.play(p)
				}, func(r *runner.Runner) { r.Lease.Budget = budget })
				if !slices.Equal(replies, tt.replies) || agent.StatusOf(c.err) != tt.status || !asked {
					t.Errorf("replies %q, err %v, shared %t; want %q, %s", replies, c.err, asked, tt.replies, tt.status)
				}
			})
		})
	}
}
