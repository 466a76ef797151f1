package anthropic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

const kindCompaction = "compaction"

// An answer is assembled from the events of a stream
// (https://platform.claude.com/docs/en/build-with-claude/streaming), or from the whole
// message of a server that does not stream.
type answer struct {
	host   string
	before int // number of parts of the turn before it was paused
	blocks []*block
	calls  int
	stop   string // stop_reason
	reason string // why the model refused
	usage  counts
	model  string
	pieces int
	ended  bool
	shown  bool
	emit   func(agent.Delta)
	// started says that a message_start has come, and early is its content. void is what the
	// messages before the last message_start consumed.
	started bool
	early   [][]byte
	void    agent.Usage
}

// A block is an element of the content.
type block struct {
	index     int
	kind      string
	raw       []byte // as in content_block_start
	text      modelhttp.Text
	signature modelhttp.Text
	compacted modelhttp.Text // the summary in a compaction
	args      modelhttp.Text // of a call, as text
}

// counts are the tokens of an answer. They are cumulative, and later events omit some of
// them.
type counts struct{ input, read, write, hour, output, thinking int }

// Add reads one event. Unknown events are ignored: the protocol may add new ones.
func (a *answer) Add(data []byte) error {
	o := modelhttp.ObjectOf(data)
	switch kind := modelhttp.Str(o.Get("type")); {
	case kind == "error" || modelhttp.IsError(o, kind != ""):
		return modelhttp.ServerError(statusOf(modelhttp.Str(modelhttp.ObjectOf(o.Get("error")).Get("type"))), data)
	case kind == "message_start":
		a.start(modelhttp.ObjectOf(o.Get("message")))
	case kind == "message":
		return a.whole(o)
	case kind == "content_block_start":
		a.pieces++
		return a.begin(modelhttp.Number(o.Get("index")), o.Get("content_block"))
	case kind == "content_block_delta":
		a.pieces++
		a.delta(modelhttp.Number(o.Get("index")), modelhttp.ObjectOf(o.Get("delta")))
	case kind == "message_delta":
		a.pieces++
		a.message(modelhttp.ObjectOf(o.Get("delta")))
		a.usage.add(modelhttp.ObjectOf(o.Get("usage")))
	case kind == "message_stop":
		a.ended = true
	}
	return nil
}

// statusOf is the HTTP status of an error in a stream, whose own status is 200; 0 if it is
// not known (https://platform.claude.com/docs/en/api/errors).
func statusOf(kind string) int {
	switch kind {
	case "invalid_request_error":
		return http.StatusBadRequest
	case "authentication_error":
		return http.StatusUnauthorized
	case "billing_error":
		return http.StatusPaymentRequired
	case "permission_error":
		return http.StatusForbidden
	case "not_found_error":
		return http.StatusNotFound
	case "request_too_large":
		return http.StatusRequestEntityTooLarge
	case "rate_limit_error":
		return http.StatusTooManyRequests
	case "timeout_error":
		return http.StatusGatewayTimeout
	case "overloaded_error":
		return 529
	}
	return 0
}

// start begins a message. One that began before is void: the server, or a proxy, asked the
// model again. Its tokens count all the same.
func (a *answer) start(o modelhttp.Object) {
	if a.started && len(a.blocks) > 0 {
		a.void = a.Usage()
		a.void.Requests = 0
		a.blocks, a.calls, a.usage = nil, 0, counts{}
		if a.shown {
			a.emit(agent.Delta{Kind: agent.DeltaRetry, Text: "the server began its answer again", Attempt: 1})
		}
		a.shown = false
	}
	a.started, a.early, a.stop, a.reason = true, nil, "", ""
	for _, raw := range modelhttp.Elements(o.Get("content")) {
		a.early = append(a.early, bytes.Clone(raw))
	}
	a.message(o)
}

func (a *answer) message(o modelhttp.Object) {
	a.model = cmp.Or(a.model, modelhttp.Str(o.Get("model")))
	a.stop = cmp.Or(modelhttp.Str(o.Get("stop_reason")), a.stop)
	a.reason = cmp.Or(modelhttp.Str(modelhttp.ObjectOf(o.Get("stop_details")).Get("explanation")), a.reason)
	a.usage.add(modelhttp.ObjectOf(o.Get("usage")))
}

func (a *answer) whole(o modelhttp.Object) error {
	a.pieces++
	for i, raw := range modelhttp.Elements(o.Get("content")) {
		if err := a.begin(i, raw); err != nil {
			return err
		}
	}
	a.message(o)
	return nil
}

// add reads a usage. Where the server compacted the conversation, the usage of the whole is
// that of its iterations together; its other members omit the compaction
// (https://platform.claude.com/docs/en/build-with-claude/compaction).
func (c *counts) add(o modelhttp.Object) {
	var sum counts
	for _, raw := range modelhttp.Elements(o.Get("iterations")) {
		one := countsOf(modelhttp.ObjectOf(raw))
		sum = counts{sum.input + one.input, sum.read + one.read, sum.write + one.write, sum.hour + one.hour, sum.output + one.output, sum.thinking + one.thinking}
	}
	c.atLeast(countsOf(o))
	c.atLeast(sum)
}

func countsOf(o modelhttp.Object) counts {
	return counts{
		input:    modelhttp.Number(o.Get("input_tokens")),
		read:     modelhttp.Number(o.Get("cache_read_input_tokens")),
		write:    modelhttp.Number(o.Get("cache_creation_input_tokens")),
		hour:     modelhttp.Number(modelhttp.ObjectOf(o.Get("cache_creation")).Get("ephemeral_1h_input_tokens")),
		output:   modelhttp.Number(o.Get("output_tokens")),
		thinking: modelhttp.Number(modelhttp.ObjectOf(o.Get("output_tokens_details")).Get("thinking_tokens")),
	}
}

func (c *counts) atLeast(d counts) {
	*c = counts{max(c.input, d.input), max(c.read, d.read), max(c.write, d.write), max(c.hour, d.hour), max(c.output, d.output), max(c.thinking, d.thinking)}
}

// total returns the usage of the request. The server counts cached tokens separately from
// other input.
func (c *counts) total() agent.Usage {
	return agent.Usage{Requests: 1, InputTokens: c.input + c.read + c.write, CachedTokens: c.read, CacheWriteTokens: c.write, CacheHourTokens: min(c.hour, c.write),
		OutputTokens: c.output, ReasoningTokens: min(c.thinking, c.output)}
}

func (a *answer) begin(index int, raw []byte) error {
	o := modelhttp.ObjectOf(raw)
	b := &block{index: index, kind: modelhttp.Str(o.Get("type")), raw: bytes.Clone(raw)}
	if b.kind == "tool_use" {
		if a.calls++; a.calls > modelhttp.MaxCalls {
			return modelhttp.TooManyCalls()
		}
	}
	if n := len(a.blocks); n > 0 {
		a.show(a.blocks[n-1], a.blocks[n-1].text.Rest())
	}
	a.blocks = append(a.blocks, b)
	a.add(b, o)
	return nil
}

func (a *answer) delta(index int, d modelhttp.Object) {
	for i := len(a.blocks) - 1; i >= 0; i-- {
		if a.blocks[i].index == index {
			a.add(a.blocks[i], d)
			return
		}
	}
}

// add adds the texts in o, and shows what is new.
func (a *answer) add(b *block, o modelhttp.Object) {
	switch b.kind {
	case "text":
		b.text.Add(o.Get("text"))
	case "thinking":
		b.text.Add(o.Get("thinking"))
		b.signature.Add(o.Get("signature"))
	case kindCompaction:
		b.compacted.Add(o.Get("content"))
		b.signature.Add(o.Get("encrypted_content"))
	default:
		b.args.Add(o.Get("partial_json"))
	}
	a.show(b, b.text.Fresh())
}

func (a *answer) show(b *block, text string) {
	kind := agent.DeltaText
	if b.kind == "thinking" {
		kind = agent.DeltaReasoning
	}
	if text != "" {
		a.shown = true
		a.emit(agent.Delta{Kind: kind, Text: text})
	}
}

// End notes that the server has sent everything.
func (a *answer) End() { a.ended = true }

// State returns how far the answer is.
func (a *answer) State() modelhttp.State {
	return modelhttp.State{Begun: len(a.blocks) > 0, Finished: a.stop != "", Ended: a.ended, Complete: a.stop != "", Pieces: a.pieces}
}

// Usage returns what the server reported.
func (a *answer) Usage() agent.Usage {
	u := a.void
	if a.usage != (counts{}) {
		u = u.Add(a.usage.total())
	}
	if u != (agent.Usage{}) {
		u.Requests = 1
	}
	return u
}

// Response returns the answer if it is complete.
func (a *answer) Response() (*agent.Response, error) {
	if err := a.takeEarly(); err != nil {
		return nil, err
	}
	m := agent.Message{Role: agent.RoleAssistant}
	var places []int // of the calls among the parts
	for _, b := range a.blocks {
		if b.kind == "tool_use" {
			m.Calls, places = append(m.Calls, b.call()), append(places, len(m.Parts))
		} else if p, ok := a.part(b); ok {
			m.Parts = append(m.Parts, p)
		}
	}
	for i, n := range places {
		if n < len(m.Parts) { // thoughts between calls must not move
			m.Calls[i].Extra = fmt.Appendf(nil, `{"after":%d}`, a.before+n)
		}
	}
	if a.stop == "" {
		if a.ended && a.pieces == 0 {
			return nil, modelhttp.Broken("the server's answer is not a message")
		}
		return nil, modelhttp.Broken("the answer broke off before its end")
	}
	if a.stop == "refusal" && len(m.Parts) == 0 && a.reason != "" {
		m.Parts = []agent.Part{agent.Text(a.reason)}
	}
	return &agent.Response{Message: m, Finish: finishOf(a.stop), Model: a.model, Usage: a.Usage()}, nil
}

// takeEarly takes the content that came with message_start, if none came later. A call in it
// was made by code that runs at the server and waits for the result: the request that answers
// it must name the server's container
// (https://platform.claude.com/docs/en/agents-and-tools/tool-use/programmatic-tool-calling).
func (a *answer) takeEarly() error {
	early := a.early
	a.early = nil
	calls := map[string]bool{} // by id
	for _, b := range a.blocks {
		if b.kind == "tool_use" {
			calls[modelhttp.Str(modelhttp.ObjectOf(b.raw).Get("id"))] = true
		}
	}
	for _, raw := range early {
		o := modelhttp.ObjectOf(raw)
		if modelhttp.Str(o.Get("type")) == "tool_use" && !calls[modelhttp.Str(o.Get("id"))] {
			name := modelhttp.Shorten(modelhttp.Str(o.Get("name")), modelhttp.MaxName)
			return &agent.ModelError{Message: "code at the server calls the tool " + name + " (programmatic tool calling), which is not supported"}
		}
	}
	if len(a.blocks) > 0 {
		return nil
	}
	for i, raw := range early {
		if err := a.begin(i, raw); err != nil {
			return err
		}
	}
	return nil
}

// finishPause marks a turn that the server paused (pause_turn, or compaction with
// pause_after_compaction).
const finishPause agent.Finish = "pause"

// finishOf translates a stop reason
// (https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons). With any
// other reason the model ended the answer itself.
func finishOf(stop string) agent.Finish {
	switch stop {
	case "max_tokens", "model_context_window_exceeded":
		return agent.FinishLength
	case "refusal":
		return agent.FinishContentFilter
	case "pause_turn", "compaction":
		return finishPause
	}
	return agent.FinishStop
}

// part returns a block that is not a call as a part with the text that was shown. Blocks of
// other kinds, such as redacted_thinking, have no text and are only sent back.
func (a *answer) part(b *block) (agent.Part, bool) {
	a.show(b, b.text.Rest())
	switch b.kind {
	case "text":
		return agent.Text(b.text.String()), len(b.text.Buf) > 0
	case "thinking":
		p := agent.Part{Kind: agent.PartReasoning, Text: b.text.String()}
		if signature := b.signature.Rest(); signature != "" { // there is none if the answer was cut
			p.Extra = a.extra("signature", modelhttp.AppendString(nil, signature))
		}
		return p, p.Text != "" || p.Extra != nil
	}
	raw := b.raw
	var members map[string]json.RawMessage
	came := map[string]json.RawMessage{}
	switch {
	case b.kind == kindCompaction:
		if b.compacted.Rest(); len(b.compacted.Buf) > 0 {
			came["content"] = modelhttp.AppendString(nil, b.compacted.String())
		}
		if b.signature.Rest(); len(b.signature.Buf) > 0 {
			came["encrypted_content"] = modelhttp.AppendString(nil, b.signature.String())
		}
	case len(b.args.Buf) > 0 && json.Valid(b.args.Buf):
		came["input"] = b.args.Buf // of a tool that the server runs
	}
	if len(came) > 0 && json.Unmarshal(raw, &members) == nil {
		maps.Copy(members, came)
		if with, err := json.Marshal(members); err == nil {
			raw = with
		}
	}
	return agent.Part{Kind: agent.PartReasoning, Extra: a.extra("block", raw)}, modelhttp.FirstByte(raw) == '{'
}

// extra returns a reasoningExtra as compact JSON, which is the form that a journal returns.
func (a *answer) extra(name string, value []byte) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, fmt.Appendf(nil, `{%q:%s,"host":%s}`, name, value, modelhttp.AppendString(nil, a.host))) != nil {
		return nil
	}
	return b.Bytes()
}

// call is a block of kind tool_use. Its arguments come in pieces after it, or with it.
func (b *block) call() agent.ToolCall {
	o := modelhttp.ObjectOf(b.raw)
	args := b.args.Buf
	if len(args) == 0 {
		args = o.Get("input")
	}
	return modelhttp.ToolCall(modelhttp.Str(o.Get("id")), modelhttp.Str(o.Get("name")), args)
}
