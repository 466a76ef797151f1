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
	// Can is what the lender passes on to the model's server as it is; nil means that this is not
	// known.
	Can []Ability `json:"can,omitempty"`
	// Price is what the model costs by a public list; nil means that this is not known.
	Price *LoanPrice `json:"price,omitempty"`
	// Provider answers the requests. With nil, the model is one that was lent to the lender
	// under this name.
	Provider Provider `json:"-"`
	// Implied means that no "lend" key names the model: it is lent by default, and not to agents
	// on servers.
	Implied bool `json:"-"`
}

// An Ability is something that a model's server takes or returns.
type Ability string

// The abilities.
const (
	AbilityTools     Ability = "tools"     // calls, in parallel too
	AbilityImages    Ability = "images"    // in messages and results; so are the next two
	AbilityDocuments Ability = "documents" // PDFs
	AbilityAudio     Ability = "audio"
	AbilityThinking  Ability = "thinking" // the model's reasoning is kept between turns
	AbilityOutput    Ability = "output"   // a schema for the answer
)

// An Able is a Provider that knows abilities of its model. Of media the server takes the type;
// not every model can read it.
type Able interface{ Abilities() []Ability }

// A LoanPrice is the price of a million tokens. A nil price means Input.
type LoanPrice struct {
	Input      Money  `json:"input"`
	Cached     *Money `json:"cached,omitempty"`
	CacheWrite *Money `json:"cacheWrite,omitempty"`
	Output     Money  `json:"output"`
}

// A Priced is a Provider that knows what its model costs by a public list; nil if it does not.
type Priced interface{ PublicPrice() *LoanPrice }

// Described returns l with what its Provider knows of the model.
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
