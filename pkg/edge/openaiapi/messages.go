package openaiapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// Messages of Anthropic (https://platform.claude.com/docs/en/api/messages/create), for programs
// that want a model: see ProgramCall.

// A messagesRequest has the parameters that have an effect on a model of another protocol.
type messagesRequest struct {
	Model    string          `json:"model"`
	System   json.RawMessage `json:"system"`
	Messages json.RawMessage `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
	Stream   bool            `json:"stream"`
	Choice   struct {
		Type   string `json:"type"`
		Single bool   `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	Output struct {
		Format *format `json:"format"`
	} `json:"output_config"`

	// Refused.
	Stop       []string        `json:"stop_sequences"`
	MCPServers json.RawMessage `json:"mcp_servers"`
	Container  json.RawMessage `json:"container"`
}

// A block is a part of the content of a message.
type block struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Input   json.RawMessage `json:"input"`
	CallID  string          `json:"tool_use_id"`
	Content json.RawMessage `json:"content"`
	Failed  bool            `json:"is_error"`
	Title   string          `json:"title"`
	Source  struct {
		Type string `json:"type"`
		MIME string `json:"media_type"`
		Data string `json:"data"`
	} `json:"source"`
}

// model returns the request of a model.
func (r *messagesRequest) model(n *items) (*agent.Request, error) {
	switch kind := r.Choice.Type; {
	case len(r.Stop) > 0:
		return nil, unsupported("stop_sequences", "they cannot be translated for the lent model")
	case given(r.MCPServers):
		return nil, unsupported("mcp_servers", "the lent model has none")
	case given(r.Container):
		return nil, unsupported("container", "the lent model has none")
	case kind != "" && kind != "auto" && kind != "none":
		return nil, unsupported("tool_choice", "a call cannot be required of the lent model; want auto or none")
	}
	system, err := blocks(n, r.System, "system", nil)
	if err != nil {
		return nil, err
	}
	t := &thread{forModel: true}
	t.system(textOf(system))
	err = each(n, r.Messages, "messages", func(m *message, param string) error { return m.addBlocks(n, t, param) })
	if err == nil {
		err = t.finish()
	}
	if err != nil {
		return nil, err
	}
	out := &agent.Request{System: strings.Join(t.prompt, "\n\n"), Messages: t.messages}
	if f := r.Output.Format; f != nil {
		out.Output = f.Schema
	}
	if !given(r.Tools) || r.Choice.Type == "none" {
		return out, nil
	}
	err = each(n, r.Tools, "tools", func(t *struct {
		function
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"input_schema"`
	}, param string) error {
		if t.Type != "" && t.Type != "custom" {
			return unsupported(param+".type", "tools of the type %.50q cannot be translated for the lent model", t.Type)
		}
		out.Tools = append(out.Tools, agent.ToolSpec{Name: t.Name, Description: t.Description, Schema: t.Schema})
		return nil
	})
	return out, err
}

// addBlocks adds a message to a thread.
func (m *message) addBlocks(n *items, t *thread, param string) error {
	var added agent.Message
	var results agent.Message
	parts, err := blocks(n, m.Content, param+".content", func(b *block, param string) error {
		switch b.Type {
		case "tool_use":
			added.Calls = append(added.Calls, agent.ToolCall{ID: b.ID, Name: b.Name, Args: cmp.Or(string(b.Input), "{}")})
			return nil
		case "tool_result":
			said, err := blocks(n, b.Content, param+".content", nil)
			results.Results = append(results.Results, agent.ToolResult{CallID: b.CallID, Parts: said, Failed: b.Failed})
			return err
		}
		return unsupported(param+".type", "%.50q cannot be translated for the lent model", b.Type)
	})
	if err != nil {
		return err
	}
	added.Parts = parts
	switch m.Role {
	case "system":
		t.system(textOf(parts))
	case "assistant":
		added.Role = agent.RoleAssistant
		t.add(added)
	case "user":
		if results.Role = agent.RoleTool; len(results.Results) > 0 {
			t.add(results)
		}
		if len(parts) > 0 {
			t.user(parts...)
		}
	default:
		return unsupported(param+".role", "%.50q is not supported", m.Role)
	}
	return nil
}

// blocks reads the content of a message: a text, or a list of blocks. Those that are no content are
// given to other; nil refuses them.
func blocks(n *items, raw json.RawMessage, param string, other func(b *block, param string) error) (parts []agent.Part, err error) {
	if raw = bytes.TrimSpace(raw); !given(raw) {
		return nil, nil
	}
	if raw[0] == '"' {
		return parseContent(n, raw, param)
	}
	err = each(n, raw, param, func(b *block, param string) error {
		switch {
		case b.Type == "text":
			if b.Text != "" {
				parts = append(parts, agent.Text(b.Text))
			}
		case b.Type == "thinking", b.Type == "redacted_thinking": // of another model
		case (b.Type == "image" || b.Type == "document") && b.Source.Type == "text":
			parts = append(parts, agent.Text(b.Source.Data))
		case b.Type == "image", b.Type == "document":
			if b.Source.Type != "base64" {
				return unsupported(param+".source", "the content must be in the request; addresses and ids of files are not supported")
			}
			part, err := dataURL("data:"+b.Source.MIME+";base64,"+b.Source.Data, b.Title, param)
			parts = append(parts, part)
			return err
		case other != nil:
			return other(b, param)
		default:
			return unsupported(param+".type", "%.50q is not supported here", b.Type)
		}
		return nil
	})
	return parts, err
}

// A messagesOutput writes a message, or with a stream its events.
type messagesOutput struct {
	*stream
	req     *messagesRequest
	id      string
	started bool
	index   int  // of the next block
	open    bool // a block of text is
}

func (o *messagesOutput) message(u agent.Usage, content ...object) object {
	if content == nil {
		content = []object{}
	}
	return object{"id": o.id, "type": "message", "role": "assistant", "model": o.req.Model, "content": content, "stop_reason": nil, "stop_sequence": nil,
		"usage": object{"input_tokens": u.InputTokens - u.CachedTokens - u.CacheWriteTokens, "cache_read_input_tokens": u.CachedTokens, "cache_creation_input_tokens": u.CacheWriteTokens, "output_tokens": u.OutputTokens}}
}

// event sends an event; the first one is preceded by that which begins a message.
func (o *messagesOutput) event(kind string, e object) {
	if !o.started {
		o.started = true
		o.event("message_start", object{"message": o.message(agent.Usage{})})
	}
	e["type"] = kind
	o.send(kind, e)
}

// block sends a whole block, or begins one without deltas.
func (o *messagesOutput) block(content object, deltas ...object) {
	o.event("content_block_start", object{"index": o.index, "content_block": content})
	for _, d := range deltas {
		o.event("content_block_delta", object{"index": o.index, "delta": d})
	}
}

func (o *messagesOutput) text(piece string, again bool) {
	if again {
		o.turn()
	}
	if !o.open {
		o.open = true
		o.block(object{"type": "text", "text": ""})
	}
	o.event("content_block_delta", object{"index": o.index, "delta": object{"type": "text_delta", "text": piece}})
}

func (o *messagesOutput) turn() {
	if o.open {
		o.stop()
	}
	o.open = false
}

func (o *messagesOutput) stop() {
	o.event("content_block_stop", object{"index": o.index})
	o.index++
}

func (o *messagesOutput) finish(r *reply) {
	var content []object
	if r.text != "" {
		content = append(content, object{"type": "text", "text": r.text})
	}
	reason := "end_turn"
	for _, c := range r.calls {
		reason = "tool_use"
		args := c.input()
		use := object{"type": "tool_use", "id": c.id, "name": c.name, "input": object{}}
		o.block(use, object{"type": "input_json_delta", "partial_json": string(args)})
		o.stop()
		content = append(content, object{"type": "tool_use", "id": c.id, "name": c.name, "input": args})
	}
	reason = cmp.Or(strings.NewReplacer(cutShort, "max_tokens", withheld, "refusal").Replace(r.short), reason)
	whole := o.message(r.usage, content...)
	whole["stop_reason"] = reason
	if !o.on {
		writeJSON(o.w, http.StatusOK, whole)
		return
	}
	o.event("message_delta", object{"delta": object{"stop_reason": reason, "stop_sequence": nil}, "usage": whole["usage"]})
	o.event("message_stop", object{})
}

func (o *messagesOutput) fail(err error) {
	if !o.begun {
		writeErrorAs(o.w, err, messagesError)
		return
	}
	o.event("error", messagesError(asAPIError(err)))
}

// messagesError returns an error in Anthropic's form.
func messagesError(e *apiError) object {
	kind := e.Type
	switch e.status {
	case http.StatusPaymentRequired:
		kind = "billing_error"
	case http.StatusUnauthorized:
		kind = "authentication_error"
	case http.StatusNotFound:
		kind = "not_found_error"
	case http.StatusRequestEntityTooLarge:
		kind = "request_too_large"
	default:
		if e.status >= 500 {
			kind = "api_error"
		}
	}
	return object{"type": "error", "error": object{"type": kind, "message": e.Text}}
}
