// Package openai talks to models over the chat completions protocol: OpenAI's,
// and that of everything which speaks it (Mistral, Kimi, xAI, OpenRouter, the
// compatible endpoints of Anthropic and Google, vLLM, llama.cpp, Ollama, LM
// Studio). How they differ is the table of [Flavor]s; how they misbehave is
// what reading an answer tolerates.
//
//	p := &openai.Provider{
//		Flavor: openai.OpenAI,
//		Model:  "gpt-5",
//		Key:    func() string { return secret },
//	}
//	resp, err := p.Generate(ctx, &agent.Request{Messages: msgs}, func(agent.Delta) {})
//
// A Provider makes one attempt; wrap it in a provider.Retry.
package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// The limits of a Provider, used where a field is 0.
const (
	DefaultRequestTimeout   = 10 * time.Minute
	DefaultIdleTimeout      = time.Minute
	DefaultMaxResponseBytes = 64 << 20
)

// A Provider is a model behind a chat completions endpoint. It is safe for
// concurrent use as long as nobody changes its fields.
type Provider struct {
	// Flavor is the kind of server; empty means Compatible. OpenAI at a host
	// that is not OpenAI's is read as what that host is known for, and as
	// Compatible if it is not known.
	Flavor Flavor
	// BaseURL is the URL to which /chat/completions is added, unless it ends
	// so. A query string is kept. Empty means the flavour's own.
	BaseURL string
	// Model is the name of the model as the server knows it.
	Model string
	// Key returns the key that is sent; nil, or an empty key, means none. It
	// is a function so that printing a Provider shows no key. The key goes to
	// BaseURL's host alone and never into an error.
	Key func() string
	// Temperature, MaxOutputTokens and ReasoningEffort are sent if set.
	Temperature     *float64
	MaxOutputTokens int
	ReasoningEffort string
	// ExtraBody holds further fields of the request body. A field that is
	// written anyway is replaced, and left out if the value is null; model,
	// messages, tools and stream cannot be.
	ExtraBody map[string]json.RawMessage
	// RequestTimeout limits one request from its start to the end of its
	// answer; 0 means 10 minutes. Slow servers think long before the first
	// word, and this is the only limit to that.
	RequestTimeout time.Duration
	// IdleTimeout limits the silence within an answer, from its first piece
	// on; 0 means 60 seconds.
	IdleTimeout time.Duration
	// MaxResponseBytes limits an answer as it is sent, after decompression; 0
	// means 64 MiB.
	MaxResponseBytes int64
	// Client sends the requests; nil means one that all Providers share, with
	// the proxies of the environment. Its CheckRedirect is not used: a
	// redirect is followed within the same host only.
	Client *http.Client
}

// Generate asks the model once. An error of the server, of the connection or of
// an answer that cannot be used is an *agent.ModelError; if ctx ends it is ctx's
// error.
func (p *Provider) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	return nil, errors.New("no model")
}
