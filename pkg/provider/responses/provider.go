// Package responses talks to models over the Responses protocol of OpenAI's own server and of
// servers that support Open Responses (OpenRouter, xAI, vLLM, llama.cpp, Ollama, LM Studio).
//
//	p := &responses.Provider{Settings: modelhttp.Settings{
//		Model: "gpt-5",
//		Key:   func() string { return secret },
//	}}
//	resp, err := p.Generate(ctx, &agent.Request{Messages: msgs}, func(agent.Delta) {})
//
// The server stores nothing (store is false): each request contains the whole conversation.
// The reasoning of a model arrives encrypted. It is kept unchanged in the Extra of message
// parts and sent back with the conversation, so that the model can continue it in the next
// turn. A Provider makes one attempt; provider.Retry repeats it.
package responses

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// URL is the base URL of OpenAI's own server, the default.
const URL = "https://api.openai.com/v1"

// A Provider is a model behind a /responses endpoint. It is safe for concurrent use if its
// fields do not change.
type Provider struct {
	// Settings say where the model is. ExtraBody cannot replace model, input, tools, stream
	// and store.
	modelhttp.Settings
	// OutputAlone sends the schema of the answer as text.format only in requests without
	// tools, and otherwise as the schema of an additional tool. Local servers force every answer to
	// follow text.format, so the model could not call a tool.
	OutputAlone bool
}

// Fixed are the members that ExtraBody cannot replace: the rest of this package depends on
// them. The slice must not be changed.
var Fixed = []string{"model", "input", "tools", "stream", "store"}

// A form has the options of a request that some models and accounts refuse.
type form struct {
	stream    bool
	encrypted bool // asks for encrypted reasoning
}

// Generate asks the model. If the server refuses an option of the request, Generate repeats
// the request without it: a model without reasoning has none to encrypt, and OpenAI streams
// some models only to verified organizations.
//
// A failure of the server, the connection or the answer is an *agent.ModelError;
// if ctx ends, it wraps ctx's error. A nil delta is allowed. When Generate returns,
// the response is closed. An answer is complete when the server sends
// response.completed or response.incomplete; [DONE] alone does not tell a complete answer
// from one that broke off. Calls are never returned from an answer that is not complete.
func (p *Provider) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	if delta == nil {
		delta = func(agent.Delta) {}
	}
	f := form{stream: true, encrypted: reasons(p.Model)}
	for {
		resp, err := p.ask(ctx, req, f, delta)
		failed, ok := errors.AsType[*agent.ModelError](err)
		switch {
		case !ok || failed.Status != http.StatusBadRequest || req.Pass != nil:
			return resp, err
		case f.encrypted && strings.Contains(failed.Message, "ncrypted content is not supported"):
			f.encrypted = false
		case f.stream && strings.Contains(failed.Message, "to stream this model"):
			f.stream = false
		default:
			return resp, err
		}
	}
}

// Abilities implements agent.Able.
func (p *Provider) Abilities() []agent.Ability {
	return []agent.Ability{agent.AbilityTools, agent.AbilityImages, agent.AbilityDocuments, agent.AbilityThinking, agent.AbilityOutput}
}

// Passes implements agent.Passer.
func (p *Provider) Passes(protocol string) bool { return protocol == agent.ProtocolResponses }

// FitTool implements agent.ToolFitter.
func (p *Provider) FitTool(t agent.ToolSpec) (agent.ToolSpec, []string, error) {
	return modelhttp.RefusedByOpenAI.Fit(t)
}

// reasons reports whether a model may reason, by its name. OpenAI refuses requests for the
// reasoning of those that do not.
func reasons(model string) bool {
	for _, without := range []string{"gpt-3", "gpt-4", "chatgpt-"} {
		if strings.HasPrefix(model, without) {
			return false
		}
	}
	return true
}

// Models asks the server for the names of its models.
func (p *Provider) Models(ctx context.Context) ([]string, error) {
	x, err := modelhttp.Open(&p.Settings, URL, "responses")
	if err != nil {
		return nil, err
	}
	return x.Models(ctx)
}

func (p *Provider) ask(ctx context.Context, req *agent.Request, f form, delta func(agent.Delta)) (*agent.Response, error) {
	x, err := modelhttp.Open(&p.Settings, URL, "responses")
	if err != nil {
		return nil, err
	}
	x.Trace = req.Trace
	if req.Pass != nil {
		return x.Pass(ctx, req, &answer{host: x.URL.Host, emit: delta}, false)
	}
	asked := req
	if p.OutputAlone && len(req.Tools) > 0 && p.ExtraBody["text"] == nil {
		asked = modelhttp.WithAnswerTool(req)
	}
	body, err := p.body(x.URL.Host, asked, f)
	if err != nil {
		return nil, &agent.ModelError{Message: err.Error(), Err: err}
	}
	resp, err := x.Run(ctx, asked, body, &answer{host: x.URL.Host, emit: delta})
	if err == nil && asked != req {
		modelhttp.TakeAnswer(&resp.Message, delta)
	}
	return resp, err
}

// body is the body of a request to a host. It is a function of the request and the
// Provider's fields only, so that a conversation which grows gives a body with the
// same beginning.
func (p *Provider) body(host string, req *agent.Request, f form) ([]byte, error) {
	e := encoder{Writer: modelhttp.NewWriter(req, &p.Settings), host: host}
	e.Raw("stream", strconv.FormatBool(f.stream))
	e.Raw("store", "false")
	if f.encrypted {
		e.Setting("include", `["reasoning.encrypted_content"]`)
	}
	e.Limits("max_output_tokens")
	if p.ReasoningEffort != "" {
		e.Setting("reasoning", `{"effort":`+string(modelhttp.AppendString(nil, p.ReasoningEffort))+`}`)
	}
	if schema, strict := modelhttp.OutputSchema(req); schema != nil && !(p.OutputAlone && len(req.Tools) > 0) {
		e.Setting("text", fmt.Sprintf(`{"format":{"type":"json_schema","name":"answer","strict":%t,"schema":%s}}`, strict, schema))
	}
	if err := e.Extra(Fixed); err != nil {
		return nil, err
	}
	if err := e.Tools(req.Tools, modelhttp.ToolForm{Begin: `{"type":"function"`, Schema: "parameters", End: `,"strict":false}`}, modelhttp.RefusedByOpenAI); err != nil { // true is the default
		return nil, err
	}
	e.List("input")
	if req.System != "" {
		e.message("system", req.System)
	}
	for i := range req.Messages {
		if err := e.add(&req.Messages[i]); err != nil {
			return nil, err
		}
	}
	e.Close("]}")
	return e.B, nil
}
