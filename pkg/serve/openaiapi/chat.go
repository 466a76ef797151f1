package openaiapi

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A chatRequest has the parameters of chat completions that have an effect here. All
// others are ignored: the agent file says how the model is asked.
type chatRequest struct {
	Model         string          `json:"model"`
	Messages      []chatMessage   `json:"messages"`
	Tools         []clientTool    `json:"tools"`
	ToolChoice    json.RawMessage `json:"tool_choice"`
	Parallel      *bool           `json:"parallel_tool_calls"`
	Stream        bool            `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`

	N              *int            `json:"n"`
	Logprobs       bool            `json:"logprobs"`
	Modalities     []string        `json:"modalities"`
	ResponseFormat textFormat      `json:"response_format"`
	Stop           json.RawMessage `json:"stop"`
	Functions      json.RawMessage `json:"functions"`
	WebSearch      json.RawMessage `json:"web_search_options"`
}

type textFormat struct {
	Type string `json:"type"`
}

func (f textFormat) plain() bool { return f.Type == "" || f.Type == "text" }

type chatMessage struct {
	Role     string          `json:"role"`
	Content  json.RawMessage `json:"content"`
	Refusal  string          `json:"refusal,omitempty"`
	Calls    []chatCall      `json:"tool_calls"`
	CallID   string          `json:"tool_call_id"`
	Function json.RawMessage `json:"function_call"`
}

type chatCall struct {
	Index    *int   `json:"index,omitempty"` // in a stream
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name string `json:"name"`
		Args string `json:"arguments"`
	} `json:"function"`
}

// refused returns the error for a parameter that asks for a form of answer that an agent
// does not have.
func (r *chatRequest) refused() error {
	switch {
	case r.N != nil && *r.N != 1:
		return unsupported("n", "a run has one answer")
	case r.Logprobs:
		return unsupported("logprobs", "agents have none")
	case len(r.Modalities) > 1, len(r.Modalities) == 1 && r.Modalities[0] != "text":
		return unsupported("modalities", "agents answer with text")
	case !r.ResponseFormat.plain():
		return unsupported("response_format", "the agent file decides the form of the answer; want text")
	case given(r.Stop):
		return unsupported("stop", "the answer of an agent cannot be cut")
	case given(r.Functions):
		return unsupported("functions", "use tools")
	case given(r.WebSearch):
		return unsupported("web_search_options", "the agent has tools of its own")
	case len(r.Messages) == 0:
		return missing("messages")
	}
	return nil
}

func (r *chatRequest) thread() (*thread, error) {
	if err := r.refused(); err != nil {
		return nil, err
	}
	t := &thread{}
	for i, m := range r.Messages {
		param := fmt.Sprintf("messages[%d]", i)
		parts, err := parseContent(m.Content, param+".content")
		if err == nil {
			err = m.add(t, parts, param)
		}
		if err != nil {
			return nil, err
		}
	}
	return t, t.finish("messages")
}

func (m *chatMessage) add(t *thread, parts []agent.Part, param string) error {
	switch m.Role {
	case "system", "developer":
		t.system(parts)
		return nil
	case "user":
		return t.user(parts)
	case "tool":
		return t.result(m.CallID, parts)
	case "assistant":
		if given(m.Function) {
			return unsupported(param+".function_call", "use tool_calls")
		}
		if m.Refusal != "" {
			parts = append(parts, agent.Text(m.Refusal))
		}
		var calls []agent.ToolCall
		for _, c := range m.Calls {
			calls = append(calls, agent.ToolCall{ID: c.ID, Name: c.Function.Name, Args: c.Function.Args})
		}
		return t.assistant(parts, calls...)
	}
	return invalid(param+".role", "invalid_value", "%s: the role %.50q is unknown: want system, developer, user, assistant or tool", param, m.Role)
}

// chat answers a request for a chat completion.
func (h *Handler) chat(w http.ResponseWriter, r *http.Request) {
	var req chatRequest
	c, err := h.openChat(w, r, &req)
	if err != nil {
		writeError(w, err)
		return
	}
	out := &chatOutput{w: w, model: req.Model, id: "chatcmpl-" + rand.Text(), created: time.Now().Unix(), usage: req.StreamOptions.IncludeUsage}
	if req.Stream {
		out.stream = &stream{w: w}
	}
	h.respond(r, c, out)
}

func (h *Handler) openChat(w http.ResponseWriter, r *http.Request, req *chatRequest) (*conversation, error) {
	if err := h.decode(w, r, req); err != nil {
		return nil, err
	}
	spec, err := h.find(req.Model)
	if err != nil {
		return nil, err
	}
	t, err := req.thread()
	if err != nil {
		return nil, err
	}
	tools, err := toolSpecs(req.Tools, req.ToolChoice)
	if err != nil {
		return nil, err
	}
	return h.open(r, t, spec, tools, req.Parallel != nil && !*req.Parallel)
}

// A chatOutput writes a chat completion, or with a stream its chunks.
type chatOutput struct {
	*stream // nil: the response is one object
	w       http.ResponseWriter
	model   string
	id      string
	created int64
	usage   bool // the last chunk has the usage
	opened  bool // the first chunk was sent
	parted  bool // the text of a turn was sent, and the next is another's
}

type chatObject struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *chatUsage   `json:"usage,omitempty"`
	Agents  *extension   `json:"agents,omitempty"`
}

type chatChoice struct {
	Index   int         `json:"index"`
	Message *chatAnswer `json:"message,omitempty"`
	Delta   *chatDelta  `json:"delta,omitempty"`
	Finish  *string     `json:"finish_reason"`
}

type chatAnswer struct {
	Role    string     `json:"role"`
	Content *string    `json:"content"`
	Refusal *string    `json:"refusal"`
	Calls   []chatCall `json:"tool_calls,omitempty"`
}

type chatDelta struct {
	Role    string     `json:"role,omitempty"`
	Content *string    `json:"content,omitempty"`
	Refusal *string    `json:"refusal,omitempty"`
	Calls   []chatCall `json:"tool_calls,omitempty"`
}

type chatUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	In         struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Out struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func newChatUsage(u agent.Usage) *chatUsage {
	c := &chatUsage{Prompt: u.InputTokens, Completion: u.OutputTokens, Total: u.InputTokens + u.OutputTokens}
	c.In.Cached, c.Out.Reasoning = u.CachedTokens, u.ReasoningTokens
	return c
}

// chunk sends a piece of the answer. The first piece is preceded by the role.
func (o *chatOutput) chunk(d chatDelta, finish *string, extra *extension) {
	if o.stream == nil {
		return
	}
	if !o.opened {
		o.opened = true
		o.send([]chatChoice{{Delta: &chatDelta{Role: "assistant", Content: new(string)}}}, nil, nil)
	}
	o.send([]chatChoice{{Delta: &d, Finish: finish}}, nil, extra)
}

func (o *chatOutput) send(choices []chatChoice, usage *chatUsage, extra *extension) {
	o.stream.send("", chatObject{o.id, "chat.completion.chunk", o.created, o.model, choices, usage, extra})
}

func (o *chatOutput) text(piece string, again bool) {
	if o.parted || again {
		piece = "\n\n" + piece
	}
	o.parted = false
	o.chunk(chatDelta{Content: &piece}, nil, nil)
}

func (o *chatOutput) turn() { o.parted = true }

func (o *chatOutput) idle() { o.comment() }

func (o *chatOutput) keep(*conversation) {}

func (o *chatOutput) finish(r *reply, short string) {
	reason := cmp.Or(short, "stop")
	var calls []chatCall
	for i, c := range r.calls {
		reason = "tool_calls"
		k := chatCall{ID: c.id, Type: "function"}
		k.Function.Name, k.Function.Args = c.name, c.args
		if o.stream != nil {
			k.Index = &i
		}
		calls = append(calls, k)
	}
	refusal := text(r.refusal())
	if o.stream == nil {
		m := &chatAnswer{Role: "assistant", Content: &r.text, Refusal: refusal, Calls: calls}
		if r.text == "" && (calls != nil || refusal != nil) {
			m.Content = nil
		}
		writeJSON(o.w, http.StatusOK, chatObject{o.id, "chat.completion", o.created, o.model,
			[]chatChoice{{Message: m, Finish: &reason}}, newChatUsage(r.usage), &r.extra})
		return
	}
	if calls != nil || refusal != nil {
		o.chunk(chatDelta{Calls: calls, Refusal: refusal}, nil, nil)
	}
	o.chunk(chatDelta{}, &reason, &r.extra)
	if o.usage {
		o.send([]chatChoice{}, newChatUsage(r.usage), nil)
	}
	o.done()
}

func (o *chatOutput) fail(err error) {
	if o.stream == nil || !o.begun {
		writeError(o.w, err)
		return
	}
	o.stream.send("", map[string]any{"error": asAPIError(err)})
}
