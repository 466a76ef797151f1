package responses

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// The types of the items that are read. All others are only sent back.
const (
	kindMessage   = "message"
	kindCall      = "function_call"
	kindReasoning = "reasoning"
)

// An answer is assembled from events, or from the whole response of a server that does not
// stream.
type answer struct {
	host   string
	items  []*item
	finish agent.Finish // "" until the response is complete
	usage  agent.Usage
	model  string
	pieces int
	ended  bool
	shown  *item // the last message of which something was shown; others wait until it is complete
	// waiting: a message has pieces that were not shown yet.
	waiting bool
	emit    func(agent.Delta)
}

// An item of the output.
type item struct {
	at    int
	kind  string
	open  bool // more of it is due
	known extra
	raw   []byte // as the server sent it, once it is complete
	id    string // of a call or its output
	name  string
	text  modelhttp.Text // the pieces of the content, the arguments or the reasoning
	whole string         // the same in the complete item, where it differs
}

// Add reads an event, or a whole response.
func (a *answer) Add(data []byte) error {
	e := modelhttp.ObjectOf(data)
	kind := modelhttp.Str(e.Get("type"))
	what, isDelta := strings.CutSuffix(kind, ".delta")
	switch {
	case kind == "error":
		return a.failure(data)
	case kind == "response.created" && len(a.items) > 0:
		a.again()
	case isDelta:
		return a.delta(what, e)
	case kind == "response.output_item.added" || kind == "response.output_item.done":
		return a.complete(modelhttp.Number(e.Get("output_index")), e.Get("item"), kind == "response.output_item.done")
	case kind == "response.reasoning_summary_part.added":
		return a.separate(e)
	case strings.HasPrefix(kind, "response."):
		return a.response(modelhttp.ObjectOf(e.Get("response")), kind)
	case e.Get("output") != nil || modelhttp.Str(e.Get("object")) == "response":
		return a.response(e, "")
	case modelhttp.IsError(e, kind != ""):
		return modelhttp.ServerError(0, data)
	}
	return nil
}

// again drops what came of a response that the server, or a proxy, begins again.
func (a *answer) again() {
	a.items, a.shown, a.waiting, a.finish = nil, nil, false, ""
	a.emit(agent.Delta{Kind: agent.DeltaRetry, Text: "the server began its answer again", Attempt: 1})
}

// find returns the item that an event is about, or a new one of a kind.
func (a *answer) find(e modelhttp.Object, kind string) (*item, error) {
	at := len(a.items) - 1 // servers that send no index send one item after the other
	if index := e.Get("output_index"); index != nil {
		at = modelhttp.Number(index)
	} else if at < 0 || a.items[at].kind != kind {
		at++
	}
	return a.at(at, kind)
}

func (a *answer) at(at int, kind string) (*item, error) {
	a.pieces++
	i, found := slices.BinarySearchFunc(a.items, at, func(it *item, at int) int { return cmp.Compare(it.at, at) })
	if !found {
		if len(a.items) == modelhttp.MaxCalls {
			return nil, modelhttp.TooManyCalls()
		}
		a.items = slices.Insert(a.items, i, &item{at: at, kind: kind})
	}
	a.items[i].kind = cmp.Or(a.items[i].kind, kind)
	return a.items[i], nil
}

// delta reads a piece of an item.
func (a *answer) delta(what string, e modelhttp.Object) error {
	kind := ""
	switch what {
	case "response.output_text", "response.refusal":
		kind = kindMessage
	case "response.function_call_arguments":
		kind = kindCall
	case "response.reasoning_summary_text", "response.reasoning_text", "response.reasoning":
		kind = kindReasoning
	default: // of tools that the server runs
		return nil
	}
	it, err := a.find(e, kind)
	if err != nil {
		return err
	}
	it.open = true
	it.text.Add(e.Get("delta"))
	a.show(it, false)
	return nil
}

// separate puts an empty line between the parts of a summary.
func (a *answer) separate(e modelhttp.Object) error {
	it, err := a.find(e, kindReasoning)
	if err == nil && len(it.text.Buf) > 0 {
		it.text.Add([]byte(`"\n\n"`))
	}
	return err
}

// show emits what is new in an item; all of it if it is complete. Calls are not shown, nor
// is a message whose pieces come between those of another one, until that is complete.
func (a *answer) show(it *item, complete bool) {
	kind := agent.DeltaText
	switch it.kind {
	case kindReasoning:
		kind = agent.DeltaReasoning
	case kindMessage:
	default:
		return
	}
	another := kind == agent.DeltaText && a.shown != nil && a.shown != it
	if another && a.shown.open {
		a.waiting = true
		return
	}
	piece := it.text.Fresh()
	if complete {
		piece += it.text.Rest()
	}
	if piece == "" {
		return
	}
	if another {
		piece = between + piece
	}
	if kind == agent.DeltaText {
		a.shown = it
	}
	a.emit(agent.Delta{Kind: kind, Text: piece})
}

// complete reads an item: as it begins, or whole.
func (a *answer) complete(at int, raw []byte, done bool) error {
	o := modelhttp.ObjectOf(raw)
	it, err := a.at(at, "")
	if err != nil || o == nil || it.raw != nil {
		return err
	}
	it.kind = cmp.Or(modelhttp.Str(o.Get("type")), it.kind)
	it.open = !done
	it.known.ID = cmp.Or(modelhttp.Str(o.Get("id")), it.known.ID)
	it.known.Phase = cmp.Or(modelhttp.Str(o.Get("phase")), it.known.Phase)
	it.name = cmp.Or(modelhttp.Str(o.Get("name")), it.name)
	it.id = cmp.Or(modelhttp.Str(o.Get("call_id")), it.id)
	if !done {
		return nil
	}
	it.raw = bytes.Clone(raw)
	text := contentOf(it.kind, o)
	switch rest, ok := strings.CutPrefix(text, string(it.text.Buf)); {
	case text == "":
	case ok:
		it.text.Add(modelhttp.AppendString(nil, rest))
	default:
		it.whole = text
	}
	a.show(it, true)
	if it == a.shown && a.waiting {
		a.waiting = false
		for _, other := range a.items {
			a.show(other, !other.open)
		}
	}
	return nil
}

// contentOf is the text of a complete item: what the model says, the arguments of a call
// or the reasoning.
func contentOf(kind string, o modelhttp.Object) string {
	switch kind {
	case kindMessage:
		return textOf(o.Get("content"), "")
	case kindCall:
		if args := o.Get("arguments"); modelhttp.FirstByte(args) == '{' {
			return string(args)
		}
		return modelhttp.Str(o.Get("arguments"))
	case kindReasoning:
		return cmp.Or(textOf(o.Get("summary"), "\n\n"), textOf(o.Get("content"), "\n\n"))
	}
	return ""
}

func textOf(list []byte, between string) string {
	var texts []string
	for _, raw := range modelhttp.Elements(list) {
		part := modelhttp.ObjectOf(raw)
		texts = append(texts, cmp.Or(modelhttp.Str(part.Get("text")), modelhttp.Str(part.Get("refusal")), modelhttp.Str(raw)))
	}
	return strings.Join(texts, between)
}

// response reads the response in an event, or one that was not streamed. Some servers
// leave out the output at the end of a stream.
func (a *answer) response(o modelhttp.Object, kind string) error {
	a.model = cmp.Or(modelhttp.Str(o.Get("model")), a.model)
	if u := modelhttp.ObjectOf(o.Get("usage")); u != nil {
		a.usage = modelhttp.UsageOf(u, "input", "output")
	}
	status := cmp.Or(strings.TrimPrefix(kind, "response."), modelhttp.Str(o.Get("status")), "completed")
	switch status {
	case "failed", "cancelled":
		return a.failure(o.Get("error"))
	case "completed", "incomplete":
	default:
		return nil
	}
	streamed := len(a.items) > 0
	for i, raw := range modelhttp.Elements(o.Get("output")) {
		if streamed && !slices.ContainsFunc(a.items, func(it *item) bool { return it.at == i }) {
			continue // the index in the stream was another
		}
		if err := a.complete(i, raw, true); err != nil {
			return err
		}
	}
	a.pieces++
	a.finish, a.ended = agent.FinishStop, true
	if status == "incomplete" {
		a.finish = agent.FinishLength
		if modelhttp.Str(modelhttp.ObjectOf(o.Get("incomplete_details")).Get("reason")) == "content_filter" {
			a.finish = agent.FinishContentFilter
		}
	}
	return nil
}

// aboutRequest are parts of the codes of failures that are not temporary, since they concern
// the request: invalid_prompt, image_too_large, bio_policy …
var aboutRequest = []string{"invalid", "image", "policy", "unsupported", "mismatch"}

func (a *answer) failure(raw []byte) error {
	if modelhttp.FirstByte(raw) == 'n' {
		raw = nil
	}
	e := modelhttp.ServerError(0, raw)
	if e.Code == "error" { // the type of the event
		e.Code = ""
	}
	if slices.ContainsFunc(aboutRequest, func(part string) bool { return strings.Contains(e.Code, part) }) {
		e.Temporary = false
	}
	return e
}

// End notes that the server has sent everything.
func (a *answer) End() { a.ended = true }

// State returns how far the answer is. While a model reasons it may send nothing for a long
// time, so the idle limit applies only within a message or a call.
func (a *answer) State() modelhttp.State {
	s := modelhttp.State{Finished: a.finish != "", Ended: a.ended, Complete: a.finish != "", Pieces: a.pieces}
	if n := len(a.items); n > 0 {
		last := a.items[n-1]
		s.Begun = last.open && last.kind != kindReasoning && len(last.text.Buf) > 0
	}
	return s
}

// unanswerable are the types of calls that the caller of the model should answer, and this
// package cannot.
var unanswerable = []string{"custom_tool_call", "apply_patch_call", "shell_call", "local_shell_call", "computer_call", "mcp_approval_request", "tool_search_call"}

// refused returns why no call of the answer may run: the model waits for a result that it
// would never get, or a call is not complete although the answer is. A call that the server
// answered itself does no harm.
func (a *answer) refused() error {
	answered := map[string]bool{}
	for _, it := range a.items {
		if kind, ok := strings.CutSuffix(it.kind, "_output"); ok {
			answered[kind+" "+it.id] = true
		}
	}
	for _, it := range a.items {
		o := modelhttp.ObjectOf(it.raw)
		if it.kind == kindCall && modelhttp.Str(o.Get("status")) == "incomplete" && a.finish == agent.FinishStop {
			return modelhttp.Broken("the model's call of " + modelhttp.Shorten(it.name, modelhttp.MaxName) + " is incomplete")
		}
		if it.kind == kindCall && it.raw == nil && len(it.text.Buf) == 0 && a.finish == agent.FinishStop {
			return modelhttp.Broken("the model's call of " + modelhttp.Shorten(it.name, modelhttp.MaxName) + " has no arguments, and its end is missing")
		}
		byServer := modelhttp.Str(o.Get("execution")) == "server"
		if slices.Contains(unanswerable, it.kind) && !byServer && !answered[it.kind+" "+it.id] {
			return &agent.ModelError{Message: "the model made a call of the type " + it.kind + ", which can only be answered by clients that offer such a tool"}
		}
	}
	return nil
}

// Usage returns what the server reported.
func (a *answer) Usage() agent.Usage { return a.usage }

// Response returns the answer if it is complete.
func (a *answer) Response() (*agent.Response, error) {
	if a.shown != nil {
		a.show(a.shown, true)
		a.shown.open = false
	}
	for _, it := range a.items {
		a.show(it, true)
		it.open = false
	}
	m := a.message()
	if err := a.refused(); err != nil {
		return nil, err
	}
	switch {
	case a.finish == agent.FinishStop && len(m.Parts)+len(m.Calls) > 0, a.finish == agent.FinishContentFilter, a.finish == agent.FinishLength:
	case a.finish != "":
		return nil, &agent.ModelError{Message: "the model's answer is empty"}
	case a.ended && len(a.items) == 0:
		return nil, modelhttp.Broken("the server's answer has no output")
	default:
		return nil, modelhttp.Broken("the answer broke off before its end")
	}
	a.usage.Requests = 1
	return &agent.Response{Message: m, Finish: a.finish, Usage: a.usage, Model: a.model}, nil
}

func (a *answer) message() agent.Message {
	m := agent.Message{Role: agent.RoleAssistant}
	said := false
	for _, it := range a.items {
		x := it.known
		x.Host, x.At = a.host, it.at
		text := cmp.Or(it.whole, it.text.String())
		if it.kind == kindCall { // what is not valid UTF-8 is refused when the call is made
			text = cmp.Or(it.whole, string(it.text.Buf))
		}
		switch {
		case it.kind == kindCall:
			c := modelhttp.ToolCall(cmp.Or(it.id, x.ID), it.name, []byte(text))
			c.Extra = modelhttp.MustJSON(x)
			m.Calls = append(m.Calls, c)
		case it.kind == kindMessage && text != "":
			if x.After = said; said {
				text = between + text
			}
			said = true
			m.Parts = append(m.Parts, agent.Part{Kind: agent.PartText, Text: text, Extra: modelhttp.MustJSON(x)})
		case it.kind != kindMessage && it.raw != nil:
			x.ID, x.Phase, x.Item = "", "", string(it.raw)
			m.Parts = append(m.Parts, agent.Part{Kind: agent.PartReasoning, Text: text, Extra: modelhttp.MustJSON(x)})
		case it.kind == kindReasoning && text != "":
			m.Parts = append(m.Parts, agent.Part{Kind: agent.PartReasoning, Text: text})
		}
	}
	return m
}
