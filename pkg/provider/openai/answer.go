package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// An answer is put together from chunks.
type answer struct {
	text      text
	reasoning text
	// name is the member that the reasoning came in; the first one counts,
	// since some servers write the same text into two.
	name    string
	details []*detail
	extra   json.RawMessage // extra_content of the message
	calls   calls
	finish  string
	usage   *usage
	model   string
	chunks  int
	ended   bool // the server said [DONE]
	emit    func(agent.Delta)
}

// add takes in the JSON of one chunk.
func (a *answer) add(data []byte) error {
	if list := elements(data); len(list) > 0 {
		data = list[0] // Gemini sends its errors in a list
	}
	var c chunk
	if err := decodeJSON(data, &c); err != nil {
		return broken(fmt.Sprintf("the server sent a piece that is no JSON (%v): %s", err, shorten(string(data), 200)))
	}
	if isError(&c) {
		return answerError(data)
	}
	a.chunks++
	if a.model == "" {
		a.model = string(c.Model)
	}
	if c.Usage != nil {
		a.usage = c.Usage
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // we ask for one answer
		}
		if err := a.choice(&choice); err != nil {
			return err
		}
	}
	a.show()
	return nil
}

// isError reports whether a chunk says that something failed. A null error is
// none; nor is a member that stands beside an answer.
func isError(c *chunk) bool {
	switch firstByte(c.Error) {
	case '{', '[':
		return len(strings.TrimSpace(string(c.Error))) > 2
	case '"':
		return string(c.Error) != emptyString
	case 't':
		return true
	}
	if len(c.Choices) > 0 || c.Usage != nil {
		return false
	}
	detail := firstByte(c.Detail)
	return c.Object == "error" || firstByte(c.Message) == '"' || detail == '"' || detail == '[' || detail == '{'
}

func (a *answer) choice(c *choice) error {
	if c.Usage != nil {
		a.usage = c.Usage
	}
	if c.FinishReason != "" {
		a.finish = string(c.FinishReason)
	}
	d := c.Delta
	if d == nil && a.begun() {
		return nil // a server that repeats the whole message at the end
	}
	if d == nil {
		d = c.Message
	}
	if d == nil {
		return nil
	}
	a.content(d.Content)
	a.content(d.Refusal)
	a.think(d)
	if len(d.ExtraContent) > 0 && firstByte(d.ExtraContent) == '{' {
		a.extra = d.ExtraContent
	}
	if d.FunctionCall != nil {
		if err := a.calls.add(&callDelta{Function: d.FunctionCall}, 0); err != nil {
			return err
		}
	}
	for i, raw := range elements(d.ToolCalls) {
		var piece callDelta
		if decodeJSON(raw, &piece) != nil {
			continue
		}
		if err := a.calls.add(&piece, i); err != nil {
			return err
		}
	}
	return nil
}

// A contentPart is an element of a content that is a list. What Mistral thinks
// is a list of its own.
type contentPart struct {
	Type     str             `json:"type"`
	Text     json.RawMessage `json:"text"`
	Thinking json.RawMessage `json:"thinking"`
	Refusal  json.RawMessage `json:"refusal"`
}

func (a *answer) content(raw json.RawMessage) {
	for _, element := range elements(raw) {
		if firstByte(element) == '"' {
			a.text.add(element)
			continue
		}
		var p contentPart
		if decodeJSON(element, &p) != nil {
			continue
		}
		addStrings(&a.text, p.Text, p.Refusal)
		for _, thought := range elements(p.Thinking) {
			var inner contentPart
			if firstByte(thought) == '{' && decodeJSON(thought, &inner) == nil {
				thought = inner.Text
			}
			addStrings(&a.reasoning, thought)
		}
	}
}

func addStrings(t *text, raws ...json.RawMessage) {
	for _, raw := range raws {
		if firstByte(raw) == '"' {
			t.add(raw)
		}
	}
}

// think takes in reasoning.
func (a *answer) think(d *delta) {
	found := false
	for _, m := range []struct {
		name string
		raw  json.RawMessage
	}{{reasoningContent, d.ReasoningContent}, {"reasoning", d.Reasoning}} {
		if firstByte(m.raw) != '"' || string(m.raw) == emptyString || a.name != "" && a.name != m.name {
			continue
		}
		a.name, found = m.name, true
		a.reasoning.add(m.raw)
	}
	for _, raw := range elements(d.ReasoningDetails) {
		next, ok := newDetail(raw)
		if !ok {
			continue
		}
		if !found && a.name == "" {
			a.reasoning.buf = append(a.reasoning.buf, next.text.buf...)
		}
		if n := len(a.details); n == 0 || !a.details[n-1].join(next) {
			a.details = append(a.details, next)
		}
	}
}

// begun reports whether anything of the answer has arrived.
func (a *answer) begun() bool {
	return len(a.text.buf) > 0 || len(a.reasoning.buf) > 0 || len(a.calls.list) > 0 || len(a.details) > 0
}

// show emits what is new.
func (a *answer) show() {
	if s := a.reasoning.fresh(); s != "" {
		a.emit(agent.Delta{Kind: agent.DeltaReasoning, Text: s})
	}
	if s := a.text.fresh(); s != "" {
		a.emit(agent.Delta{Kind: agent.DeltaText, Text: s})
	}
}

// complete reports whether the answer is whole: the server said why it
// finished. Some never do; then [DONE] stands for it, if nothing is cut.
func (a *answer) complete() bool {
	return a.finish != "" || a.ended && a.begun() && a.calls.whole()
}

// response is the answer, if it is complete.
func (a *answer) response() (*agent.Response, error) {
	if s := a.reasoning.rest(); s != "" {
		a.emit(agent.Delta{Kind: agent.DeltaReasoning, Text: s})
	}
	if s := a.text.rest(); s != "" {
		a.emit(agent.Delta{Kind: agent.DeltaText, Text: s})
	}
	switch {
	case a.chunks > 0 && a.ended && !a.begun() && a.finish == "":
		return nil, broken("the server's answer has no choices")
	case !a.complete():
		return nil, broken("the answer broke off before its end")
	}
	finish, ok := finishes[strings.ToLower(a.finish)]
	if !ok {
		finish = agent.FinishStop
	}
	if finish == finishError {
		return nil, broken(fmt.Sprintf("the server gave up in the middle of the answer (finish_reason %s)", a.finish))
	}
	resp := &agent.Response{Finish: finish, Model: a.model, Usage: agent.Usage{Requests: 1}}
	resp.Message = agent.Message{Role: agent.RoleAssistant, Parts: a.parts(), Calls: a.calls.toolCalls()}
	if a.usage != nil {
		resp.Usage = a.usage.count()
	}
	return resp, nil
}

const finishError agent.Finish = "error"

// finishes are the reasons that servers give besides those which mean that the
// model had said all.
var finishes = map[string]agent.Finish{
	"length":                       agent.FinishLength,
	"max_tokens":                   agent.FinishLength,
	"max_output_tokens":            agent.FinishLength,
	"model_length":                 agent.FinishLength,
	"content_filter":               agent.FinishContentFilter,
	"safety":                       agent.FinishContentFilter,
	"recitation":                   agent.FinishContentFilter,
	"prohibited_content":           agent.FinishContentFilter,
	"blocklist":                    agent.FinishContentFilter,
	"sensitive":                    agent.FinishContentFilter,
	"refusal":                      agent.FinishContentFilter,
	"error":                        finishError,
	"network_error":                finishError,
	"insufficient_system_resource": finishError,
}

func (a *answer) parts() []agent.Part {
	var parts []agent.Part
	if a.reasoning.String() != "" || len(a.details) > 0 {
		p := agent.Part{Kind: agent.PartReasoning, Text: a.reasoning.String()}
		extra := reasoningExtra{Name: a.name}
		if len(a.details) > 0 {
			extra.Details = mustJSON(a.details)
		}
		if extra.Name != "" || extra.Details != nil {
			p.Extra = mustJSON(extra)
		}
		parts = append(parts, p)
	}
	if a.text.String() != "" || a.extra != nil {
		p := agent.Text(a.text.String())
		if a.extra != nil {
			p.Extra = mustJSON(extraContent{a.extra})
		}
		parts = append(parts, p)
	}
	return parts
}

// mustJSON encodes values whose encoding cannot fail: they are made of strings
// and of JSON that was decoded before.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// A detail is an element of reasoning_details.
type detail struct {
	members map[string]json.RawMessage
	grows   string // the member that comes in pieces, if any
	text    text   // its value
}

func newDetail(raw json.RawMessage) (*detail, bool) {
	d := &detail{}
	if firstByte(raw) != '{' || json.Unmarshal(raw, &d.members) != nil {
		return nil, false
	}
	switch string(d.members["type"]) {
	case `"reasoning.text"`:
		d.grows = "text"
	case `"reasoning.summary"`:
		d.grows = "summary"
	}
	addStrings(&d.text, d.members[d.grows])
	return d, len(d.members) > 0
}

// join appends next to d if it is a further piece of the same text. Of the other
// members the last value counts: a signature comes at the end.
func (d *detail) join(next *detail) bool {
	same := func(name string) bool { return string(d.members[name]) == string(next.members[name]) }
	if d.grows == "" || !same("type") || !same("index") {
		return false
	}
	for name, value := range next.members {
		if string(value) != null {
			d.members[name] = value
		}
	}
	d.text.buf = append(d.text.buf, next.text.buf...)
	return true
}

// MarshalJSON puts the pieces together.
func (d *detail) MarshalJSON() ([]byte, error) {
	if len(d.text.buf) > 0 {
		d.text.rest()
		d.members[d.grows] = appendString(nil, d.text.String())
	}
	return json.Marshal(d.members)
}
