package openaiapi

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A responsesRequest has the parameters of responses that have an effect here.
type responsesRequest struct {
	Model        string            `json:"model"`
	Input        json.RawMessage   `json:"input"`
	Instructions string            `json:"instructions"`
	Previous     string            `json:"previous_response_id"`
	Store        *bool             `json:"store"`
	Stream       bool              `json:"stream"`
	Tools        []clientTool      `json:"tools"`
	ToolChoice   json.RawMessage   `json:"tool_choice"`
	Parallel     *bool             `json:"parallel_tool_calls"`
	Metadata     map[string]string `json:"metadata"`

	Background   bool            `json:"background"`
	Conversation json.RawMessage `json:"conversation"`
	Prompt       json.RawMessage `json:"prompt"`
	Text         struct {
		Format textFormat `json:"format"`
	} `json:"text"`
}

func (r *responsesRequest) refused() error {
	switch {
	case r.Background:
		return unsupported("background", "use a stream")
	case given(r.Conversation):
		return unsupported("conversation", "use previous_response_id")
	case given(r.Prompt):
		return unsupported("prompt", "stored prompts do not exist here")
	case !r.Text.Format.plain():
		return unsupported("text.format", "the agent file decides the form of the answer; want text")
	case !given(r.Input):
		return missing("input")
	}
	return nil
}

// An item is one of the input.
type item struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

// thread returns the messages of the input behind those of an earlier response. Items of
// stored responses may be named by their ids.
func (r *responsesRequest) thread(earlier []agent.Message, stored *store) (*thread, error) {
	t := &thread{}
	t.load(earlier)
	if r.Instructions != "" {
		t.system([]agent.Part{agent.Text(r.Instructions)})
	}
	var items []item
	if r.Input[0] == '"' {
		items = []item{{Role: "user", Content: r.Input}}
	} else if json.Unmarshal(r.Input, &items) != nil {
		return nil, invalid("input", "invalid_type", "input: want a string or a list of items")
	}
	for i, it := range items {
		param := fmt.Sprintf("input[%d]", i)
		if it.Type == "item_reference" {
			found, ok := stored.item(it.ID)
			if !ok {
				return nil, invalid(param+".id", "item_not_found", "%s: there is no item %.100q in the stored responses", param, it.ID)
			}
			it = found
		}
		if err := it.add(t, param); err != nil {
			return nil, err
		}
	}
	return t, t.finish("input")
}

// load begins a thread with stored messages.
func (t *thread) load(messages []agent.Message) {
	t.messages, t.ids = messages, map[string]bool{}
	for i, m := range messages {
		for _, c := range m.Calls {
			t.ids[c.ID] = true
			has := func(r agent.ToolResult) bool { return r.CallID == c.ID }
			if i+1 >= len(messages) || !slices.ContainsFunc(messages[i+1].Results, has) {
				t.open = append(t.open, c)
			}
		}
	}
}

func (it *item) add(t *thread, param string) error {
	switch it.Type {
	case "", "message":
		parts, err := parseContent(it.Content, param+".content")
		if err != nil {
			return err
		}
		m := chatMessage{Role: it.Role}
		if it.Role == "tool" {
			m.Role = "" // has an item of its own here
		}
		return m.add(t, parts, param)
	case "function_call":
		return t.assistant(nil, agent.ToolCall{ID: it.CallID, Name: it.Name, Args: it.Arguments})
	case "function_call_output":
		parts, err := parseContent(it.Output, param+".output")
		if err != nil {
			return err
		}
		return t.result(it.CallID, parts)
	case "reasoning":
		return nil // of another model
	}
	return unsupported(param+".type", "items of the type %.50q are not supported", it.Type)
}

// responses answers a request for a response.
func (h *Handler) responses(w http.ResponseWriter, r *http.Request) {
	var req responsesRequest
	c, err := h.openResponse(w, r, &req)
	if err != nil {
		writeError(w, err)
		return
	}
	out := &responseOutput{w: w, handler: h, req: &req, items: []*outputItem{}, id: "resp_" + rand.Text(), created: time.Now().Unix()}
	if req.Stream {
		out.stream = &stream{w: w}
	}
	h.respond(r, c, out)
}

func (h *Handler) openResponse(w http.ResponseWriter, r *http.Request, req *responsesRequest) (*conversation, error) {
	if err := h.decode(w, r, req); err != nil {
		return nil, err
	}
	if err := req.refused(); err != nil {
		return nil, err
	}
	spec, err := h.find(req.Model)
	if err != nil {
		return nil, err
	}
	var earlier []agent.Message
	if req.Previous != "" {
		stored, ok := h.store.find(req.Previous)
		if !ok {
			return nil, invalid("previous_response_id", "previous_response_not_found", "there is no response %.100q: responses are kept as long as the server runs and has room for them", req.Previous)
		}
		earlier = stored.messages
	}
	t, err := req.thread(earlier, &h.store)
	if err != nil {
		return nil, err
	}
	tools, err := toolSpecs(req.Tools, req.ToolChoice)
	if err != nil {
		return nil, err
	}
	return h.open(r, t, spec, tools, req.Parallel != nil && !*req.Parallel)
}

// stored answers a request for an earlier response, or deletes it.
func (h *Handler) stored(w http.ResponseWriter, r *http.Request, id string) {
	found, ok := h.store.find(id)
	switch {
	case !ok:
		writeError(w, invalid("", "", "there is no response %.100q", id).as(http.StatusNotFound))
	case r.Method == http.MethodDelete:
		h.store.remove(id)
		writeJSON(w, http.StatusOK, map[string]any{"id": id, "object": "response", "deleted": true})
	default:
		writeJSON(w, http.StatusOK, found.body)
	}
}

// A responseObject is the resource of a response.
type responseObject struct {
	ID           string            `json:"id"`
	Object       string            `json:"object"`
	Created      int64             `json:"created_at"`
	Status       string            `json:"status"`
	Background   bool              `json:"background"`
	Error        *responseError    `json:"error"`
	Incomplete   *incomplete       `json:"incomplete_details"`
	Instructions *string           `json:"instructions"`
	Metadata     map[string]string `json:"metadata"`
	Model        string            `json:"model"`
	Output       []*outputItem     `json:"output"`
	Parallel     bool              `json:"parallel_tool_calls"`
	Previous     *string           `json:"previous_response_id"`
	Store        bool              `json:"store"`
	Text         map[string]any    `json:"text"`
	ToolChoice   json.RawMessage   `json:"tool_choice"`
	Tools        []json.RawMessage `json:"tools"`
	Temperature  *float64          `json:"temperature"` // the agent file has it
	TopP         *float64          `json:"top_p"`
	Usage        *responseUsage    `json:"usage"`
	Agents       *extension        `json:"agents,omitempty"`
}

type responseError struct {
	Code string `json:"code"`
	Text string `json:"message"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

type responseUsage struct {
	Input int `json:"input_tokens"`
	In    struct {
		Cached int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Output int `json:"output_tokens"`
	Out    struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int `json:"total_tokens"`
}

func newResponseUsage(u agent.Usage) *responseUsage {
	r := &responseUsage{Input: u.InputTokens, Output: u.OutputTokens, Total: u.InputTokens + u.OutputTokens}
	r.In.Cached, r.Out.Reasoning = u.CachedTokens, u.ReasoningTokens
	return r
}

// An outputItem is a message of the agent, or a call of a tool of the client.
type outputItem struct {
	ID        string        `json:"id"`
	Type      string        `json:"type"`
	Status    string        `json:"status"`
	Role      string        `json:"role,omitempty"`
	Content   *[]outputPart `json:"content,omitempty"` // of messages
	CallID    string        `json:"call_id,omitempty"`
	Name      string        `json:"name,omitempty"`
	Arguments *string       `json:"arguments,omitempty"` // of calls
}

type outputPart struct {
	Type        string  `json:"type"`
	Text        *string `json:"text,omitempty"`
	Refusal     *string `json:"refusal,omitempty"`
	Annotations *[]any  `json:"annotations,omitempty"`
}

func textPart(s string) outputPart {
	return outputPart{Type: "output_text", Text: &s, Annotations: &[]any{}}
}

// object is the response as it is now.
func (o *responseOutput) object(status string) *responseObject {
	r := o.req
	object := &responseObject{ID: o.id, Object: "response", Created: o.created, Status: status, Instructions: text(r.Instructions), Metadata: r.Metadata,
		Model: r.Model, Output: slices.Clone(o.items), Parallel: r.Parallel == nil || *r.Parallel, Previous: text(r.Previous), Store: o.kept(),
		Text: map[string]any{"format": textFormat{"text"}}, ToolChoice: json.RawMessage(`"auto"`), Tools: []json.RawMessage{}}
	if given(r.ToolChoice) {
		object.ToolChoice = r.ToolChoice
	}
	if object.Metadata == nil {
		object.Metadata = map[string]string{}
	}
	for _, t := range r.Tools {
		object.Tools = append(object.Tools, encode(struct {
			Type string `json:"type"`
			function
			Strict bool `json:"strict"`
		}{"function", t.function, false}))
	}
	return object
}

// withoutNote returns messages without the instructions of one request: they do not hold
// for the next.
func withoutNote(messages []agent.Message, instructions string) []agent.Message {
	if instructions == "" {
		return messages
	}
	drop := note(instructions).Text
	isNote := func(p agent.Part) bool { return strings.TrimPrefix(p.Text, "\n\n") == drop }
	for i, m := range messages {
		if m.Role == agent.RoleUser && slices.ContainsFunc(m.Parts, isNote) {
			messages[i].Parts = slices.DeleteFunc(slices.Clone(m.Parts), isNote)
		}
	}
	return messages
}
