package agent

import (
	"context"
	"errors"
)

// Requests without an answer: the run was interrupted, or its process killed, before the
// usage was known. The event of such a request has an estimate of its input and the price of
// it, which is the least that the request cost, and is not counted in Usage.Priced. Budgets
// also count what the request may have cost beyond that, in Usage.ReservedCost and
// Usage.ReservedTokens.

// A Pricer is a Provider that knows prices.
type Pricer interface {
	// LeastCost returns what the tokens in u cost at least, and 0 if that is not known.
	LeastCost(u Usage) Money
}

// OrEstimate returns u, or if it has no tokens, an estimate of them: for a Provider whose
// server, or program, need not report any. answer is what was answered; nil is nothing.
func (u Usage) OrEstimate(req *Request, answer *Message) Usage {
	u.Requests = max(u.Requests, 1)
	if u.InputTokens > 0 || u.OutputTokens > 0 {
		return u
	}
	e := EstimateUsage(req, answer)
	u.InputTokens, u.OutputTokens, u.Estimated = e.InputTokens, e.OutputTokens, u.Requests
	return u
}

// priced returns u with its least cost.
func priced(p Provider, u Usage) Usage {
	if pricer, ok := As[Pricer](p); ok {
		u.Cost = pricer.LeastCost(u)
	}
	return u
}

// interrupted returns err, of a request that p did not answer, with the least that the
// request cost if ctx ended it and p does not know.
func interrupted(ctx context.Context, p Provider, req *Request, err error) error {
	if _, ok := errors.AsType[*ModelError](err); ok || ctx.Err() == nil {
		return err
	}
	return &ModelError{Message: err.Error(), Err: err, Usage: priced(p, EstimateUsage(req, nil))}
}

// Unanswered returns the usage, without a cost, of the request for which the session waited when
// its process ended. It is zero if the session did not wait for one.
func (s *Session) Unanswered() Usage {
	if !s.Running || s.Failure != nil || s.Setup.Digest == "" { // a setup precedes the first request
		return Usage{}
	}
	step := s.Next()
	if step.Kind != StepModel && step.Kind != StepSummary {
		return Usage{}
	}
	return EstimateUsage(&Request{System: s.Setup.System, Messages: step.Messages}, nil)
}

// reserved returns u, the usage of a request of unknown cost in a conversation of size tokens,
// with what budgets count for it beyond what is known: twice the largest request so far, or
// after a resume twice the average. r.tree.mu is held.
func (r *run) reserved(u Usage, size int) Usage {
	for n := r; n != nil; n = n.up {
		a, had := n.account, n.total.Usage
		if !a.within || !a.known && had.Requests == 0 {
			continue
		}
		if !a.known {
			a.known = true
			a.largest[amountUSD], a.largest[amountOutput] = int64(had.Cost)/int64(had.Requests), int64(had.OutputTokens/had.Requests)
		}
		e := a.estimate(size)
		u.ReservedCost, u.ReservedTokens = max(Money(e[amountUSD])-u.Cost, 0), max(int(e[amountOutput])-u.OutputTokens, 0)
		break
	}
	return u
}

// again is Request.Again: it returns an error if the attempts of a request so far have spent a
// budget.
func (r *run) again(consumed Usage) error {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	left, of := r.left(false)
	used := usageAmounts(consumed)
	for kind := range amountCalls {
		if n := of[kind]; n != nil && left[kind] <= used[kind] {
			return &budgetError{text: n.budgetName(kind) + " spent (" + n.figures(kind) + ", and " + amountText(kind, used[kind]) + " by attempts that failed)"}
		}
	}
	return nil
}
