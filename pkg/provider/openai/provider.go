// Package openai talks to models over the chat completions protocol: OpenAI's,
// and that of everything which speaks it (Mistral, Kimi, xAI, OpenRouter, the
// compatible endpoints of Anthropic and Google, vLLM, llama.cpp, Ollama, LM
// Studio). A table of [Flavor]s says how requests differ; answers are read
// leniently from all servers.
//
//	p := &openai.Provider{
//		Flavor: openai.OpenAI,
//		Model:  "gpt-5",
//		Key:    func() string { return secret },
//	}
//	resp, err := p.Generate(ctx, &agent.Request{Messages: msgs}, func(agent.Delta) {})
//
// A Provider makes one attempt; a provider.Retry around it repeats. The library
// openai-go sends the requests, and this package reads the answers: the library
// refuses much of what servers other than OpenAI's send.
package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// The limits of a Provider, used where a field is 0.
const (
	DefaultRequestTimeout   = 10 * time.Minute
	DefaultIdleTimeout      = time.Minute
	DefaultEndTimeout       = 2 * time.Second
	DefaultMaxResponseBytes = 64 << 20
)

// A Provider is a model behind a chat completions endpoint. It is safe for
// concurrent use if its fields do not change.
type Provider struct {
	// Flavor is the kind of server; empty means Compatible. With OpenAI and
	// Compatible, which agent files use for everything that speaks the
	// protocol, a server is recognised by its host.
	Flavor Flavor
	// BaseURL is the URL to which /chat/completions is added, unless it ends
	// so. A query string is kept. Empty means the flavour's own.
	BaseURL string
	// Model is the name of the model as the server knows it.
	Model string
	// Key returns the key that is sent; nil, or an empty key, means none. It
	// is a function so that printing a Provider shows no key. The key is sent
	// to BaseURL's host only and never appears in an error.
	Key func() string
	// Temperature, MaxOutputTokens and ReasoningEffort are sent if set.
	Temperature     *float64
	MaxOutputTokens int
	ReasoningEffort string
	// ExtraBody holds further fields of the request body. They replace
	// fields of the same name, and null removes one; model, messages, tools and
	// stream cannot be replaced.
	ExtraBody map[string]json.RawMessage
	// RequestTimeout limits one request from its start to the end of its
	// answer; 0 means 10 minutes. Until the first piece of the answer it is
	// the only limit: servers think long, and some do not stream.
	RequestTimeout time.Duration
	// IdleTimeout limits the time without data within an answer, from its first
	// piece on; 0 means 60 seconds.
	IdleTimeout time.Duration
	// EndTimeout limits the wait for usage and [DONE] after the end of a complete
	// answer; 0 means 2 seconds. The answer counts without them.
	EndTimeout time.Duration
	// MaxResponseBytes limits an answer as it is sent, after decompression; 0
	// means 64 MiB.
	MaxResponseBytes int64
	// Client sends the requests; nil means one that all Providers share, with
	// the proxies of the environment. Its CheckRedirect is not used: only
	// redirects within the same host are followed.
	Client *http.Client
}

// Generate asks the model once. If the server (Groq) refuses a tool call because
// of how the model wrote it, the model is shown that call and asked once more,
// without a change to the conversation.
//
// A failure of the server, the connection or the answer is an *agent.ModelError;
// if ctx ends, the error is ctx's. A nil delta is allowed. When Generate returns,
// the response is closed.
//
// Temporary are: 408, 409, 429 (unless the quota is used up), 5xx, failing
// connections and timeouts, an answer that breaks off, and with status 200 an
// empty body, a page, an error object and an answer without choices. An answer
// is complete when the server gives a finish_reason, or, since some never do, when
// it sends [DONE] and no call is cut. Calls are never returned from an answer
// that is not complete.
func (p *Provider) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	if delta == nil {
		delta = func(agent.Delta) {}
	}
	resp, err := p.ask(ctx, req, delta)
	refused, ok := errors.AsType[*refusedCall](err)
	if !ok {
		return resp, err
	}
	delta(agent.Delta{Kind: agent.DeltaRetry, Text: err.Error(), Attempt: 1})
	again := *req
	again.Messages = append(slices.Clip(req.Messages),
		agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(refused.written)}},
		agent.UserText("This tool call was refused: "+err.Error()+" Write it again as the tool's schema requires, or answer without it."))
	return p.ask(ctx, &again, delta)
}

// ask makes one request.
func (p *Provider) ask(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	x, err := p.exchange()
	if err != nil {
		return nil, err
	}
	x.trace = req.Trace
	body, err := p.body(x.facts, req)
	if err != nil {
		return nil, &agent.ModelError{Message: err.Error(), Err: err}
	}
	resp, err := x.run(ctx, body, delta)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return resp, err
}
