// Package openai talks to models over the chat completions protocol of OpenAI and
// of all servers that support it (Mistral, Kimi, xAI, OpenRouter, the
// compatible endpoints of Anthropic and Google, vLLM, llama.cpp, Ollama, LM
// Studio). A table of [Flavor]s says how requests differ; answers are read
// leniently from all servers.
//
//	p := &openai.Provider{
//		Flavor:   openai.OpenAI,
//		Settings: modelhttp.Settings{Model: "gpt-5", Key: func() string { return secret }},
//	}
//	resp, err := p.Generate(ctx, &agent.Request{Messages: msgs}, func(agent.Delta) {})
//
// A Provider makes one attempt; a provider.Retry around it repeats.
package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// A Provider is a model behind a chat completions endpoint. It is safe for
// concurrent use if its fields do not change.
type Provider struct {
	// Flavor is the kind of server; empty means Compatible. With OpenAI and
	// Compatible, which agent files use for all servers of the protocol, a
	// server is recognized by its host.
	Flavor Flavor
	// Settings say where the model is; an empty BaseURL means the flavor's own. In
	// ExtraBody, model, messages, tools and stream cannot be replaced.
	modelhttp.Settings
}

// Generate asks the model once. If the server (Groq) refuses a tool call because
// of how the model wrote it, the model is shown that call and asked once more,
// without a change to the conversation.
//
// A failure of the server, the connection or the answer is an *agent.ModelError;
// if ctx ends, it wraps ctx's error. A nil delta is allowed. When Generate returns,
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
	refused, ok := errors.AsType[*modelhttp.RefusedCall](err)
	if !ok || req.Pass != nil {
		return resp, err
	}
	delta(agent.Delta{Kind: agent.DeltaRetry, Text: err.Error(), Attempt: 1})
	again := *req
	again.Messages = append(slices.Clip(req.Messages),
		agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(refused.Written)}},
		agent.UserText("This tool call was refused: "+err.Error()+" Write it again as the tool's schema requires, or answer without it."))
	return p.ask(ctx, &again, delta)
}

// Passes implements agent.Passer.
func (p *Provider) Passes(protocol string) bool { return protocol == agent.ProtocolChat }

// FitTool implements agent.ToolFitter.
func (p *Provider) FitTool(t agent.ToolSpec) (agent.ToolSpec, []string, error) {
	if f := p.facts(); f != nil {
		return f.refused.Fit(t)
	}
	return t, nil, nil
}

// Abilities implements agent.Able.
func (p *Provider) Abilities() []agent.Ability {
	f := p.facts()
	if f == nil {
		return nil
	}
	list := []agent.Ability{agent.AbilityTools, agent.AbilityImages, agent.AbilityDocuments, agent.AbilityAudio}
	if f.reasoning.name != "" || f.reasoning.details || f.extra {
		list = append(list, agent.AbilityThinking)
	}
	if f.output != outputNever {
		list = append(list, agent.AbilityOutput)
	}
	return list
}

// facts returns the facts about p's server, or nil if its address is not valid, which Generate
// reports.
func (p *Provider) facts() *facts {
	flavor, _ := ParseFlavor(string(cmp.Or(p.Flavor, Compatible)))
	u, err := url.Parse(cmp.Or(p.BaseURL, flavor.URL()))
	if err != nil {
		return nil
	}
	return factsAt(flavor, u)
}

// Models asks the server for the names of its models.
func (p *Provider) Models(ctx context.Context) ([]string, error) {
	_, x, err := p.open()
	if err != nil {
		return nil, err
	}
	return x.Models(ctx)
}

func (p *Provider) open() (Flavor, *modelhttp.Exchange, error) {
	flavor, err := ParseFlavor(string(cmp.Or(p.Flavor, Compatible)))
	if err != nil {
		return "", nil, &agent.ModelError{Message: err.Error()}
	}
	x, err := modelhttp.Open(&p.Settings, flavor.URL(), "chat/completions")
	return flavor, x, err
}

func (p *Provider) ask(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	flavor, x, err := p.open()
	if err != nil {
		return nil, err
	}
	x.Trace = req.Trace
	f := factsAt(flavor, x.URL)
	if req.Pass != nil {
		return x.Pass(ctx, req, &answer{emit: delta}, f.ask != nil && p.ExtraBody["stream_options"] == nil)
	}
	asked := req
	if p.ExtraBody["response_format"] == nil && (f.output == outputTool || f.output == outputAlone && len(req.Tools) > 0) {
		asked = modelhttp.WithAnswerTool(req)
	}
	body, err := p.body(f, asked)
	if err != nil {
		return nil, &agent.ModelError{Message: err.Error(), Err: err}
	}
	resp, err := x.Run(ctx, asked, body, &answer{emit: delta})
	if err == nil && asked != req {
		modelhttp.TakeAnswer(&resp.Message, delta)
	}
	return resp, err
}

// Fixed are the members that ExtraBody cannot replace: the rest of this package depends on
// them. The slice must not be changed.
var Fixed = []string{"model", "messages", "tools", "stream"}

// body is the body of a request. It is a function of the request and the
// Provider's fields only, so that a conversation which grows gives a body with the
// same beginning.
func (p *Provider) body(f *facts, req *agent.Request) ([]byte, error) {
	e := encoder{Writer: modelhttp.NewWriter(req, &p.Settings), f: f}
	e.Raw("stream", "true")
	e.settings(&p.Settings, req)
	if err := e.Extra(Fixed); err != nil {
		return nil, err
	}
	if err := e.Tools(req.Tools, modelhttp.ToolForm{Begin: `{"type":"function","function":{`, Schema: "parameters", End: "}}"}, f.refused); err != nil {
		return nil, err
	}
	e.List("messages")
	if req.System != "" {
		e.text("system", req.System)
	}
	for i := range req.Messages {
		if err := e.message(&req.Messages[i]); err != nil {
			return nil, err
		}
	}
	e.Close("]}")
	return e.B, nil
}

func (e *encoder) settings(s *modelhttp.Settings, req *agent.Request) {
	for _, field := range e.f.ask {
		e.Setting(field.name, field.value)
	}
	e.Limits(e.f.maxTokens)
	if s.ReasoningEffort != "" {
		effort := string(modelhttp.AppendString(nil, s.ReasoningEffort))
		if e.f.effortObject {
			e.Setting("reasoning", `{"effort":`+effort+`}`)
		} else {
			e.Setting("reasoning_effort", effort)
		}
	}
	if e.f.output == outputAlways || e.f.output == outputAlone && len(req.Tools) == 0 {
		if schema, strict := modelhttp.OutputSchema(req); schema != nil {
			e.Setting("response_format", fmt.Sprintf(`{"type":"json_schema","json_schema":{"name":"answer","strict":%t,"schema":%s}}`, strict, schema))
		}
	}
}
