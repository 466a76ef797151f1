package runner

import (
	"fmt"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// The model is asked for its answer (agent.NearlySpent) when at most a fifth of an amount is left. If less than a tenth is left,
// it happens only if the rest is enough for two requests as large as the largest so
// far. An answer needs no calls, so a budget of calls can be used completely.

// closing returns a *NearlySpent if the model must answer now, otherwise nil; step is
// what the session needs. r.tree.mu is held.
func (r *run) closing(step agent.Step) error {
	if step.Kind != agent.StepModel || r.session.Closing != "" || r.program {
		return nil
	}
	left, of := r.left(false)
	least, found := 2.0, -1
	for kind, n := range left {
		base := r.account.base[kind]
		if n == unlimited || base == unlimited || base <= 0 || !r.low(kind, n, base) {
			continue
		}
		if part := float64(n) / float64(base); part < least {
			least, found = part, kind
		}
	}
	if found >= 0 {
		n, spent := of[found], " is nearly spent ("
		if left[found] <= 0 {
			spent = " spent ("
		}
		return &agent.NearlySpent{
			Reason: n.budgetName(found) + spent + n.figures(found) + ")",
			Text:   fmt.Sprintf(closingText, amountName(found), amountText(found, max(left[found], 0)), amountText(found, r.account.base[found])),
		}
	}
	return r.closingTime(step)
}

// low reports whether so little of an amount is left that the model must answer now.
func (r *run) low(kind int, left, base int64) bool {
	switch {
	case kind == amountCalls:
		return left <= 0
	case kind == amountTurns && left == 1:
		return true
	}
	a := &r.account
	return left <= base/5 && (left >= base/10 || a.known && left/2 >= a.largest[kind])
}

// closingTime does the same as closing for the wall time.
func (r *run) closingTime(step agent.Step) error {
	if step.Kind != agent.StepModel || r.session.Closing != "" || r.program {
		return nil
	}
	var by *node
	for n := &r.node; n != nil; n = n.up {
		if !n.account.until.IsZero() && (by == nil || n.account.until.Before(by.account.until)) {
			by = n
		}
	}
	if by == nil {
		return nil
	}
	whole, left := by.account.until.Sub(r.account.began), time.Until(by.account.until)
	if left > whole/5 || left < whole/10 {
		return nil
	}
	return &agent.NearlySpent{
		Reason: fmt.Sprintf("%s is nearly spent", by.timeName()),
		Text:   fmt.Sprintf(closingText, "seconds", fmt.Sprintf("%.0f", left.Seconds()), fmt.Sprintf("%.0f", whole.Seconds())),
	}
}

const closingText = `[The budget of this run is nearly spent: %s %s of %s left. Give your best answer now, with what you have, and say what is missing. Call no tool: no further call is run.]`
