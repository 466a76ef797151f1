package transcript

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// The types whose names begin with exe are the JSON of a session file of
// agents-exe.

// An exeSession has turns of the user and of the model, alternating, the newest
// first.
type exeSession struct {
	Turns      []exeTurn `json:"turns"`
	SessionID  string    `json:"sessionId"`
	ForkedFrom *string   `json:"forkedFromSessionId"`
	TurnID     string    `json:"turnId"`
	Version    int       `json:"sessionVersion,omitempty"`
}

type exeTurn struct {
	Tag      string          `json:"tag"`      // UserTurn, LlmTurn or PartialUserTurn
	Contents json.RawMessage `json:"contents"` // exeUser or exeLLM
}

type exeUser struct {
	Prompt    string               `json:"userPrompt"`
	Tools     []json.RawMessage    `json:"userTools"`
	Query     json.RawMessage      `json:"userQuery"`
	Responses [][2]json.RawMessage `json:"userToolResponses"` // call and result
	// Those of a turn that had not ended, in a newer and an older form.
	Tracked   []exeTracked         `json:"trackedToolCalls,omitempty"`
	Completed [][2]json.RawMessage `json:"completedResponses,omitempty"`
}

// An exeTracked is a call of a turn that had not ended.
type exeTracked struct {
	State  string          `json:"state"` // Failed, or another one
	Call   json.RawMessage `json:"call"`
	Result json.RawMessage `json:"result"`
}

type exeLLM struct {
	Response struct {
		Text     *string         `json:"responseText"`
		Thinking *string         `json:"responseThinking"`
		Raw      json.RawMessage `json:"rawResponse"` // exeRaw
		Usage    *exeUsage       `json:"responseTokenUsage,omitempty"`
	} `json:"llmResponse"`
	Calls []json.RawMessage `json:"llmToolCalls"` // chatCall
}

// An exeRaw is the response of a chat completions server.
type exeRaw struct {
	Model   string      `json:"model"`
	Created int64       `json:"created"`
	Choices []exeChoice `json:"choices"`
	Usage   exeUsage    `json:"usage"`
}

type exeChoice struct {
	FinishReason string `json:"finish_reason,omitempty"`
	Message      struct {
		Role      string            `json:"role"`
		Content   *string           `json:"content"`
		Reasoning string            `json:"reasoning_content,omitempty"`
		Calls     []json.RawMessage `json:"tool_calls,omitempty"`
	} `json:"message"`
}

// An exeUsage has the names of chat completions and of others: agents-exe keeps
// what the server sent.
type exeUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Input      int `json:"input_tokens,omitempty"`
	Output     int `json:"output_tokens,omitempty"`
	Cached     int `json:"cached_tokens,omitempty"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func (u *exeUsage) usage() *agent.Usage {
	return &agent.Usage{
		Requests: 1, InputTokens: cmp.Or(u.Prompt, u.Input), OutputTokens: cmp.Or(u.Completion, u.Output),
		CachedTokens: cmp.Or(u.Details.Cached, u.Cached),
	}
}

type exeMedia struct {
	MIME string `json:"mimeType"`
	Data string `json:"base64Data"`
	// Name must be present for agents-exe to read it, if only as null.
	Name *string `json:"filename"`
}

func (m exeMedia) part() (agent.Part, error) {
	data, err := base64.StdEncoding.DecodeString(m.Data)
	if err != nil {
		return agent.Part{}, fmt.Errorf("media: %w", err)
	}
	p := agent.Part{Kind: agent.PartMedia, MIME: m.MIME, Data: data}
	if m.Name != nil {
		p.Name = *m.Name
	}
	return p, nil
}

// ImportedAgent is the agent of imported sessions: agents-exe does not store its name.
const ImportedAgent = "imported"

const removedText = "[the messages before this one were removed from this session]"

const errNoResult = "error: the imported session has no result for this call"

// FromAgentsExe reads a session file of agents-exe, of any of its versions. Data
// without a field in events is lost: turn ids, byte counts, states and policies of
// calls, and everything in the server's answers except model, time, usage and
// reasoning. A call without a result gets one that says so, so that it is never run.
func FromAgentsExe(data []byte) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		x := &importer{}
		err := x.read(data)
		for _, e := range x.out {
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(agent.Event{}, err)
		}
	}
}

type importer struct {
	id      string
	out     []agent.Event
	at      time.Time
	model   string
	turns   int
	pending []agent.ToolCall // of the last answer; without ID once it has a result
	done    bool             // the last answer has no calls
	asked   bool             // the last prompt is not answered completely
	setup   string           // digest
}

func (x *importer) read(data []byte) error {
	var s exeSession
	err := json.Unmarshal(data, &s)
	if err == nil && (s.SessionID == "" || s.Turns == nil) {
		err = errors.New("sessionId or turns is missing")
	}
	if err != nil {
		return fmt.Errorf("neither events nor a session of agents-exe: %w", err)
	}
	x.id, x.at = s.SessionID, s.began()
	x.emit(agent.Event{Kind: agent.EventSession})
	for i, t := range slices.Backward(s.Turns) {
		var withUsage []json.RawMessage // contents and byte counts, in an older form
		if json.Unmarshal(t.Contents, &withUsage) == nil && len(withUsage) > 0 {
			t.Contents = withUsage[0]
		}
		switch t.Tag {
		case "LlmTurn":
			err = x.answer(t.Contents)
		case "UserTurn", "PartialUserTurn":
			err = x.user(t.Contents)
		default:
			err = errors.New("unknown kind of turn")
		}
		if err != nil {
			return fmt.Errorf("turns[%d] (%s): %w", i, t.Tag, err)
		}
	}
	x.end()
	return nil
}

// began returns the time of the first answer that has one. Prompts have no time.
func (s *exeSession) began() time.Time {
	for _, t := range slices.Backward(s.Turns) {
		var l exeLLM
		var raw exeRaw
		if t.Tag == "LlmTurn" && json.Unmarshal(t.Contents, &l) == nil && json.Unmarshal(l.Response.Raw, &raw) == nil && raw.Created > 0 {
			return time.Unix(raw.Created, 0).UTC()
		}
	}
	return time.Time{}
}

func (x *importer) emit(e agent.Event) {
	e.Time, e.Session, e.Agent = x.at, x.id, ImportedAgent
	x.out = append(x.out, e)
}

func (x *importer) user(contents json.RawMessage) error {
	var u exeUser
	if err := json.Unmarshal(contents, &u); err != nil {
		return err
	}
	for _, r := range append(u.Responses, u.Completed...) {
		if err := x.result(r[0], r[1], false); err != nil {
			return err
		}
	}
	for _, t := range u.Tracked {
		if err := x.result(t.Call, t.Result, t.State == "Failed"); err != nil {
			return err
		}
	}
	x.answerPending()
	if present(u.Query) {
		m, err := exeQuery(u.Query)
		if err != nil {
			return err
		}
		x.end()
		x.emit(agent.Event{Kind: agent.EventMessage, Message: m})
		x.asked = true
	}
	x.emitSetup(u)
	return nil
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// exeQuery reads a prompt: a text, or a text with media.
func exeQuery(raw json.RawMessage) (*agent.Message, error) {
	var q struct {
		Text  string     `json:"text"`
		Media []exeMedia `json:"media"`
	}
	if err := json.Unmarshal(raw, &q.Text); err != nil {
		if err := json.Unmarshal(raw, &q); err != nil {
			return nil, fmt.Errorf("userQuery: %w", err)
		}
	}
	m := agent.UserText(q.Text)
	for _, media := range q.Media {
		p, err := media.part()
		if err != nil {
			return nil, err
		}
		m.Parts = append(m.Parts, p)
	}
	return &m, nil
}

// emitSetup adds the system prompt and the tools, if they have changed.
func (x *importer) emitSetup(u exeUser) {
	e := agent.Event{Kind: agent.EventSetup, Model: x.model, System: u.Prompt}
	for _, raw := range u.Tools {
		if spec, ok := exeTool(raw); ok {
			e.Specs = append(e.Specs, spec)
		}
	}
	e.Digest = fmt.Sprintf("sha256:%x", sha256.Sum256(encoded([]any{e.System, e.Specs})))
	if e.Digest != x.setup {
		x.setup = e.Digest
		x.emit(e)
	}
}

// exeTool reads a tool as it was in requests: {"tag":"V1","contents":{"raw":…}} or
// {"tag":"V0","contents":…}.
func exeTool(raw json.RawMessage) (agent.ToolSpec, bool) {
	type request struct {
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	var t struct {
		Contents struct {
			request
			Raw *request `json:"raw"`
		} `json:"contents"`
	}
	if json.Unmarshal(raw, &t) != nil {
		return agent.ToolSpec{}, false
	}
	f := t.Contents.Function
	if t.Contents.Raw != nil {
		f = t.Contents.Raw.Function
	}
	return agent.ToolSpec{Name: f.Name, Description: f.Description, Schema: f.Parameters}, f.Name != ""
}

func (x *importer) answer(contents json.RawMessage) error {
	var l exeLLM
	if err := json.Unmarshal(contents, &l); err != nil {
		return err
	}
	x.answerPending()
	if !x.asked || x.done { // what it answers was edited out
		x.end()
		m := agent.UserText(removedText)
		x.emit(agent.Event{Kind: agent.EventMessage, Message: &m})
		x.asked = true
	}
	var raw exeRaw
	_ = json.Unmarshal(l.Response.Raw, &raw) // it can have any form
	if raw.Created > 0 {
		x.at = time.Unix(raw.Created, 0).UTC()
	}
	x.model = cmp.Or(raw.Model, x.model)
	m := &agent.Message{Role: agent.RoleAssistant}
	thinking := ""
	if l.Response.Thinking != nil {
		thinking = *l.Response.Thinking
	} else if len(raw.Choices) > 0 {
		thinking = raw.Choices[0].Message.Reasoning
	}
	if thinking != "" {
		m.Parts = append(m.Parts, agent.Part{Kind: agent.PartReasoning, Text: thinking})
	}
	if l.Response.Text != nil && *l.Response.Text != "" {
		m.Parts = append(m.Parts, agent.Text(*l.Response.Text))
	}
	x.turns++
	seen := map[string]bool{}
	for i, rawCall := range l.Calls {
		var c chatCall
		if err := json.Unmarshal(rawCall, &c); err != nil {
			return fmt.Errorf("llmToolCalls[%d]: %w", i, err)
		}
		if c.ID == "" || seen[c.ID] {
			c.ID = fmt.Sprintf("c%05d%03d", x.turns, i)
		}
		seen[c.ID] = true
		m.Calls = append(m.Calls, agent.ToolCall{ID: c.ID, Name: c.Function.Name, Args: c.Function.Args})
	}
	x.pending, x.done = slices.Clone(m.Calls), len(m.Calls) == 0
	usage := cmp.Or(l.Response.Usage, &raw.Usage).usage()
	x.emit(agent.Event{Kind: agent.EventAnswer, Turn: x.turns, Model: x.model, Message: m, Finish: agent.FinishStop, Usage: usage})
	return nil
}

// result adds the result of a call of the last answer: the call with its id, otherwise
// the first with its name and arguments. Results without such a call are dropped.
func (x *importer) result(rawCall, rawResult json.RawMessage, failed bool) error {
	var c chatCall
	_ = json.Unmarshal(rawCall, &c)
	i := slices.IndexFunc(x.pending, func(p agent.ToolCall) bool { return p.ID == c.ID && c.ID != "" })
	if i < 0 {
		i = slices.IndexFunc(x.pending, func(p agent.ToolCall) bool {
			return p.ID != "" && p.Name == c.Function.Name && p.Args == c.Function.Args
		})
	}
	if i < 0 || !present(rawResult) {
		return nil
	}
	parts, err := exeResult(rawResult)
	if err != nil {
		return fmt.Errorf("the result of %s: %w", c.Function.Name, err)
	}
	x.emitResult(i, &agent.ToolResult{Failed: failed, Parts: parts, Toolgroups: activated(x.pending[i])})
	return nil
}

// activated is the toolgroup that a call activates or deactivates: see package activate.
func activated(c agent.ToolCall) agent.Toolgroups {
	var args struct{ Toolgroup string }
	active, changes := map[string]bool{"meta_activate_tool": true, "meta_deactivate_tool": false}[c.Name]
	if !changes || json.Unmarshal([]byte(c.Args), &args) != nil || args.Toolgroup == "" {
		return nil
	}
	return agent.Toolgroups{args.Toolgroup: active}
}

func (x *importer) emitResult(i int, r *agent.ToolResult) {
	c := x.pending[i]
	r.CallID, r.Name = c.ID, c.Name
	x.emit(agent.Event{Kind: agent.EventCallEnded, Turn: x.turns, CallID: c.ID, Tool: c.Name, Args: c.Args,
		Key: fmt.Sprintf("%s.%d.%d", x.id, x.turns, i+1), N: i + 1, Result: r})
	x.pending[i] = agent.ToolCall{}
}

// answerPending gives every call without a result one that says so.
func (x *importer) answerPending() {
	for i, c := range x.pending {
		if c.ID != "" {
			x.emitResult(i, &agent.ToolResult{Failed: true, Parts: []agent.Part{agent.Text(errNoResult)}})
		}
	}
	x.pending = nil
}

// end adds an end event if the last answer ended the run.
func (x *importer) end() {
	x.answerPending()
	if x.done {
		x.emit(agent.Event{Kind: agent.EventEnd, Status: agent.StatusOK})
		x.done, x.asked = false, false
	}
}

// An exeContent is a result, or a part of one: {"type":"text","content":…}, "json",
// "media" and "mixed" with "parts", and the older {"_userToolResponse":…}.
type exeContent struct {
	Type    string          `json:"type"`
	Content json.RawMessage `json:"content"`
	Parts   []exeContent    `json:"parts"`
	Old     json.RawMessage `json:"_userToolResponse"`
	exeMedia
}

// exeResult reads a result: an exeContent, or any other value, even one that resembles
// it.
func exeResult(raw json.RawMessage) ([]agent.Part, error) {
	var r exeContent
	if err := json.Unmarshal(raw, &r); err != nil {
		return []agent.Part{agent.Text(exeText(raw))}, nil
	}
	switch {
	case r.Type == "media" && r.MIME != "":
		p, err := r.part()
		return []agent.Part{p}, err
	case r.Type == "mixed" && r.Parts != nil:
		var parts []agent.Part
		for _, p := range r.Parts {
			part := agent.Text(exeText(p.Content))
			if p.Type == "media" {
				var m exeMedia
				err := json.Unmarshal(p.Content, &m)
				if err == nil {
					part, err = m.part()
				}
				if err != nil {
					return nil, err
				}
			}
			parts = append(parts, part)
		}
		return parts, nil
	case r.Type == "json" && r.Content != nil, r.Type == "text" && bytes.HasPrefix(r.Content, []byte(`"`)):
		raw = r.Content
	case r.Old != nil:
		raw = r.Old
	}
	return []agent.Part{agent.Text(exeText(raw))}, nil
}

// exeText returns the text of a JSON string, or the JSON of any other value.
func exeText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
