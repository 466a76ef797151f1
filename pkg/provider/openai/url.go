package openai

// URL is the base URL of the flavour's own servers; empty if it has none.
func (f Flavor) URL() string { return factsOf(f).url }
