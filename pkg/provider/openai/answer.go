package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// An answer is assembled from chunks: the events of a stream, or the whole
// answer of a server that does not stream.
type answer struct {
	text      text
	reasoning text
	// name is the member that held the reasoning; the first one counts, since some
	// servers write the same text into two.
	name    string
	details []*detail
	extra   json.RawMessage // extra_content of the message
	calls   calls
	finish  string
	usage   agent.Usage
	model   string
	chunks  int
	choices int    // pieces of the message, empty ones too
	ended   bool   // the server sent [DONE], or does not stream
	stray   []byte // the first line that is not part of an answer
	emit    func(agent.Delta)
}

// add reads the JSON of one chunk.
func (a *answer) add(data []byte) error {
	if err := checkJSON(data); err != nil {
		if a.complete() {
			return nil // the connection broke in what follows the answer
		}
		return broken(fmt.Sprintf("the server sent a piece that is not JSON (%v): %s", err, shorten(string(data), 200)))
	}
	if list := elements(data); len(list) > 0 {
		data = list[0] // Gemini sends its errors in a list
	}
	c := objectOf(data)
	choices := elements(c.get("choices"))
	if isError(c, len(choices)) {
		return serverError(0, data)
	}
	a.chunks++
	a.model = cmp.Or(a.model, str(c.get("model")))
	a.count(c.get("usage"))
	a.count(objectOf(c.get("x_groq")).get("usage"))
	for _, raw := range choices {
		choice := objectOf(raw)
		if choice == nil || number(choice.get("index")) != 0 {
			continue // we ask for one answer
		}
		if err := a.choice(choice); err != nil {
			return err
		}
	}
	a.show()
	return nil
}

// count takes the last usage that a server sends.
func (a *answer) count(raw []byte) {
	if u := objectOf(raw); u != nil {
		a.usage = usageOf(u)
	}
}

// isError reports whether a chunk is an error. "error": null does not make one, and
// the other members only do in a chunk without choices and usage.
func isError(c object, choices int) bool {
	switch e := c.get("error"); firstByte(e) {
	case '{', '[':
		return len(e) > len("{}")
	case '"':
		return string(e) != emptyString
	case 't':
		return true
	}
	if choices > 0 || firstByte(c.get("usage")) == '{' {
		return false
	}
	detail := firstByte(c.get("detail"))
	return str(c.get("object")) == "error" || firstByte(c.get("message")) == '"' || detail == '"' || detail == '[' || detail == '{'
}

func (a *answer) choice(c object) error {
	a.choices++
	a.count(c.get("usage")) // Kimi
	a.finish = cmp.Or(str(c.get("finish_reason")), a.finish)
	d := objectOf(c.get("delta"))
	if d == nil && !a.begun() { // some servers repeat the message after its pieces
		d = objectOf(c.get("message"))
	}
	a.content(d.get("content"))
	a.content(d.get("refusal"))
	a.think(d)
	if extra := d.get("extra_content"); firstByte(extra) == '{' {
		a.extra = bytes.Clone(extra)
	}
	pieces := elements(d.get("tool_calls"))
	if old := d.get("function_call"); firstByte(old) == '{' { // the form before tool_calls
		if err := a.calls.add(callDeltaOf(old, 0)); err != nil {
			return err
		}
	}
	for i, raw := range pieces {
		if err := a.calls.add(callDeltaOf(raw, i)); err != nil {
			return err
		}
	}
	return nil
}

// content reads a content: a string, or a list of parts. Mistral's reasoning is
// a part that contains a list.
func (a *answer) content(raw []byte) {
	for _, element := range elements(raw) {
		part := objectOf(element)
		addStrings(&a.text, element, part.get("text"), part.get("refusal"))
		for _, thought := range elements(part.get("thinking")) {
			addStrings(&a.reasoning, thought, objectOf(thought).get("text"))
		}
	}
}

// addStrings appends the values that are strings.
func addStrings(t *text, raws ...[]byte) {
	for _, raw := range raws {
		if firstByte(raw) == '"' {
			t.add(raw)
		}
	}
}

// think reads reasoning.
func (a *answer) think(d object) {
	found := false
	for _, name := range []string{reasoningContent, "reasoning"} {
		raw := d.get(name)
		if firstByte(raw) != '"' || string(raw) == emptyString || a.name != "" && a.name != name {
			continue
		}
		a.name, found = name, true
		a.reasoning.add(raw)
	}
	for _, raw := range elements(d.get("reasoning_details")) {
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

// complete reports whether the answer is complete: the server gave a reason why
// it finished. Some never do; then [DONE] is enough, if no call is cut.
func (a *answer) complete() bool {
	return a.finish != "" || a.ended && a.begun() && a.calls.complete()
}

// response is the answer, if it is complete. The error of one that is not has its
// usage, as far as the server counted it.
func (a *answer) response() (*agent.Response, error) {
	resp, err := a.whole()
	if failed, ok := errors.AsType[*agent.ModelError](err); ok && a.usage != (agent.Usage{}) {
		failed.Usage = a.usage
		failed.Usage.Requests = 1
	}
	return resp, err
}

func (a *answer) whole() (*agent.Response, error) {
	if s := a.reasoning.rest(); s != "" {
		a.emit(agent.Delta{Kind: agent.DeltaReasoning, Text: s})
	}
	if s := a.text.rest(); s != "" {
		a.emit(agent.Delta{Kind: agent.DeltaText, Text: s})
	}
	switch {
	case a.complete():
	case a.ended && !a.begun() && a.choices > 0:
		return nil, &agent.ModelError{Message: "the model's answer is empty"}
	case a.ended && !a.begun():
		return nil, broken("the server's answer has no choices")
	default:
		return nil, broken("the answer broke off before its end")
	}
	finish, ok := finishes[strings.ToLower(a.finish)]
	if !ok {
		finish = agent.FinishStop
	}
	if finish == finishError {
		return nil, broken(fmt.Sprintf("the server gave up in the middle of the answer (finish_reason %s)", a.finish))
	}
	a.usage.Requests = 1
	return &agent.Response{Finish: finish, Model: a.model, Usage: a.usage,
		Message: agent.Message{Role: agent.RoleAssistant, Parts: a.parts(), Calls: a.calls.toolCalls()}}, nil
}

const finishError agent.Finish = "error"

// finishes are the reasons that servers give for an answer that the model did
// not end itself.
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

func newDetail(raw []byte) (*detail, bool) {
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
