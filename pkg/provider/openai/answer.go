package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// An answer is assembled from chunks: the events of a stream, or the whole
// answer of a server that does not stream.
type answer struct {
	text      modelhttp.Text
	reasoning modelhttp.Text
	// name is the member that held the reasoning; the first one counts, since some
	// servers write the same text into two.
	name    string
	details []*detail
	extra   json.RawMessage // extra_content of the message
	calls   calls
	finish  string
	usage   agent.Usage
	model   string
	choices int  // pieces of the message, empty ones too
	ended   bool // the server sent [DONE], or does not stream
	emit    func(agent.Delta)
}

// Add reads the JSON of one chunk.
func (a *answer) Add(data []byte) error {
	c := modelhttp.ObjectOf(data)
	choices := modelhttp.Elements(c.Get("choices"))
	if modelhttp.IsError(c, len(choices) > 0 || modelhttp.FirstByte(c.Get("usage")) == '{') {
		return modelhttp.ServerError(0, data)
	}
	a.model = cmp.Or(a.model, modelhttp.Str(c.Get("model")))
	a.count(c.Get("usage"))
	a.count(modelhttp.ObjectOf(c.Get("x_groq")).Get("usage"))
	for _, raw := range choices {
		choice := modelhttp.ObjectOf(raw)
		if choice == nil || modelhttp.Number(choice.Get("index")) != 0 {
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
	if u := modelhttp.ObjectOf(raw); u != nil {
		a.usage = modelhttp.UsageOf(u, "prompt", "completion")
	}
}

func (a *answer) choice(c modelhttp.Object) error {
	a.choices++
	a.count(c.Get("usage")) // Kimi
	a.finish = cmp.Or(modelhttp.Str(c.Get("finish_reason")), a.finish)
	d := modelhttp.ObjectOf(c.Get("delta"))
	if d == nil && !a.begun() { // some servers repeat the message after its pieces
		d = modelhttp.ObjectOf(c.Get("message"))
	}
	a.content(d.Get("content"))
	a.content(d.Get("refusal"))
	a.think(d)
	if extra := d.Get("extra_content"); modelhttp.FirstByte(extra) == '{' {
		a.extra = bytes.Clone(extra)
	}
	pieces := modelhttp.Elements(d.Get("tool_calls"))
	if old := d.Get("function_call"); modelhttp.FirstByte(old) == '{' { // the form before tool_calls
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
	for _, element := range modelhttp.Elements(raw) {
		part := modelhttp.ObjectOf(element)
		for _, text := range [][]byte{element, part.Get("text"), part.Get("refusal")} {
			a.text.Add(text)
		}
		for _, thought := range modelhttp.Elements(part.Get("thinking")) {
			a.reasoning.Add(thought)
			a.reasoning.Add(modelhttp.ObjectOf(thought).Get("text"))
		}
	}
}

func (a *answer) think(d modelhttp.Object) {
	found := false
	for _, name := range []string{reasoningContent, "reasoning"} {
		raw := d.Get(name)
		if modelhttp.FirstByte(raw) != '"' || string(raw) == emptyString || a.name != "" && a.name != name {
			continue
		}
		a.name, found = name, true
		a.reasoning.Add(raw)
	}
	for _, raw := range modelhttp.Elements(d.Get("reasoning_details")) {
		next, ok := newDetail(raw)
		if !ok {
			continue
		}
		if !found && a.name == "" {
			a.reasoning.Buf = append(a.reasoning.Buf, next.text.Buf...)
		}
		if n := len(a.details); n == 0 || !a.details[n-1].join(next) {
			a.details = append(a.details, next)
		}
	}
}

// begun reports whether anything of the answer has arrived.
func (a *answer) begun() bool {
	return len(a.text.Buf) > 0 || len(a.reasoning.Buf) > 0 || len(a.calls.list) > 0 || len(a.details) > 0
}

func (a *answer) show() {
	if s := a.reasoning.Fresh(); s != "" {
		a.emit(agent.Delta{Kind: agent.DeltaReasoning, Text: s})
	}
	if s := a.text.Fresh(); s != "" {
		a.emit(agent.Delta{Kind: agent.DeltaText, Text: s})
	}
}

// complete reports whether the answer is complete: the server gave a reason why
// it finished. Some never do; then [DONE] is enough, if no call is cut.
func (a *answer) complete() bool {
	return a.finish != "" || a.ended && a.begun() && a.calls.complete()
}

// End notes the end of the stream.
func (a *answer) End() { a.ended = true }

// State says how far the answer is.
func (a *answer) State() modelhttp.State {
	return modelhttp.State{Begun: a.begun(), Finished: a.finish != "", Ended: a.ended, Complete: a.complete(), Pieces: a.choices}
}

// Usage returns what the server reported.
func (a *answer) Usage() agent.Usage { return a.usage }

// Response returns the answer if it is complete.
func (a *answer) Response() (*agent.Response, error) {
	if s := a.reasoning.Rest(); s != "" {
		a.emit(agent.Delta{Kind: agent.DeltaReasoning, Text: s})
	}
	if s := a.text.Rest(); s != "" {
		a.emit(agent.Delta{Kind: agent.DeltaText, Text: s})
	}
	switch {
	case a.complete():
	case a.ended && !a.begun() && a.choices > 0:
		return nil, &agent.ModelError{Message: "the model's answer is empty"}
	case a.ended && !a.begun():
		return nil, modelhttp.Broken("the server's answer has no choices")
	default:
		return nil, modelhttp.Broken("the answer broke off before its end")
	}
	finish, ok := finishes[strings.ToLower(a.finish)]
	if !ok {
		finish = agent.FinishStop
	}
	if finish == finishError {
		return nil, modelhttp.Broken(fmt.Sprintf("the server gave up in the middle of the answer (finish_reason %s)", a.finish))
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
			extra.Details = modelhttp.MustJSON(a.details)
		}
		if extra.Name != "" || extra.Details != nil {
			p.Extra = modelhttp.MustJSON(extra)
		}
		parts = append(parts, p)
	}
	if a.text.String() != "" || a.extra != nil {
		p := agent.Text(a.text.String())
		if a.extra != nil {
			p.Extra = modelhttp.MustJSON(extraContent{a.extra})
		}
		parts = append(parts, p)
	}
	return parts
}

// A detail is an element of reasoning_details.
type detail struct {
	members map[string]json.RawMessage
	grows   string         // the member that comes in pieces, if any
	text    modelhttp.Text // its value
}

func newDetail(raw []byte) (*detail, bool) {
	d := &detail{}
	if modelhttp.FirstByte(raw) != '{' || json.Unmarshal(raw, &d.members) != nil {
		return nil, false
	}
	switch string(d.members["type"]) {
	case `"reasoning.text"`:
		d.grows = "text"
	case `"reasoning.summary"`:
		d.grows = "summary"
	}
	d.text.Add(d.members[d.grows])
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
	d.text.Buf = append(d.text.Buf, next.text.Buf...)
	return true
}

// MarshalJSON puts the pieces together.
func (d *detail) MarshalJSON() ([]byte, error) {
	if len(d.text.Buf) > 0 {
		d.text.Rest()
		d.members[d.grows] = modelhttp.AppendString(nil, d.text.String())
	}
	return json.Marshal(d.members)
}
