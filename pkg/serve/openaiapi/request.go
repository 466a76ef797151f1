package openaiapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// A request has the parameters of chat completions and responses that have an effect
// here. All others are ignored: the agent file says how the model is asked.
type request struct {
	Model      string            `json:"model"`
	Tools      []json.RawMessage `json:"tools"`
	ToolChoice json.RawMessage   `json:"tool_choice"`
	Parallel   bool              `json:"parallel_tool_calls"`
	Stream     bool              `json:"stream"`

	// Of chat completions.
	Messages      []message `json:"messages"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`

	// Of responses.
	Input        json.RawMessage   `json:"input"`
	Instructions string            `json:"instructions"`
	Previous     string            `json:"previous_response_id"`
	Store        bool              `json:"store"`
	Metadata     map[string]string `json:"metadata"`

	// Format is of chat completions, and Text.Format of responses.
	Format *format `json:"response_format"`
	Text   struct {
		Format *format `json:"format"`
	} `json:"text"`

	// Refused.
	N            int             `json:"n"`
	Logprobs     bool            `json:"logprobs"`
	Modalities   []string        `json:"modalities"`
	Stop         json.RawMessage `json:"stop"`
	Functions    json.RawMessage `json:"functions"`
	WebSearch    json.RawMessage `json:"web_search_options"`
	Background   bool            `json:"background"`
	Conversation json.RawMessage `json:"conversation"`
	Prompt       json.RawMessage `json:"prompt"`

	created int64
}

// A format is the form of the answer. In chat completions the schema is in an object of
// its own.
type format struct {
	Type   string          `json:"type"`
	Name   string          `json:"name,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
	Within *format         `json:"json_schema,omitempty"`
}

// schema returns the JSON Schema of the answer, nil if it is a text.
func (r *request) schema() (json.RawMessage, error) {
	f, param := cmp.Or(r.Format, r.Text.Format, &format{}), "text.format"
	if r.Format != nil {
		param = "response_format"
	}
	switch f.Type {
	case "", "text":
		return nil, nil
	case "json_object":
		return json.RawMessage(`{"type":"object"}`), nil
	case "json_schema":
		if f.Within != nil {
			f, param = f.Within, param+".json_schema"
		}
		if !given(f.Schema) {
			return nil, missing(param + ".schema")
		}
		return f.Schema, nil
	}
	return nil, unsupported(param+".type", "the type %.50q is not supported; want text, json_object or json_schema", f.Type)
}

// refused returns the error for a parameter that asks for a form of answer that an agent
// does not have.
func (r *request) refused() error {
	for _, p := range []struct {
		is        bool
		name, why string
	}{
		{r.N > 1, "n", "a run has one answer"},
		{r.Logprobs, "logprobs", "agents have none"},
		{len(r.Modalities) > 1 || len(r.Modalities) == 1 && r.Modalities[0] != "text", "modalities", "agents answer with text"},
		{given(r.Stop), "stop", "the answer of an agent cannot be cut"},
		{given(r.Functions), "functions", "use tools"},
		{given(r.WebSearch), "web_search_options", "the agent has tools of its own"},
		{r.Background, "background", "use a stream"},
		{given(r.Conversation), "conversation", "use previous_response_id"},
		{given(r.Prompt), "prompt", "stored prompts do not exist here"},
	} {
		if p.is {
			return unsupported(p.name, "%s", p.why)
		}
	}
	return nil
}

// A message is one of chat completions, or an item of the input of responses.
type message struct {
	Type    string          `json:"type"` // of items
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Refusal string          `json:"refusal"`
	Answers string          `json:"tool_call_id"`
	Calls   []struct {
		ID       string `json:"id"`
		Function struct {
			Name string `json:"name"`
			Args string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`

	// Of items that are calls and their results.
	CallID string          `json:"call_id"`
	Name   string          `json:"name"`
	Args   string          `json:"arguments"`
	Output json.RawMessage `json:"output"`
}

// decode reads the body of a request.
func (h *Handler) decode(w http.ResponseWriter, r *http.Request, v any) error {
	if kind, _, err := mime.ParseMediaType(cmp.Or(r.Header.Get("Content-Type"), kindJSON)); err != nil || kind != kindJSON {
		return invalid("", "unsupported_media_type", "the Content-Type must be application/json").as(http.StatusUnsupportedMediaType)
	}
	limit := cmp.Or(h.MaxBody, DefaultMaxBody)
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit)).Decode(v)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return invalid("", "request_too_large", "the request is longer than %d bytes", limit).as(http.StatusRequestEntityTooLarge)
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return invalid(kind.Field, "invalid_type", "%s: got %s, want another type", cmp.Or(kind.Field, "the request"), kind.Value)
	}
	if err != nil {
		return invalid("", "", "the request is not valid JSON: %v", err)
	}
	return nil
}

// thread returns the messages of the request behind those of an earlier response.
func (r *request) thread(earlier []agent.Message, responses bool) (*thread, error) {
	name, list := "messages", r.Messages
	if responses {
		name, list = "input", nil
		switch in := bytes.TrimSpace(r.Input); {
		case !given(in):
		case in[0] == '"':
			list = []message{{Role: "user", Content: in}}
		case json.Unmarshal(in, &list) != nil:
			return nil, invalid("input", "invalid_type", "input: want a string or a list of items")
		}
	}
	if len(list) == 0 {
		return nil, missing(name)
	}
	t := &thread{messages: earlier}
	if responses {
		t.system(r.Instructions)
	}
	for i, m := range list {
		if err := m.add(t, fmt.Sprintf("%s[%d]", name, i)); err != nil {
			return nil, err
		}
	}
	return t, t.finish()
}

func (m *message) add(t *thread, param string) error {
	parts, err := parseContent(m.Content, param+".content")
	field, kind := "type", m.Type
	if kind == "" || kind == "message" {
		field, kind = "role", "role "+m.Role
	}
	answer := agent.Message{Role: agent.RoleAssistant, Parts: parts}
	switch kind {
	case "role system", "role developer":
		t.system(textOf(parts))
	case "role user":
		t.user(parts...)
	case "role tool":
		t.add(agent.Message{Role: agent.RoleTool, Results: []agent.ToolResult{{CallID: m.Answers, Parts: parts}}})
	case "role assistant":
		if m.Refusal != "" {
			answer.Parts = append(parts, agent.Text(m.Refusal))
		}
		for _, c := range m.Calls {
			answer.Calls = append(answer.Calls, agent.ToolCall{ID: c.ID, Name: c.Function.Name, Args: c.Function.Args})
		}
		t.add(answer)
	case "function_call":
		answer.Calls = []agent.ToolCall{{ID: m.CallID, Name: m.Name, Args: m.Args}}
		t.add(answer)
	case "function_call_output":
		parts, err = parseContent(m.Output, param+".output")
		t.add(agent.Message{Role: agent.RoleTool, Results: []agent.ToolResult{{CallID: m.CallID, Parts: parts}}})
	case "reasoning": // of another model
		return nil
	default:
		return unsupported(param+"."+field, "%.50q is not supported", strings.TrimPrefix(kind, "role "))
	}
	return err
}
