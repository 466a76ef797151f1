package runner

import (
	"context"
	"errors"

	"github.com/agents-exe/agents/pkg/agent"
)

// priced returns u with its least cost.
func priced(p agent.Provider, u agent.Usage) agent.Usage {
	if pricer, ok := agent.As[agent.Pricer](p); ok {
		u.Cost = pricer.LeastCost(u)
	}
	return u
}

// interrupted returns err, of a request that p did not answer, with the least that the
// request cost if ctx ended it and p does not know.
func interrupted(ctx context.Context, p agent.Provider, req *agent.Request, err error) error {
	if _, ok := errors.AsType[*agent.ModelError](err); ok || ctx.Err() == nil {
		return err
	}
	return &agent.ModelError{Message: err.Error(), Err: err, Usage: priced(p, agent.EstimateUsage(req, nil))}
}

// reserved returns u, the usage of a request of unknown cost in a conversation of size tokens,
// with what budgets count for it beyond what is known: twice the largest request so far, or
// after a resume twice the average. r.tree.mu is held.
func (r *node) reserved(u agent.Usage, size int) agent.Usage {
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
		u.ReservedCost, u.ReservedTokens = max(agent.Money(e[amountUSD])-u.Cost, 0), max(int(e[amountOutput])-u.OutputTokens, 0)
		break
	}
	return u
}

// again is Request.Again: it returns an error if the attempts of a request so far have spent a
// budget.
func (r *node) again(consumed agent.Usage) error {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	return r.beyond(consumed)
}

// beyond returns an error if consumed, which no event has counted, spends a budget. r.tree.mu is
// held.
func (r *node) beyond(consumed agent.Usage) error {
	left, of := r.left(false)
	used := usageAmounts(consumed)
	for kind := range amountCalls {
		if n := of[kind]; n != nil && left[kind] <= used[kind] {
			return &budgetError{text: n.budgetName(kind) + " spent (" + n.figures(kind) + ", and " + amountText(kind, used[kind]) + " by attempts that failed)"}
		}
	}
	return nil
}

// usageOf is what a request consumed, as far as it is known.
func usageOf(resp *agent.Response, err error) (u agent.Usage) {
	if err != nil {
		if failed, ok := errors.AsType[*agent.ModelError](err); ok {
			u = failed.Usage
		}
		return u
	}
	u = resp.Usage
	u.Requests = max(u.Requests, 1)
	return u
}
