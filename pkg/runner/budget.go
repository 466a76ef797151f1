package runner

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// Budgets. Each run has an account with the limits of its agent's Budget and, at the
// root, of the Lease. A request or a call is made only if something is left of every
// amount in the accounts of its run and of all runs above. What was consumed is the
// TotalUsage of the run: it includes all sub-agents, and comes from the journal after
// a resume.
//
// Requests that run at the same time each reserve an estimate, so that together they
// exceed a budget by at most one answer. The estimate is twice the largest request so
// far, scaled to the size of the conversation; an answer that is larger than its
// estimate can exceed the budget further. Until one request has been answered, only
// one runs at a time. A request that does not fit beside those in progress waits for
// them. These wait only for the model, so there is no deadlock. An agent in another
// process reserves at its caller too; see askAbove.

// The amounts that requests and calls consume.
const (
	amountUSD = iota
	amountInput
	amountOutput
	amountTurns
	amountCalls
	amountKinds
)

// amounts holds one number for each of them, or unlimited.
type amounts [amountKinds]int64

const unlimited = math.MaxInt64

// limited reports whether at least one amount is limited.
func limited(list []int64) bool {
	return slices.ContainsFunc(list, func(n int64) bool { return n != unlimited })
}

func amountName(kind int) string {
	return [...]string{"usd", "inputTokens", "outputTokens", "turns", "calls"}[kind]
}

// amountText writes an amount as messages show it: dollars with at least two decimals.
func amountText(kind int, n int64) string {
	if kind != amountUSD {
		return strconv.FormatInt(n, 10)
	}
	return agent.Money(n).Dollars()
}

func limitsOf(b *agent.Budget) amounts {
	limits := amounts{unlimited, unlimited, unlimited, unlimited, unlimited}
	if b.USD != nil {
		limits[amountUSD] = int64(*b.USD)
	}
	for i, n := range [...]*int64{b.InputTokens, b.OutputTokens, b.Turns, b.Calls} {
		if n != nil {
			limits[amountInput+i] = *n
		}
	}
	return limits
}

func setAmounts(b *agent.Budget, a amounts) {
	set := func(kind int) *int64 {
		if a[kind] == unlimited {
			return nil
		}
		n := max(a[kind], 0)
		return &n
	}
	b.USD = (*agent.Money)(set(amountUSD))
	b.InputTokens, b.OutputTokens = set(amountInput), set(amountOutput)
	b.Turns, b.Calls = set(amountTurns), set(amountCalls)
}

func consumed(total *agent.TotalUsage) amounts {
	a := usageAmounts(total.Usage)
	a[amountCalls] = int64(total.Calls)
	return a
}

// usageAmounts are the amounts of requests alone.
func usageAmounts(u agent.Usage) amounts {
	return amounts{int64(u.Cost + u.ReservedCost), int64(u.InputTokens), int64(u.OutputTokens + u.ReservedTokens), int64(u.Requests)}
}

// An account is what one run, with all agents below it, may consume. tree.mu guards
// the fields that change.
type account struct {
	limit  amounts
	leased [amountKinds]bool // the limit comes from a caller in another process
	within bool              // at least one amount is limited; it does not change

	// base is what the run could consume when it began, including what it had consumed
	// by then: the least of its own limits and of what the runs above had left.
	base    amounts
	held    amounts // reserved
	asking  int     // requests in progress
	largest amounts // of one request; zero until one was answered
	known   bool    // largest is known
	lent    bool    // and has requests of programs, which may ask another model than the agents

	timed        time.Duration // the wall time that the run may take; 0 is not limited
	began, until time.Time     // of the wall time
	ends         time.Time     // the earliest deadline that the run itself sets
	late         error         // the error at that deadline; nil if there is none
}

// openAccount sets the limits of a run, and notes what is left when it begins.
// r.tree.mu is held.
func (r *node) openAccount() {
	var lease *agent.Lease
	if r.up == nil {
		lease = &r.tree.lease
	}
	a := &r.account
	*a = account{limit: limitsOf(&r.agent.Budget)}
	if d, ok := r.agent.Budget.Time(); ok {
		a.timed = max(d, 1)
	}
	if lease != nil {
		had := consumed(&r.total)
		for kind, n := range limitsOf(&lease.Budget) {
			if n == unlimited {
				continue
			}
			if len(lease.Path) > 0 { // the limit is what the caller has left now
				n += had[kind]
			}
			if n < a.limit[kind] {
				a.limit[kind], a.leased[kind] = n, len(lease.Path) > 0
			}
		}
		if d, ok := lease.Time(); ok && (a.timed == 0 || d < a.timed) {
			a.timed = max(d, 1)
		}
	}
	a.within = limited(a.limit[:])
	a.base, _ = r.left(false)
	for kind, n := range consumed(&r.total) {
		if a.base[kind] != unlimited {
			a.base[kind] += n
		}
	}
}

// left returns the least that r and the runs above have left of each amount, and the run
// that has the least. With held, reserved amounts count as consumed. r.tree.mu is held.
func (r *node) left(held bool) (left amounts, of [amountKinds]*node) {
	left = amounts{unlimited, unlimited, unlimited, unlimited, unlimited}
	for n := r; n != nil; n = n.up {
		if !n.account.within {
			continue
		}
		used := consumed(&n.total)
		for kind, limit := range n.account.limit {
			if limit == unlimited {
				continue
			}
			rest := limit - used[kind]
			if held {
				rest -= n.account.held[kind]
			}
			if rest < left[kind] {
				left[kind], of[kind] = rest, n
			}
		}
	}
	return left, of
}

// budgeted reports whether r or a run above has limited amounts.
func (r *node) budgeted() bool {
	for n := r; n != nil; n = n.up {
		if n.account.within {
			return true
		}
	}
	return false
}

// spent returns an error if nothing is left of an amount that a request of r needs: any
// amount but calls. r.tree.mu is held.
func (r *node) spent() error {
	left, of := r.left(false)
	for kind := range amountCalls {
		if left[kind] <= 0 {
			return of[kind].spentError(kind)
		}
	}
	return nil
}

// spentError returns the error for a budget of r that is spent.
func (r *node) spentError(kind int) error {
	return &budgetError{text: r.budgetName(kind) + " spent (" + r.figures(kind) + ")"}
}

// budgetName names a budget of r and its agent, as "budget usd 2.00 of agent a".
func (r *node) budgetName(kind int) string {
	name := "budget " + amountName(kind) + " " + amountText(kind, r.account.limit[kind]) + " of agent " + r.agent.Slug
	if path := r.tree.lease.Path; r.account.leased[kind] {
		name += ", from its caller " + path[len(path)-1] + ","
	}
	return name
}

// figures is the text for what r consumed, with the number of its sub-agents.
func (r *node) figures(kind int) string {
	text := amountText(kind, consumed(&r.total)[kind])
	u := r.total.Usage
	if kind == amountUSD && u.Unpriced() > 0 {
		text += fmt.Sprintf(" + %d unpriced", u.Unpriced())
	}
	if reserved := (amounts{amountUSD: int64(u.ReservedCost), amountOutput: int64(u.ReservedTokens)})[kind]; reserved > 0 {
		text += ", " + amountText(kind, reserved) + " of it reserved,"
	}
	others := len(r.total.Agents)
	if _, own := r.total.Agents[r.agent.Slug]; own {
		others--
	}
	switch {
	case others == 1:
		text += " with 1 sub-agent"
	case others > 1:
		text += fmt.Sprintf(" with %d sub-agents", others)
	}
	return text
}

// A budgetError is ErrBudget with a text of its own. If time is set, it is also
// context.DeadlineExceeded.
type budgetError struct {
	text string
	time bool
}

func (e *budgetError) Error() string { return e.text }

// Is makes errors.Is find ErrBudget, and context.DeadlineExceeded.
func (e *budgetError) Is(target error) bool {
	return target == agent.ErrBudget || e.time && target == context.DeadlineExceeded
}

// reserveRequest waits until a request fits the budgets, and reserves its estimate.
// settle releases the reservation; it is called once, when total includes what was
// consumed, with a zero usage if that is not known. The error wraps ErrBudget, or is a
// *NearlySpent. step is the step for which the session needs the request.
func (r *run) reserveRequest(ctx context.Context, step agent.Step) (settle func(usage agent.Usage), err error) {
	if !r.budgeted() || r.agent.Free {
		return settleNothing, r.closingTime(step)
	}
	t := r.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	check := func() error { return cmp.Or(r.spent(), r.closing(step)) }
	release, err := r.reserve(ctx, agent.Event{Session: r.session.ID, Agent: r.agent.Slug, Parent: r.parent, Depth: r.depth}, check)
	if err != nil {
		return nil, err
	}
	return func(usage agent.Usage) {
		unpriced, warn := false, ""
		t.mu.Lock()
		release()
		for n := &r.node; n != nil; n = n.up {
			n.account.note(usage)
			n.account.lent = n.account.lent || r.program && usage != (agent.Usage{})
			unpriced = unpriced || usage.Unpriced() > 0 && usage.Cost == 0 && n.account.limit[amountUSD] != unlimited
		}
		model, _ := r.model(r.session.Fallback)
		if model = cmp.Or(model, r.session.Fallback); unpriced && !t.unpriced[model] {
			if t.unpriced == nil {
				t.unpriced = map[string]bool{}
			}
			t.unpriced[model] = true
			warn = "budget usd cannot be enforced for model " + model + ": its price is unknown"
		}
		t.mu.Unlock()
		if warn != "" {
			r.warn(warn)
		}
	}, nil
}

// reserve waits until a request of r fits, and reserves its estimate in the accounts of r and
// of all runs above, also in other processes, for which e names the session. check is called
// before each wait, and at the end; its error ends them. r.tree.mu is held, but not while
// reserve waits; it must be held for release too.
func (r *node) reserve(ctx context.Context, e agent.Event, check func() error) (release func(), err error) {
	t, size := r.tree, r.session.Size()
	for {
		if err := check(); err != nil {
			return nil, err
		}
		if r.fits(size) {
			break
		}
		if t.settled == nil {
			t.settled = make(chan struct{})
		}
		settled := t.settled
		t.mu.Unlock()
		select {
		case <-settled:
		case <-ctx.Done():
		}
		t.mu.Lock()
		if ctx.Err() != nil {
			return nil, agent.ContextError(ctx)
		}
	}
	var estimates []amounts
	for n := r; n != nil; n = n.up {
		e := n.account.estimate(size)
		estimates = append(estimates, e)
		n.account.hold(e, 1)
	}
	release = func() {
		for n, i := r, 0; n != nil; n, i = n.up, i+1 {
			n.account.hold(estimates[i], -1)
		}
		t.wake()
	}
	if err := cmp.Or(r.askAbove(ctx, e), check()); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// fits reports whether a request of a conversation of size tokens fits beside those in
// progress. r.tree.mu is held.
func (r *node) fits(size int) bool {
	for n := r; n != nil; n = n.up {
		a := &n.account
		if !a.within || a.asking == 0 {
			continue
		}
		if !a.known || r.program && !a.lent {
			return false
		}
		used, estimate := consumed(&n.total), a.estimate(size)
		for kind := range amountCalls {
			if a.limit[kind] != unlimited && used[kind]+a.held[kind]+estimate[kind] > a.limit[kind] {
				return false
			}
		}
	}
	return true
}

// estimate is what a reserves for a request of a conversation of size tokens.
func (a *account) estimate(size int) amounts {
	e := amounts{amountTurns: 1}
	if !a.within || !a.known {
		return e
	}
	factor := 2.0
	if largest := float64(a.largest[amountInput]); largest > 0 && float64(size) > largest {
		factor *= float64(size) / largest
	}
	for kind := range amountTurns {
		e[kind] = int64(min(factor*float64(a.largest[kind]), 1<<50))
	}
	e[amountOutput] = 2 * a.largest[amountOutput]
	return e
}

// hold reserves e for a request, or with sign -1 releases it.
func (a *account) hold(e amounts, sign int64) {
	a.asking += int(sign)
	for kind := range e {
		a.held[kind] += sign * e[kind]
	}
}

// note records the size of an answered request.
func (a *account) note(usage agent.Usage) {
	if usage == (agent.Usage{}) {
		return
	}
	a.known = true
	usage.ReservedCost, usage.ReservedTokens = 0, 0
	for kind, n := range usageAmounts(usage) {
		a.largest[kind] = max(a.largest[kind], n)
	}
}

// wake makes requests that wait for others check again whether they fit. t.mu is held.
func (t *tree) wake() {
	if t.settled != nil {
		close(t.settled)
		t.settled = nil
	}
}

// reserveCall reserves one call in the accounts of r and of all runs above, until the
// call is recorded as started.
func (r *run) reserveCall(ctx context.Context, inv *agent.Invocation) (settle func(), err error) {
	t := r.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := r.admit(inv.Key); err != nil {
		return nil, err
	}
	e := inv.Event(agent.EventQuestion)
	if err := r.askAbove(ctx, agent.Event{Session: e.Session, Agent: e.Agent, Parent: e.Parent, Depth: e.Depth, Key: inv.Key}); err != nil {
		r.callCounted(inv.Key)
		return nil, err
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		r.callCounted(inv.Key)
	}, nil
}

// admit reserves the call with a key. r.tree.mu is held.
func (r *node) admit(key string) error {
	t := r.tree
	if left, of := r.left(true); left[amountCalls] <= 0 {
		return of[amountCalls].spentError(amountCalls)
	}
	for n := r; n != nil; n = n.up {
		n.account.held[amountCalls]++
	}
	if t.admitted == nil {
		t.admitted = map[string]bool{}
	}
	t.admitted[key] = true
	return nil
}

// callCounted releases the reservation of a call that is in the total because it has
// started, or that will not start. t.mu is held.
func (r *node) callCounted(key string) {
	if !r.tree.admitted[key] {
		return
	}
	delete(r.tree.admitted, key)
	for n := r; n != nil; n = n.up {
		n.account.held[amountCalls]--
	}
}

// reserver is the Reserver of the tree's Gate: the budgets, then next, which may be nil.
func (t *tree) reserver(next Reserver) Reserver {
	if next == nil {
		next = func(context.Context, Need) (func(agent.Usage), error) { return settleNothing, nil }
	}
	return func(ctx context.Context, n Need) (func(agent.Usage), error) {
		if c := callOf(n.Call); c != nil {
			if n.Call.Spec.Channel > 0 && c.run.levels() < 1 { // the process would send a request before it tells us its depth
				_, err := agent.AnswerOf(&agent.Outcome{Agent: n.Call.Spec.Name}, c.run.errDepth())
				return nil, err
			}
			if c.run.budgeted() {
				return c.run.reserveBoth(ctx, n, next)
			}
		}
		return next(ctx, n)
	}
}

func settleNothing(agent.Usage) {}

// reserveBoth reserves a call in the budgets above r, and with next.
func (r *run) reserveBoth(ctx context.Context, n Need, next Reserver) (func(agent.Usage), error) {
	settle, err := r.reserveCall(ctx, n.Call)
	if err != nil {
		return nil, err
	}
	settleNext, err := next(ctx, n)
	if err != nil {
		settle()
		return nil, err
	}
	return func(u agent.Usage) { settle(); settleNext(u) }, nil
}

// maxProcesses is how many calls may run at the same time in the tree of r.
func maxProcesses(r *Runner) int {
	n := cmp.Or(r.MaxProcesses, agent.DefaultMaxProcesses)
	if p := r.Lease.Processes; p != nil {
		n = min(n, max(*p, 1))
	}
	return n
}
