package runner

import (
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

// TestALedgerKnowsItsOwnSessions: those above are only as many as there are agents.
func TestALedgerKnowsItsOwnSessions(t *testing.T) {
	begin := func(session, parent string) *agent.Event {
		return &agent.Event{Kind: agent.EventSession, Session: session, Parent: parent}
	}
	start := func(session, key string) *agent.Event {
		return &agent.Event{Kind: agent.EventCallStarted, Session: session, Key: key}
	}
	record := []agent.Event{*begin("r", ""), *begin("b", "r.1.1")}
	two := []*agent.Agent{{Slug: "root"}, {Slug: "b", Budget: agent.Budget{Calls: ptr[int64](5)}}}
	for name, tt := range map[string]struct {
		agents []*agent.Agent
		record []agent.Event
		then   []*agent.Event
		want   int64
	}{
		"its own":            {two, record, []*agent.Event{start("b", "b.1.1")}, 4},
		"the one above":      {two, record, []*agent.Event{start("r", "r.1.1")}, 5},
		"above its agents":   {two[1:], record, []*agent.Event{start("r", "r.1.1"), start("b", "b.1.1")}, 4},
		"another at the top": {two, record[1:], []*agent.Event{begin("z", ""), start("z", "z.1.1")}, 5},
	} {
		l := NewLedger(agent.Lease{}, tt.agents, tt.record, "b")
		for i, e := range tt.then {
			l.Note(int64(i+1), e)
		}
		if left, _ := l.Left(); *left.Calls != tt.want {
			t.Errorf("%s: %d calls are left, want %d", name, *left.Calls, tt.want)
		}
		if of := l.run("z"); of != nil {
			t.Errorf("%s: a session of nobody belongs to %s", name, of.agent.Slug)
		}
	}
	// An event that the reservation has seen does not end it.
	for seq, over := range map[int64]bool{2: true, 3: false, 4: false} {
		l := NewLedger(agent.Lease{}, two, record, "b")
		for i, e := range []*agent.Event{&record[0], &record[1], {Kind: agent.EventCallEnded, Session: "r", Key: "r.1.1"}} {
			l.Note(int64(i+1), e)
		}
		if got := l.over(&agent.Event{Kind: EventReservation, Session: "b", Seq: seq}); got != over {
			t.Errorf("a reservation after %d events is over: %t", seq, got)
		}
	}
}
