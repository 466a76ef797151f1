package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agents-exe/agents/pkg/agent"
)

// Budgets across processes. If the amounts of a Lease are Shared, the agent asks its caller
// before each model request and each call, with a question "budget". The caller makes the
// same reservation as for an agent in its own process, asks its own caller if its lease is
// shared too, and replies. So each budget of the tree is checked in one process, from the
// bottom up, and a request waits only for requests that have all their reservations. The
// next event of the session that asked, or of the call, ends the reservation.

// A budgetReply answers a question "budget".
type budgetReply struct {
	// Limits are the totals that the agent and all agents below it may consume, including
	// what they have consumed already. They can only shrink.
	Limits *agent.Budget `json:"limits,omitempty"`
	// Error names the budget that is spent.
	Error string `json:"error,omitempty"`
}

// askAbove asks the caller in another process for a reservation, if the amounts that it
// limits are shared. e names the session; its Key is the key of a call, empty for a model
// request. r.tree.mu is held, but not while askAbove waits.
func (r *node) askAbove(ctx context.Context, e agent.Event) error {
	t := r.tree
	if t.reserveShared != nil {
		return r.askShared(ctx, e)
	}
	kinds := limitsOf(&t.lease.Budget)
	concerned := kinds[:amountCalls]
	if e.Key != "" {
		concerned = kinds[amountCalls:]
	}
	if !t.lease.Shared || t.caller == nil || !limited(concerned) {
		return nil
	}
	t.questions++
	e.Kind, e.What, e.Time = agent.EventQuestion, "budget", t.now()
	e.Question = fmt.Sprintf("%s.b%d", cmp.Or(e.Key, e.Session), t.questions)
	answer, err := func() (json.RawMessage, error) {
		t.mu.Unlock()
		defer t.mu.Lock() // it is unlocked again above, after a panic too
		return t.caller(ctx, e, nil)
	}()
	switch {
	case ctx.Err() != nil:
		return agent.ContextError(ctx)
	case err != nil:
		return fmt.Errorf("ask the caller what is left of its budget: %w", err)
	}
	var reply budgetReply
	if err := json.Unmarshal(answer, &reply); err != nil {
		return fmt.Errorf("ask the caller what is left of its budget: %w", err)
	}
	if reply.Error != "" {
		return &budgetError{text: reply.Error}
	}
	if reply.Limits != nil {
		t.limit(reply.Limits)
	}
	return nil
}

// limit reduces the limits of the root to totals that its caller permits. t.mu is held.
func (t *tree) limit(totals *agent.Budget) {
	a := &t.root.account
	for kind, n := range limitsOf(totals) {
		if n < a.limit[kind] {
			a.limit[kind], a.leased[kind] = n, len(t.lease.Path) > 0 // within is true: the lease has limits
		}
	}
}

// askShared makes the reservation with Runner.Shared. r.tree.mu is held, but not while it
// waits.
func (r *node) askShared(ctx context.Context, e agent.Event) error {
	t := r.tree
	limits, _ := r.left(false)
	if e.Key == "" && !limited(limits[:amountCalls]) || e.Key != "" && limits[amountCalls] == unlimited {
		return nil
	}
	e.Kind, e.Time, e.Usage = EventReservation, t.now(), &agent.Usage{InputTokens: r.session.Size()}
	left, total, err := func() (agent.Budget, agent.Budget, error) {
		t.mu.Unlock()
		defer t.mu.Lock() // also for a panic: to unlock it twice would end the program
		return t.reserveShared(ctx, e)
	}()
	switch {
	case ctx.Err() != nil:
		return agent.ContextError(ctx)
	case err != nil:
		return err
	}
	t.left = left
	t.limit(&total)
	return nil
}

// answerBudget reserves a request, or a call, of an agent in another process.
func (r *run) answerBudget(ctx context.Context, inv *agent.Invocation, e agent.Event) (json.RawMessage, error) {
	t := r.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.remotes[e.Session]
	if s == nil || s.callKey != inv.Key || e.Key != "" && agent.CallSession(e.Key) != e.Session {
		return nil, agent.ErrChild
	}
	err := s.reserve(ctx, e)
	switch {
	case errors.Is(err, agent.ErrBudget):
		return json.Marshal(budgetReply{Error: err.Error()})
	case err != nil:
		return nil, err
	}
	top := &s.node
	for top.parent != inv.Key {
		top = top.up
	}
	left, _ := r.left(false)
	shared := limitsOf(&t.left)
	for kind, n := range consumed(&top.total) {
		if left[kind] = min(left[kind], shared[kind]); left[kind] != unlimited {
			left[kind] += n
		}
	}
	var limits agent.Budget
	setAmounts(&limits, left)
	return json.Marshal(budgetReply{Limits: &limits})
}

// errPassed: the agent did not wait for its reservation.
var errPassed = errors.New("the agent has continued")

// reserve makes the reservation that e asks for. n.tree.mu is held, but not while it waits.
func (n *remote) reserve(ctx context.Context, e agent.Event) error {
	t := n.tree
	e = agent.Event{Session: e.Session, Agent: n.session.Agent, Parent: n.session.Parent, Depth: n.session.Depth, Key: e.Key}
	if e.Key != "" {
		if t.admitted[e.Key] {
			return nil
		}
		if err := n.admit(e.Key); err != nil {
			return err
		}
		err := n.askAbove(ctx, e)
		if err != nil || t.remotes[e.Session] != n {
			n.callCounted(e.Key)
		}
		return err
	}
	if n.lending != nil {
		return fmt.Errorf("%w: it reserves a request while one is in progress", agent.ErrChild)
	}
	n.drop()
	begun := n.events
	release, err := n.node.reserve(ctx, e, func() error {
		if n.events != begun || !n.session.Running || t.remotes[e.Session] != n {
			return errPassed
		}
		return n.spent()
	})
	if err == nil {
		n.drop()
		n.release = release
	}
	return err
}

// drop ends the reservation for a request of n. The tree's mu is held.
func (n *remote) drop() {
	if n.release != nil {
		n.release()
		n.release = nil
	}
}

// settle ends the reservations that an event of n makes unnecessary. The tree's mu is held.
func (n *remote) settle(e *agent.Event) {
	n.events++
	if n.lending == nil {
		n.drop()
	}
	switch e.Kind {
	case agent.EventAnswer, agent.EventFailure, agent.EventCompaction, agent.EventResume:
		if e.Usage != nil {
			n.lent, n.served = agent.Usage{}, false
		}
	}
	if e.Kind == agent.EventCallStarted || e.Kind == agent.EventCallEnded {
		n.callCounted(e.Key)
	}
}

// unreserve ends all reservations of a session that has ended. t.mu is held.
func (t *tree) unreserve(n *remote) {
	n.drop()
	for key := range t.admitted {
		if agent.CallSession(key) == n.session.ID {
			n.callCounted(key)
		}
	}
}
