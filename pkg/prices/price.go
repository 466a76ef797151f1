package prices

import (
	"context"
	"errors"
	"math/bits"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Price is what a million tokens cost.
type Price struct {
	Input agent.Money `json:"input"`
	// Cached is the price of input tokens that the server had cached; nil means Input.
	Cached *agent.Money `json:"cached,omitempty"`
	// CacheWrite is the price of input tokens that the server wrote to its cache; nil
	// means Input. Tokens that stay there for an hour cost twice as much as Input instead, as
	// Anthropic charges, unless CacheWrite is nil.
	CacheWrite *agent.Money `json:"cacheWrite,omitempty"`
	Output     agent.Money  `json:"output"`
	// Long, if not nil, is the price of requests with more than Over input tokens.
	Long *LongPrice `json:"long,omitempty"`
}

// A LongPrice is the price of long requests.
type LongPrice struct {
	Over int `json:"over"`
	Price
}

// Of returns the cost of one request, rounded to a unit of agent.Money. ok is false if
// the server reported no tokens.
func (p *Price) Of(u agent.Usage) (cost agent.Money, ok bool) {
	if u.InputTokens <= 0 && u.OutputTokens <= 0 {
		return 0, false
	}
	if p.Long != nil && u.InputTokens > p.Long.Over {
		return p.Long.Of(u)
	}
	cached, written, hour := p.Input, p.Input, p.Input
	if p.Cached != nil {
		cached = *p.Cached
	}
	if p.CacheWrite != nil {
		written, hour = *p.CacheWrite, 2*p.Input
	}
	hits := min(max(u.CachedTokens, 0), u.InputTokens)
	writes := min(max(u.CacheWriteTokens, 0), u.InputTokens-hits)
	var sum wide
	sum.add(u.InputTokens-hits-writes, p.Input)
	sum.add(hits, cached)
	long := min(max(u.CacheHourTokens, 0), writes)
	sum.add(writes-long, written)
	sum.add(long, hour)
	sum.add(u.OutputTokens, p.Output)
	return sum.millionth(), true
}

// A wide is a sum of products that need more than 64 bits.
type wide struct{ high, low uint64 }

func (w *wide) add(tokens int, price agent.Money) {
	high, low := bits.Mul64(uint64(max(tokens, 0)), uint64(max(price, 0)))
	var carry uint64
	w.low, carry = bits.Add64(w.low, low, 0)
	w.high, _ = bits.Add64(w.high, high, carry)
}

// millionth divides by a million, rounded. It is at most a million dollars.
func (w *wide) millionth() agent.Money {
	const million, limit = 1e6, 1e6 * agent.Dollar
	low, carry := bits.Add64(w.low, million/2, 0)
	if w.high+carry >= million {
		return limit
	}
	n, _ := bits.Div64(w.high+carry, low, million)
	return agent.Money(min(n, uint64(limit)))
}

// A Provider adds the cost to the usage of answers and failed requests, if the server
// did not report it. For a failed request whose tokens are an estimate, the cost is the least
// that it can be, and the request stays unpriced. It is safe for concurrent use if the inner Provider is.
type Provider struct {
	agent.Provider
	// Price is called when a usage without a cost arrives; it returns nil if the price
	// of the model is not known.
	Price func() *Price
	// Public returns the price that others may know, which is in the built-in table, or nil. If
	// Public is nil, others learn no price.
	Public func() *Price
}

// PublicPrice implements agent.Priced.
func (p *Provider) PublicPrice() *agent.LoanPrice {
	if p.Public == nil {
		return nil
	}
	price := p.Public()
	if price == nil {
		return nil
	}
	return &agent.LoanPrice{Input: price.Input, Cached: price.Cached, CacheWrite: price.CacheWrite, Output: price.Output}
}

// Generate calls the inner provider. A cost that the server reports is kept.
func (p *Provider) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	resp, err := p.Provider.Generate(ctx, req, delta)
	if err == nil {
		p.charge(&resp.Usage)
		return resp, nil
	}
	failed, ok := errors.AsType[*agent.ModelError](err)
	switch {
	case !ok || failed.Usage.Priced > 0:
	case failed.Usage.Estimated > 0: // it may have cost more
		failed.Usage.Cost = p.LeastCost(failed.Usage)
	default:
		p.charge(&failed.Usage)
	}
	return resp, err
}

// LeastCost implements agent.Pricer.
func (p *Provider) LeastCost(u agent.Usage) agent.Money {
	if price := p.Price(); price != nil {
		cost, _ := price.Of(u)
		return cost
	}
	return 0
}

// Unwrap returns the inner provider: see agent.As.
func (p *Provider) Unwrap() any { return p.Provider }

func (p *Provider) charge(u *agent.Usage) {
	if u.Priced > 0 {
		return
	}
	if price := p.Price(); price != nil {
		if cost, ok := price.Of(*u); ok {
			u.Cost, u.Priced = cost, max(u.Requests, 1)
		}
	}
}
