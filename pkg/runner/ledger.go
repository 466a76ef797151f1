package runner

import (
	"cmp"

	"github.com/agents-exe/agents/pkg/agent"
)

// EventReservation, in a list beside the record of a run, says that a model request of Session,
// or the call Key, begins: Usage (InputTokens: the estimated size of the conversation), Seq (how
// many events the record had). See Ledger.
const EventReservation agent.EventKind = "reservation"

// A Ledger computes what is left of the budgets of a tree whose agents are run by several
// Runners, in different processes, that write into one record. Their reservations are in a
// second list of events. A process appends a reservation only if its Ledger has seen the whole
// list, so that no two are made at the same time. A reservation ends with the next lasting event
// of its session, or of its call. It also ends with an event of a call above, whose process has
// then ended or started again.
//
// It has accounts for the run of its Runner and for the runs above; those below are in the
// Ledgers of their own Runners. A Ledger must not be used concurrently.
type Ledger struct {
	chain   []*node                // from the root on
	within  map[string]int         // sessions: the lowest run of chain that they belong to
	parents map[string]string      // the calls that sessions answer
	last    map[string]int64       // number of the last event of a session, or of a call
	ended   map[string]int64       // number of the end of a session
	open    map[string]agent.Event // reservations, by session or Key
}

// NewLedger returns the Ledger for the run of session. agents are those from the root to
// this run, and lease is that of the root. record has the session events of all runs above;
// Note must be called with its events.
func NewLedger(lease agent.Lease, agents []*agent.Agent, record []agent.Event, session string) *Ledger {
	l := &Ledger{within: map[string]int{}, parents: map[string]string{}, last: map[string]int64{}, ended: map[string]int64{}, open: map[string]agent.Event{}}
	t := &tree{lease: lease}
	var up *node
	for _, a := range agents {
		up = &node{tree: t, agent: a, up: up}
		up.openAccount()
		l.chain = append(l.chain, up)
	}
	above := map[string]string{}
	for i := range record {
		if e := &record[i]; e.Kind == agent.EventSession {
			above[e.Session] = agent.CallSession(e.Parent)
		}
	}
	for i := len(agents) - 1; i >= 0 && session != ""; i-- {
		l.within[session] = i
		session = above[session]
	}
	return l
}

// Note takes the event of the record with a number, from 1 on, in order.
func (l *Ledger) Note(number int64, e *agent.Event) {
	if !e.Kind.Lasting() {
		return
	}
	if e.Kind == agent.EventSession {
		l.parents[e.Session] = e.Parent
		up, ok := l.within[agent.CallSession(e.Parent)]
		if _, known := l.within[e.Session]; ok && !known {
			l.within[e.Session] = up
		}
	}
	l.last[e.Session] = number
	switch e.Kind {
	case agent.EventCallStarted, agent.EventCallEnded:
		l.last[e.Key] = number
	case agent.EventEnd:
		l.ended[e.Session] = number
	}
	for n := l.run(e.Session); n != nil; n = n.up {
		n.total.Note(e)
		if e.Usage != nil {
			n.account.note(*e.Usage)
		}
	}
}

// run returns the lowest run of the chain that a session belongs to; nil if there is none.
func (l *Ledger) run(session string) *node {
	if at, ok := l.within[session]; ok {
		return l.chain[at]
	}
	return nil
}

// Reserved takes an event of the list of reservations, in order.
func (l *Ledger) Reserved(e *agent.Event) { l.open[cmp.Or(e.Key, e.Session)] = *e }

// over reports whether an event has ended a reservation.
func (l *Ledger) over(e *agent.Event) bool {
	own := l.last[e.Session]
	if e.Key != "" {
		own = max(l.last[e.Key], l.ended[e.Session])
	}
	over := own > e.Seq
	for session := e.Session; !over && l.parents[session] != ""; session = agent.CallSession(l.parents[session]) {
		over = l.last[l.parents[session]] > e.Seq
	}
	return over
}

// Fits reports whether the reservation e fits beside all others. If it does not, it may fit
// after later events. An error wraps ErrBudget: a budget is spent.
func (l *Ledger) Fits(e *agent.Event) (bool, error) {
	for _, n := range l.chain {
		n.account.held, n.account.asking = amounts{}, 0
	}
	for id, held := range l.open {
		switch {
		case l.over(&held):
			delete(l.open, id)
		case id != cmp.Or(e.Key, e.Session):
			l.hold(&held)
		}
	}
	r := l.runOf(e)
	if e.Key != "" {
		left, of := r.left(true)
		if left[amountCalls] <= 0 {
			return false, of[amountCalls].spentError(amountCalls)
		}
		return true, nil
	}
	if err := r.spent(); err != nil {
		return false, err
	}
	return r.fits(e.Usage.InputTokens), nil
}

func (l *Ledger) runOf(e *agent.Event) *node {
	return cmp.Or(l.run(e.Session), l.chain[len(l.chain)-1])
}

func (l *Ledger) hold(e *agent.Event) {
	for n := l.runOf(e); n != nil; n = n.up {
		if e.Key != "" {
			n.account.held[amountCalls]++
		} else {
			n.account.hold(n.account.estimate(e.Usage.InputTokens), 1)
		}
	}
}

// Left returns what the run and those above have left, and the totals that those above
// permit to the run, including what it has consumed.
func (l *Ledger) Left() (left, total agent.Budget) {
	r := l.chain[len(l.chain)-1]
	now, _ := r.left(false)
	setAmounts(&left, now)
	if r.up != nil {
		above, _ := r.up.left(false)
		for kind, n := range consumed(&r.total) {
			if above[kind] != unlimited {
				above[kind] += n
			}
		}
		setAmounts(&total, above)
	}
	return left, total
}
