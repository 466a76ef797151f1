// Package prices has the prices of models: a built-in table, the user's own table, and
// a provider that adds the cost to each answer.
//
//	own, err := prices.Parse(path, text) // nil without a file
//	m, ok := prices.Lookup(own, "api.openai.com", "gpt-5")
//	p := &prices.Provider{Provider: inner, Price: func() *prices.Price { return &m.Price }}
//
// A price belongs to a host and a model. A model of the same name on another host, such
// as a server on this machine, has no price. Requests without a price are unpriced, not
// free.
package prices
