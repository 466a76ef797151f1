package openaiapi

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// A request has the parameters of chat completions and responses that have an effect
// here. All others are ignored: the agent file says how the model is asked. Lists are raw,
// because a short text makes a list that takes much memory: see items.
type request struct {
	Model      string          `json:"model"`
	Tools      json.RawMessage `json:"tools"`
	ToolChoice json.RawMessage `json:"tool_choice"`
	Parallel   bool            `json:"parallel_tool_calls"`
	Stream     bool            `json:"stream"`

	// Of chat completions.
	Messages      json.RawMessage `json:"messages"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`

	// Of responses.
	Input        json.RawMessage `json:"input"`
	Instructions string          `json:"instructions"`
	Previous     string          `json:"previous_response_id"`
	Store        bool            `json:"store"`
	Metadata     json.RawMessage `json:"metadata"`

	// Format is of chat completions, and Text.Format of responses.
	Format *format `json:"response_format"`
	Text   struct {
		Format *format `json:"format"`
	} `json:"text"`

	Stop json.RawMessage `json:"stop"`

	// Refused.
	N            int             `json:"n"`
	Logprobs     bool            `json:"logprobs"`
	Modalities   json.RawMessage `json:"modalities"`
	Functions    json.RawMessage `json:"functions"`
	WebSearch    json.RawMessage `json:"web_search_options"`
	Background   bool            `json:"background"`
	Conversation json.RawMessage `json:"conversation"`
	Prompt       json.RawMessage `json:"prompt"`

	Generate bool `json:"generate"` // false in a WebSocket message of OpenAI's that only prepares a response

	Type    string `json:"type"` // of a WebSocket message
	api     api
	socket  *socket // that it came from
	created int64
}

// An api says what a request is for.
type api int

const (
	chatAPI api = iota
	responsesAPI
	compactAPI
)

// A format is the form of the answer. In chat completions the schema is in an object of
// its own.
type format struct {
	Type        string          `json:"type"`
	Name        string          `json:"name,omitempty"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Strict      bool            `json:"strict,omitempty"`
	Within      *format         `json:"json_schema,omitempty"`
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
		{given(r.Modalities) && !isTextOnly(r.Modalities), "modalities", "agents answer with text"},
		{given(r.Functions), "functions", "use tools"},
		{given(r.WebSearch), "web_search_options", "the agent has tools of its own"},
		{r.Background, "background", "use a stream"},
		{given(r.Conversation), "conversation", "use previous_response_id"},
		{!r.Generate, "generate", "a run cannot be prepared without being started"},
		{given(r.Prompt), "prompt", "stored prompts do not exist here"},
	} {
		if p.is {
			return unsupported(p.name, "%s", p.why)
		}
	}
	return nil
}

// stops returns the texts before which the text of each turn ends.
func (r *request) stops(n *items) (stops []string, err error) {
	in := bytes.TrimSpace(r.Stop)
	switch {
	case !given(in):
	case in[0] == '"':
		stops = make([]string, 1)
		err = json.Unmarshal(in, &stops[0])
	default:
		err = each(n, in, "stop", func(s *string, _ string) error {
			if stops = append(stops, *s); len(stops) > maxStops {
				return invalid("stop", "too_many_items", "stop: there are more than %d texts", maxStops)
			}
			return nil
		})
	}
	return slices.DeleteFunc(stops, func(s string) bool { return s == "" }), err
}

const maxStops = 16

// isTextOnly reports whether modalities are [] or ["text"].
func isTextOnly(modalities json.RawMessage) bool {
	var b bytes.Buffer
	return json.Compact(&b, modalities) == nil && (b.String() == "[]" || b.String() == `["text"]`)
}

// A message is one of chat completions, or an item of the input of responses.
type message struct {
	Type    string          `json:"type"` // of items
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Refusal string          `json:"refusal"`
	Answers string          `json:"tool_call_id"`
	Calls   json.RawMessage `json:"tool_calls"`

	// Of items that are calls and their results.
	CallID string          `json:"call_id"`
	Name   string          `json:"name"`
	Args   string          `json:"arguments"`
	Output json.RawMessage `json:"output"`

	Compacted string `json:"encrypted_content"` // of items that compaction returned
}

// A toolCall is one of a message of chat completions.
type toolCall struct {
	ID       string `json:"id"`
	Function struct {
		Name string `json:"name"`
		Args string `json:"arguments"`
	} `json:"function"`
}

// decode reads the body of a request, and returns its checksum.
func (h *Handler) decode(w http.ResponseWriter, r *http.Request, v any) (sum [sha256.Size]byte, err error) {
	if kind, _, err := mime.ParseMediaType(cmp.Or(r.Header.Get("Content-Type"), kindJSON)); err != nil || kind != kindJSON {
		return sum, invalid("", "unsupported_media_type", "the Content-Type must be application/json").as(http.StatusUnsupportedMediaType)
	}
	limit, all := cmp.Or(h.MaxBody, DefaultMaxBody), sha256.New()
	body := io.TeeReader(http.MaxBytesReader(w, r.Body, limit), all)
	if err = json.NewDecoder(body).Decode(v); err == nil {
		_, err = io.Copy(io.Discard, body)
	}
	return [sha256.Size]byte(all.Sum(nil)), decodeError(err, limit)
}

// decodeError returns an error of decode as the client gets it.
func decodeError(err error, limit int64) error {
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return tooLarge(limit)
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return wrongType(kind.Field, kind)
	}
	if tooMany, ok := errors.AsType[*jsondoc.MeterError](err); ok {
		return invalid("", "request_too_large", "%v", tooMany).as(http.StatusRequestEntityTooLarge)
	}
	if err != nil {
		return invalid("", "", "the request is not valid JSON: %v", err)
	}
	return nil
}

// wrongType returns the error for the parameter param, "" for the request.
func wrongType(param string, err *json.UnmarshalTypeError) error {
	return invalid(param, "invalid_type", "%s: got %s, want another type", cmp.Or(param, "the request"), err.Value)
}

// maxItems limits the messages, parts of their contents, calls and tools of a request. Each may
// be a few bytes of the request, and takes a few hundred in memory and in the session.
const maxItems = 100_000

// items counts what is read of a request, and ends with its client.
type items struct {
	left func() error // why the client has left, nil if it has not
	read int
}

// each passes the elements of list to f, one after the other: the first that is refused ends
// the work before the others take memory. param is the place of the list in the request.
func each[T any](n *items, list json.RawMessage, param string, f func(v *T, param string) error) error {
	in := json.NewDecoder(bytes.NewReader(list))
	if start, err := in.Token(); err != nil || start != json.Delim('[') {
		return invalid(param, "invalid_type", "%s: want a list", param)
	}
	for i := 0; in.More(); i++ {
		if n.read++; n.read > maxItems {
			return invalid(param, "too_many_items", "%s: a request has at most %d messages, parts of messages, calls and tools", param, maxItems)
		}
		if err := n.left(); err != nil {
			return err
		}
		var v T
		at := fmt.Sprintf("%s[%d]", param, i)
		if err := in.Decode(&v); err != nil {
			if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
				return wrongType(strings.TrimSuffix(at+"."+kind.Field, "."), kind)
			}
			return invalid(at, "invalid_type", "%s: %v", at, err)
		}
		if err := f(&v, at); err != nil {
			return err
		}
	}
	return nil
}

// thread adds the messages of the request to t.
func (r *request) thread(n *items, t *thread) error {
	name, list, responses := "messages", r.Messages, r.api != chatAPI
	if responses {
		name, list = "input", r.Input
		if r.api != compactAPI { // they are for one request, and the model sums up without them
			t.system(r.Instructions)
		}
	}
	before := n.read
	var err error
	switch list = bytes.TrimSpace(list); {
	case !given(list):
	case responses && list[0] == '"':
		err = (&message{Role: "user", Content: list}).add(n, t, "input[0]")
		n.read++
	case responses && list[0] != '[':
		err = invalid("input", "invalid_type", "input: want a string or a list of items")
	default:
		err = each(n, list, name, func(m *message, param string) error { return m.add(n, t, param) })
	}
	switch {
	case err != nil:
		return err
	case r.api == compactAPI && len(t.messages) > 0:
		return t.check()
	case r.api == compactAPI, n.read == before:
		return missing(name)
	}
	return t.finish()
}

func (m *message) add(n *items, t *thread, param string) error {
	parts, err := parseContent(n, m.Content, param+".content")
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
		if err == nil && given(m.Calls) {
			err = each(n, m.Calls, param+".tool_calls", func(c *toolCall, _ string) error {
				answer.Calls = append(answer.Calls, agent.ToolCall{ID: c.ID, Name: c.Function.Name, Args: c.Function.Args})
				return nil
			})
		}
		t.add(answer)
	case "function_call":
		answer.Calls = []agent.ToolCall{{ID: m.CallID, Name: m.Name, Args: m.Args}}
		t.add(answer)
	case "function_call_output":
		parts, err = parseContent(n, m.Output, param+".output")
		t.add(agent.Message{Role: agent.RoleTool, Results: []agent.ToolResult{{CallID: m.CallID, Parts: parts}}})
	case "compaction":
		return m.expand(n, t, param)
	case "reasoning": // of another model
		return nil
	default:
		return unsupported(param+"."+field, "%.50q is not supported", strings.TrimPrefix(kind, "role "))
	}
	return err
}

// items returns the input of a response as items with ids, which begin with the id of the
// exchange.
func (r *request) items(id string) []json.RawMessage {
	var list []map[string]json.RawMessage
	if in := bytes.TrimSpace(r.Input); len(in) > 0 && in[0] == '"' {
		list = []map[string]json.RawMessage{{"role": json.RawMessage(`"user"`), "content": in}}
	} else if json.Unmarshal(in, &list) != nil {
		return nil
	}
	var items []json.RawMessage
	for i, it := range list {
		if it == nil {
			continue
		}
		if it["id"] == nil {
			it["id"] = encode(fmt.Sprintf("msg_%s_%d", id, i))
		}
		if it["type"] == nil {
			it["type"] = json.RawMessage(`"message"`)
		}
		if text := bytes.TrimSpace(it["content"]); len(text) > 0 && text[0] == '"' {
			it["content"] = encode([]object{{"type": "input_text", "text": json.RawMessage(text)}})
		}
		items = append(items, bytes.TrimSpace(encode(it)))
	}
	return items
}
