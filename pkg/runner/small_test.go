package runner

import (
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

// TestNamesThatCanBeShown: at most MaxName bytes, and nothing that a terminal does not print.
func TestNamesThatCanBeShown(t *testing.T) {
	for name, want := range map[string]bool{"": true, "a-b_c é 木": true, strings.Repeat("x", agent.MaxName): true, strings.Repeat("x", agent.MaxName+1): false,
		"a\nb": false, "a\x1bb": false, "a\u202eb": false, "a\ufffdb": false, "a\xffb": false, "a\u200bb": false} {
		if got := printable(name); got != want {
			t.Errorf("printable(%q) = %t, want %t", name, got, want)
		}
	}
}

// TestOnlyALowerLimitIsTheCallers: a total that equals the agent's own limit leaves it its own.
func TestOnlyALowerLimitIsTheCallers(t *testing.T) {
	for total, want := range map[int64]struct {
		limit  int64
		leased bool
	}{4: {4, true}, 5: {5, false}, 6: {5, false}} {
		tr := newTree(agent.Lease{Path: []string{"above"}})
		tr.root = spender(nil, tr, "root", agent.Budget{Calls: ptr[int64](5)}, agent.TotalUsage{})
		tr.limit(&agent.Budget{Calls: &total})
		if a := &tr.root.account; a.limit[amountCalls] != want.limit || a.leased[amountCalls] != want.leased {
			t.Errorf("with a total of %d the limit is %d, of the caller: %t; want %+v", total, a.limit[amountCalls], a.leased[amountCalls], want)
		}
	}
}

// TestTotalsOfTheRootReplaceTheCount: those of another session, and of other events, do not.
func TestTotalsOfTheRootReplaceTheCount(t *testing.T) {
	total := &agent.TotalUsage{Usage: agent.Usage{Requests: 7}}
	for _, c := range []struct {
		e    agent.Event
		want int
	}{
		{agent.Event{Kind: agent.EventMessage, Session: "root", Total: total}, 7}, {agent.Event{Kind: agent.EventEnd, Session: "root", Total: total}, 7},
		{agent.Event{Kind: agent.EventCompaction, Session: "root", Total: total}, 7}, {agent.Event{Kind: agent.EventMessage, Session: "root"}, 0},
		{agent.Event{Kind: agent.EventWarning, Session: "root", Total: total}, 3}, {agent.Event{Kind: agent.EventEnd, Session: "below", Total: total}, 3},
	} {
		for _, known := range []bool{true, false} {
			b := Rebuilder{total: agent.TotalUsage{Usage: agent.Usage{Requests: 3}}}
			want := c.want
			if known {
				b.root = &agent.Session{}
				b.root.ID = "root"
			} else if c.e.Kind != agent.EventWarning {
				want = 7 // whose session it is is not known yet
				if c.e.Total == nil {
					want = 0
				}
			}
			if b.Count(c.e); b.total.Usage.Requests != want {
				t.Errorf("after %s of %s, the root known: %t, there are %d requests, want %d", c.e.Kind, c.e.Session, known, b.total.Usage.Requests, want)
			}
		}
	}
}
