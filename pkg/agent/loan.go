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
	// Can lists what the lender passes on to the model's server unchanged; nil means unknown.
	Can []Ability `json:"can,omitempty"`
	// Price is the model's price in a public list; nil means unknown.
	Price *LoanPrice `json:"price,omitempty"`
	// Provider answers the requests. With nil, the model is one that was lent to the lender
	// under this name.
	Provider Provider `json:"-"`
	// Implied means that no "lend" key names the model: it is lent by default, and not to agents
	// on servers.
	Implied bool `json:"-"`
}

// An Ability is a kind of content that a model's server accepts or returns.
type Ability string

// The abilities.
const (
	AbilityTools     Ability = "tools"     // tool calls, also in parallel
	AbilityImages    Ability = "images"    // in messages and results, like the next two
	AbilityDocuments Ability = "documents" // PDFs
	AbilityAudio     Ability = "audio"
	AbilityThinking  Ability = "thinking" // the model's reasoning is kept between turns
	AbilityOutput    Ability = "output"   // a schema for the answer
)

// An Able is a Provider that knows the abilities of its model. For media, they say which types the
// server accepts; not every model can read them.
type Able interface{ Abilities() []Ability }

// A LoanPrice is the price of a million tokens, in dollars. If Cached or CacheWrite is nil, the
// price is Input.
type LoanPrice struct {
	Input      Money  `json:"input"`
	Cached     *Money `json:"cached,omitempty"`
	CacheWrite *Money `json:"cacheWrite,omitempty"`
	Output     Money  `json:"output"`
}

// A Priced is a Provider that knows its model's price in a public list; PublicPrice returns nil if
// there is none.
type Priced interface{ PublicPrice() *LoanPrice }

// Described returns l with the abilities and price that its Provider knows.
func (l Loan) Described() Loan {
	if able, ok := As[Able](l.Provider); ok {
		l.Can = able.Abilities()
	}
	if priced, ok := As[Priced](l.Provider); ok {
		l.Price = priced.PublicPrice()
	}
	return l
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
