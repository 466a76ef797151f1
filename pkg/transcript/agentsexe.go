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

// A foreignSession is a session file of agents-exe: turns of the user and of the
// model by turns, the newest first.
type foreignSession struct {
	Turns      []foreignTurn `json:"turns"`
	SessionID  string        `json:"sessionId"`
	ForkedFrom *string       `json:"forkedFromSessionId"`
	TurnID     string        `json:"turnId"`
	Version    int           `json:"sessionVersion,omitempty"`
}

type foreignTurn struct {
	Tag      string          `json:"tag"` // UserTurn, LlmTurn or PartialUserTurn
	Contents json.RawMessage `json:"contents"`
}

type foreignUser struct {
	Prompt    string               `json:"userPrompt"`
	Tools     []json.RawMessage    `json:"userTools"`
	Query     json.RawMessage      `json:"userQuery"`
	Responses [][2]json.RawMessage `json:"userToolResponses"` // call and result
	// Those of a turn that had not ended, in a newer and an older form.
	Tracked   []foreignTracked     `json:"trackedToolCalls,omitempty"`
	Completed [][2]json.RawMessage `json:"completedResponses,omitempty"`
}

// A foreignTracked is a call of a turn that had not ended.
type foreignTracked struct {
	State  string          `json:"state"` // Failed, or another one
	Call   json.RawMessage `json:"call"`
	Result json.RawMessage `json:"result"`
}

type foreignLLM struct {
	Response struct {
		Text     *string         `json:"responseText"`
		Thinking *string         `json:"responseThinking"`
		Raw      json.RawMessage `json:"rawResponse"`
		Usage    *foreignUsage   `json:"responseTokenUsage,omitempty"`
	} `json:"llmResponse"`
	Calls []json.RawMessage `json:"llmToolCalls"`
}

// A foreignRaw is what a chat completions server answered.
type foreignRaw struct {
	Model   string          `json:"model"`
	Created int64           `json:"created"`
	Choices []foreignChoice `json:"choices"`
	Usage   foreignUsage    `json:"usage"`
}

type foreignChoice struct {
	FinishReason string         `json:"finish_reason,omitempty"`
	Message      foreignMessage `json:"message"`
}

type foreignMessage struct {
	Role      string            `json:"role"`
	Content   *string           `json:"content"`
	Reasoning string            `json:"reasoning_content,omitempty"`
	Calls     []json.RawMessage `json:"tool_calls,omitempty"`
}

// A foreignUsage has the names of chat completions and of others: agents-exe keeps
// what the server sent.
type foreignUsage struct {
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

// usage is that of one request.
func (u *foreignUsage) usage() *agent.Usage {
	return &agent.Usage{
		Requests: 1, InputTokens: cmp.Or(u.Prompt, u.Input), OutputTokens: cmp.Or(u.Completion, u.Output),
		CachedTokens: cmp.Or(u.Details.Cached, u.Cached),
	}
}

type foreignCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name string `json:"name"`
		Args string `json:"arguments"`
	} `json:"function"`
}

type foreignMedia struct {
	MIME string `json:"mimeType"`
	Data string `json:"base64Data"`
	// Name must be there, if only as null, for agents-exe to read it.
	Name *string `json:"filename"`
}

// ImportedAgent is the agent of a session of agents-exe, which does not name it.
const ImportedAgent = "imported"

var errNoResult = "error: the session that this was read from has no result of this call"

// FromAgentsExe reads a session file of agents-exe, of any of its versions. What
// has no place in events is lost: turn ids, byte counts, states and policies of
// calls, and of the server's answers all but model, time, usage and reasoning.
// A call without a result gets one that says so, so that it is never run.
func FromAgentsExe(data []byte) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		var s foreignSession
		err := json.Unmarshal(data, &s)
		if err == nil && (s.SessionID == "" || s.Turns == nil) {
			err = errors.New("it has no sessionId and turns")
		}
		if err != nil {
			yield(agent.Event{}, fmt.Errorf("neither events nor a session of agents-exe: %w", err))
			return
		}
		f := &foreigner{id: s.SessionID, at: s.began()}
		f.emit(agent.Event{Kind: agent.EventSession})
		for i, t := range slices.Backward(s.Turns) {
			if err := f.turn(t); err != nil {
				yield(agent.Event{}, fmt.Errorf("turns[%d] (%s): %w", i, t.Tag, err))
				return
			}
			if !f.flush(yield) {
				return
			}
		}
		f.end()
		f.flush(yield)
	}
}

// began is the time of the first answer that has one: questions have none.
func (s *foreignSession) began() time.Time {
	for _, t := range slices.Backward(s.Turns) {
		var l foreignLLM
		var raw foreignRaw
		if t.Tag == "LlmTurn" && json.Unmarshal(t.Contents, &l) == nil && json.Unmarshal(l.Response.Raw, &raw) == nil && raw.Created > 0 {
			return time.Unix(raw.Created, 0).UTC()
		}
	}
	return time.Time{}
}

// A foreigner makes events of turns.
type foreigner struct {
	id    string
	out   []agent.Event
	at    time.Time
	model string
	turns int
	open  []agent.ToolCall // of the last answer
	keys  []string
	done  bool // the last answer asks for nothing
	setup string
}

func (f *foreigner) emit(e agent.Event) {
	e.Time, e.Session, e.Agent = f.at, f.id, ImportedAgent
	f.out = append(f.out, e)
}

func (f *foreigner) flush(yield func(agent.Event, error) bool) bool {
	for _, e := range f.out {
		if !yield(e, nil) {
			return false
		}
	}
	f.out = f.out[:0]
	return true
}

func (f *foreigner) turn(t foreignTurn) error {
	switch t.Tag {
	case "LlmTurn":
		return f.answer(t.Contents)
	case "UserTurn", "PartialUserTurn":
		return f.user(t.Contents)
	}
	return errors.New("an unknown kind of turn")
}

func (f *foreigner) user(contents json.RawMessage) error {
	var u foreignUser
	if err := json.Unmarshal(contents, &u); err != nil {
		return err
	}
	for _, r := range append(u.Responses, u.Completed...) {
		if err := f.result(r[0], r[1], false); err != nil {
			return err
		}
	}
	for _, t := range u.Tracked {
		if err := f.result(t.Call, t.Result, t.State == "Failed"); err != nil {
			return err
		}
	}
	f.close()
	if present(u.Query) {
		m, err := foreignQuery(u.Query)
		if err != nil {
			return err
		}
		if f.done {
			f.end()
		}
		f.emit(agent.Event{Kind: agent.EventMessage, Message: m})
	}
	f.tell(u)
	return nil
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// foreignQuery is a text, or a text with media.
func foreignQuery(raw json.RawMessage) (*agent.Message, error) {
	var q struct {
		Text  string         `json:"text"`
		Media []foreignMedia `json:"media"`
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

func (m foreignMedia) part() (agent.Part, error) {
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

// tell says with what the model is asked, if that is new.
func (f *foreigner) tell(u foreignUser) {
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s", len(u.Prompt), u.Prompt)
	e := agent.Event{Kind: agent.EventSetup, Model: f.model, System: u.Prompt}
	for _, raw := range u.Tools {
		if spec, ok := foreignTool(raw); ok {
			fmt.Fprintf(h, "%d:%s%d:%s%d:%s", len(spec.Name), spec.Name, len(spec.Description), spec.Description, len(spec.Schema), spec.Schema)
			e.Specs = append(e.Specs, spec)
		}
	}
	e.Digest = fmt.Sprintf("sha256:%x", h.Sum(nil))
	if e.Digest != f.setup {
		f.setup = e.Digest
		f.emit(e)
	}
}

// foreignTool is a tool as it stood in requests: {"tag":"V1","contents":{"raw":…}},
// {"tag":"V0","contents":…}.
func foreignTool(raw json.RawMessage) (agent.ToolSpec, bool) {
	var t struct {
		Tag      string          `json:"tag"`
		Contents json.RawMessage `json:"contents"`
	}
	var inner struct {
		Raw json.RawMessage `json:"raw"`
	}
	var request struct {
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	if json.Unmarshal(raw, &t) != nil {
		return agent.ToolSpec{}, false
	}
	if json.Unmarshal(t.Contents, &inner) == nil && inner.Raw != nil {
		t.Contents = inner.Raw
	}
	if json.Unmarshal(t.Contents, &request) != nil || request.Function.Name == "" {
		return agent.ToolSpec{}, false
	}
	return agent.ToolSpec{Name: request.Function.Name, Description: request.Function.Description, Schema: request.Function.Parameters}, true
}

func (f *foreigner) answer(contents json.RawMessage) error {
	var l foreignLLM
	if err := json.Unmarshal(contents, &l); err != nil {
		return err
	}
	f.close()
	var raw foreignRaw
	_ = json.Unmarshal(l.Response.Raw, &raw) // whatever the server sent
	if raw.Created > 0 {
		f.at = time.Unix(raw.Created, 0).UTC()
	}
	if raw.Model != "" {
		f.model = raw.Model
	}
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
	f.turns++
	seen := map[string]bool{}
	for i, rawCall := range l.Calls {
		var c foreignCall
		if err := json.Unmarshal(rawCall, &c); err != nil {
			return fmt.Errorf("llmToolCalls[%d]: %w", i, err)
		}
		if c.ID == "" || seen[c.ID] {
			c.ID = fmt.Sprintf("c%05d%03d", f.turns, i)
		}
		seen[c.ID] = true
		m.Calls = append(m.Calls, agent.ToolCall{ID: c.ID, Name: c.Function.Name, Args: c.Function.Args})
	}
	f.open, f.keys, f.done = slices.Clone(m.Calls), nil, len(m.Calls) == 0
	for i := range f.open {
		f.keys = append(f.keys, fmt.Sprintf("%s.%d.%d", f.id, f.turns, i+1))
	}
	usage := &raw.Usage
	if l.Response.Usage != nil {
		usage = l.Response.Usage
	}
	f.emit(agent.Event{Kind: agent.EventAnswer, Turn: f.turns, Model: f.model, Message: m, Finish: agent.FinishStop, Usage: usage.usage()})
	return nil
}

// result answers a call of the last answer: that of its id, or the first of its
// name and arguments, or the first.
func (f *foreigner) result(rawCall, rawResult json.RawMessage, failed bool) error {
	var c foreignCall
	_ = json.Unmarshal(rawCall, &c)
	i := slices.IndexFunc(f.open, func(o agent.ToolCall) bool { return o.ID == c.ID && c.ID != "" })
	if i < 0 {
		i = slices.IndexFunc(f.open, func(o agent.ToolCall) bool {
			return o.ID != "" && o.Name == c.Function.Name && o.Args == c.Function.Args
		})
	}
	if i < 0 || !present(rawResult) {
		return nil // what was not asked for has no place; what is open is closed
	}
	parts, err := foreignParts(rawResult)
	if err != nil {
		return fmt.Errorf("the result of %s: %w", c.Function.Name, err)
	}
	f.answered(i, &agent.ToolResult{Failed: failed, Parts: parts})
	return nil
}

func (f *foreigner) answered(i int, r *agent.ToolResult) {
	c := f.open[i]
	r.CallID, r.Name = c.ID, c.Name
	f.emit(agent.Event{Kind: agent.EventCallEnded, Turn: f.turns, CallID: c.ID, Tool: c.Name, Args: c.Args, Key: f.keys[i], N: i + 1, Result: r})
	f.open[i] = agent.ToolCall{}
}

// close gives every open call a result.
func (f *foreigner) close() {
	for i, c := range f.open {
		if c.ID != "" {
			f.answered(i, &agent.ToolResult{Failed: true, Parts: []agent.Part{agent.Text(errNoResult)}})
		}
	}
	f.open = nil
}

func (f *foreigner) end() {
	f.close()
	if f.done {
		f.emit(agent.Event{Kind: agent.EventEnd, Status: agent.StatusOK})
		f.done = false
	}
}

// foreignParts reads a result: {"type":"text","content":…}, "json", "media" and
// "mixed" with "parts", and the older {"_userToolResponse":…} or any value, also one
// that only looks like the newer form.
func foreignParts(raw json.RawMessage) ([]agent.Part, error) {
	var r struct {
		Type    string          `json:"type"`
		Content json.RawMessage `json:"content"`
		Parts   []struct {
			Type    string          `json:"type"`
			Content json.RawMessage `json:"content"`
		} `json:"parts"`
		Old json.RawMessage `json:"_userToolResponse"`
		foreignMedia
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return []agent.Part{agent.Text(foreignText(raw))}, nil
	}
	switch {
	case r.Type == "media" && r.MIME != "":
		p, err := r.part()
		return []agent.Part{p}, err
	case r.Type == "mixed" && r.Parts != nil:
		var parts []agent.Part
		for _, p := range r.Parts {
			if p.Type != "media" {
				parts = append(parts, agent.Text(foreignText(p.Content)))
				continue
			}
			var m foreignMedia
			if err := json.Unmarshal(p.Content, &m); err != nil {
				return nil, err
			}
			part, err := m.part()
			if err != nil {
				return nil, err
			}
			parts = append(parts, part)
		}
		return parts, nil
	case r.Type == "json" && r.Content != nil, r.Type == "text" && bytes.HasPrefix(r.Content, []byte(`"`)):
		raw = r.Content
	case r.Old != nil:
		raw = r.Old
	}
	return []agent.Part{agent.Text(foreignText(raw))}, nil
}

// foreignText is a JSON string's text, or the JSON of any other value.
func foreignText(raw json.RawMessage) string {
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
