// Package anthropic talks to models over Anthropic's Messages protocol
// (https://platform.claude.com/docs/en/api/messages/create).
//
//	p := &anthropic.Provider{Settings: modelhttp.Settings{
//		Model: "claude-opus-5",
//		Key:   func() string { return secret },
//	}}
//	resp, err := p.Generate(ctx, &agent.Request{Messages: msgs}, func(agent.Delta) {})
//
// Unlike with Anthropic's compatible endpoint, the model keeps its thinking between the calls
// of a turn, and the server caches the conversation: a request sets cache breakpoints after
// the tools, the system prompt and the last two turns.
//
// A Provider makes one attempt; provider.Retry repeats it.
package anthropic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// URL is the base URL of Anthropic's own server.
const URL = "https://api.anthropic.com/v1"

const (
	host    = "api.anthropic.com"
	version = "2023-06-01" // of the protocol
	// maxPauses limits how often a paused turn is continued.
	maxPauses = 16
)

// A Provider is a model behind a Messages endpoint. It is safe for concurrent use if its
// fields do not change.
type Provider struct {
	// Settings say where the model is. An empty BaseURL means URL; /v1 is appended unless
	// BaseURL ends in it. ExtraBody cannot replace model, messages, system, tools and
	// stream; its cache_control replaces the cache breakpoints (null turns caching off).
	modelhttp.Settings
	// ContextTokens limits the tokens of a request and its answer together; 0 means
	// agent.DefaultContextTokens. Without MaxOutputTokens it determines max_tokens, which
	// the protocol requires.
	ContextTokens int
}

// Generate asks the model. A turn that the server pauses (pause_turn) is continued, and
// the answer is that of all requests together.
//
// A failure of the server, the connection or the answer is an *agent.ModelError;
// if ctx ends, it wraps ctx's error. A nil delta is allowed. When Generate returns,
// the response is closed.
//
// Rate limits (429), an overloaded server (529, also in the middle of an answer), other
// 5xx statuses, broken connections and incomplete answers are temporary. An answer is
// complete when the server sends a stop_reason.
func (p *Provider) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	if delta == nil {
		delta = func(agent.Delta) {}
	}
	if req.Pass != nil {
		return p.ask(ctx, req, &answer{emit: delta})
	}
	sum := &agent.Response{Message: agent.Message{Role: agent.RoleAssistant}}
	asked := req
	if outputSchema(modelOf(p.Model), req) == nil && p.ExtraBody["output_config"] == nil {
		asked = modelhttp.WithAnswerTool(req)
	}
	again := *asked
	for range maxPauses {
		resp, err := p.ask(ctx, &again, &answer{emit: delta, before: len(sum.Message.Parts)})
		if failed, ok := errors.AsType[*agent.ModelError](err); ok {
			failed.Usage = failed.Usage.Add(sum.Usage)
		}
		if err != nil {
			return nil, err
		}
		sum.Usage, sum.Finish, sum.Model = sum.Usage.Add(resp.Usage), resp.Finish, resp.Model
		sum.Message.Parts = append(sum.Message.Parts, resp.Message.Parts...)
		sum.Message.Calls = append(sum.Message.Calls, resp.Message.Calls...)
		if resp.Finish != finishPause {
			if asked != req {
				modelhttp.TakeAnswer(&sum.Message, delta)
			}
			return sum, nil
		}
		if req.Again != nil {
			if err := req.Again(sum.Usage); err != nil {
				return nil, &agent.ModelError{Message: err.Error(), Err: err, Usage: sum.Usage}
			}
		}
		again.Messages = append(slices.Clip(req.Messages), sum.Message)
	}
	return nil, &agent.ModelError{Message: fmt.Sprintf("the server paused one turn %d times", maxPauses), Usage: sum.Usage}
}

// Abilities implements agent.Able.
func (p *Provider) Abilities() []agent.Ability {
	return []agent.Ability{agent.AbilityTools, agent.AbilityImages, agent.AbilityDocuments, agent.AbilityThinking, agent.AbilityOutput}
}

// Passes implements agent.Passer.
func (p *Provider) Passes(protocol string) bool { return protocol == agent.ProtocolAnthropic }

// FitTool implements agent.ToolFitter.
func (p *Provider) FitTool(t agent.ToolSpec) (agent.ToolSpec, []string, error) {
	return modelhttp.RefusedByAnthropic.Fit(t)
}

// Models asks the server for the names of its models.
func (p *Provider) Models(ctx context.Context) ([]string, error) {
	x, err := p.open()
	if err != nil {
		return nil, err
	}
	return x.Models(ctx)
}

func (p *Provider) open() (*modelhttp.Exchange, error) {
	const path = "messages"
	x, err := modelhttp.Open(&p.Settings, URL, path)
	if err != nil {
		return nil, err
	}
	given, err := url.Parse(strings.TrimSpace(p.BaseURL))
	if err == nil && !strings.HasSuffix(strings.TrimRight(given.Path, "/"), "/"+path) && !strings.HasSuffix(x.URL.Path, "/v1") {
		x.URL = x.URL.JoinPath("v1")
	}
	x.KeyHeader, x.Header = "X-Api-Key", map[string]string{"anthropic-version": version}
	return x, nil
}

func (p *Provider) ask(ctx context.Context, req *agent.Request, a *answer) (*agent.Response, error) {
	x, err := p.open()
	if err != nil {
		return nil, err
	}
	x.Trace = req.Trace
	if req.Pass == nil && modelOf(p.Model).bindsThoughts() {
		x.Header["anthropic-beta"] = "thinking-binding-controls-2026-08-01"
	}
	if x.URL.Hostname() != host && p.Key != nil && p.Key() != "" {
		x.Header["Authorization"] = "Bearer " + p.Key() // other servers use one or the other
	}
	a.host = x.URL.Hostname()
	if req.Pass != nil {
		return x.Pass(ctx, req, a, false)
	}
	body, err := p.body(a.host, req)
	if err != nil {
		return nil, &agent.ModelError{Message: err.Error(), Err: err}
	}
	return x.Run(ctx, req, body, a)
}

// A model is what the name of a model reveals about it.
type model struct {
	claude  bool
	version int // 405 for 4.5; that of the first model 5 if the name has none
}

// modelOf reads names such as claude-sonnet-4-5-20250929, claude-3-7-sonnet-latest and
// anthropic/claude-opus-4.6.
func modelOf(name string) model {
	_, rest, ok := strings.Cut(strings.ToLower(name), "claude")
	if !ok {
		return model{}
	}
	words := strings.FieldsFunc(rest, func(r rune) bool { return r < '0' || r > '9' && r < 'a' || r > 'z' })
	for i, word := range words {
		major := modelhttp.Number([]byte(word))
		if major == 0 || major > 99 {
			continue
		}
		minor := 0
		if i+1 < len(words) {
			minor = modelhttp.Number([]byte(words[i+1]))
		}
		if minor > 99 { // a date
			minor = 0
		}
		return model{claude: true, version: major*100 + minor}
	}
	return model{claude: true, version: 500}
}

// adaptive reports whether the model decides how long it thinks, given an effort, and
// alwaysThinks whether it does so by default
// (https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking).
func (m model) adaptive() bool     { return m.claude && m.version >= 406 }
func (m model) alwaysThinks() bool { return m.claude && m.version >= 500 }

// bindsThoughts reports whether a block of thinking is valid only after the conversation that
// led to it (https://platform.claude.com/docs/en/build-with-claude/preserved-thinking).
func (m model) bindsThoughts() bool { return m.claude && m.version >= 501 }

// RefusesTemperature reports whether requests fail because of the temperature: models that
// think, and models after Claude Opus 4.6, accept only 1
// (https://platform.claude.com/docs/en/build-with-claude/extended-thinking). It does not check
// a temperature in ExtraBody.
func (p *Provider) RefusesTemperature() bool {
	m, effort := modelOf(p.Model), strings.ToLower(p.ReasoningEffort)
	_, replaced := p.ExtraBody["temperature"]
	thinks := effort != "none" && (effort != "" || m.alwaysThinks())
	if own, ok := p.ExtraBody["thinking"]; ok {
		kind := modelhttp.Str(modelhttp.ObjectOf(own).Get("type"))
		thinks = kind != "" && kind != "disabled"
	}
	return m.claude && p.Temperature != nil && *p.Temperature != 1 && !replaced && (thinks || m.version > 406)
}

// maxTokens returns the limit of an answer. The default is a quarter of the context, at most
// the model's own limit (https://platform.claude.com/docs/en/about-claude/models/overview).
func (p *Provider) maxTokens(m model) int {
	if p.MaxOutputTokens > 0 {
		return p.MaxOutputTokens
	}
	most := 16_000
	switch {
	case !m.claude:
	case m.version >= 406:
		most = 128_000
	case m.version >= 405:
		most = 64_000
	case m.version >= 307:
		most = 32_000
	case m.version >= 305:
		most = 8192
	default:
		most = 4096
	}
	return max(min(most, cmp.Or(p.ContextTokens, agent.DefaultContextTokens)/4), 1)
}
