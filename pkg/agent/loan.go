package agent

import (
	"context"
	"errors"
)

// A Loan is a model that an agent lends to the agents below it, in this process or in others.
// Keys and connections stay with the lender: a request for the model goes up to it.
type Loan struct {
	// Name is what borrowers ask for. Model is what the model's server calls it, and Flavor the
	// kind of that server.
	Name   string `json:"name"`
	Model  string `json:"model,omitempty"`
	Flavor string `json:"flavor,omitempty"`
	// ContextTokens is how many tokens a request and its answer may have together; 0 means
	// 128,000.
	ContextTokens int `json:"contextTokens,omitempty"`
	// Provider answers the requests. With nil, the model is one that was lent to the lender
	// under this name.
	Provider Provider `json:"-"`
	// Implied means that no "lend" key names the model: it is lent by default, and not to agents
	// on servers.
	Implied bool `json:"-"`
}

// Borrowed is the Provider of an Agent that Borrows: it asks a model that an agent above lends.
type Borrowed struct {
	// Wish is the Name or the Model of a Loan. If none has it, or it is empty, the first one is
	// asked.
	Wish string
}

// ErrNoLoan: no agent above lends a model.
var ErrNoLoan = errors.New("the agent uses a model of its caller (flavor caller), and no agent above lends one")

// Generate asks Request.Borrow.
func (b Borrowed) Generate(ctx context.Context, req *Request, delta func(Delta)) (*Response, error) {
	if req.Borrow == nil {
		return nil, ErrNoLoan
	}
	return req.Borrow(ctx, b.Wish, req, delta)
}
