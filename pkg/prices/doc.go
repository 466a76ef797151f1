// Package prices holds what models cost: a table that is part of the program, one
// that a person writes, and a provider that adds the cost to each answer.
//
//	own, err := prices.Parse(path, text) // nil without a file
//	m, ok := prices.Lookup(own, "api.openai.com", "gpt-5")
//	p := &prices.Provider{Provider: inner, Price: func() *prices.Price { return &m.Price }}
//
// A price belongs to a host and a model. A model of the same name at another host, such
// as a server on this machine, has no price, and what has no price is not free: its
// requests stay unpriced.
package prices
