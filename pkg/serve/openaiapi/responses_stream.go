package openaiapi

import (
	"crypto/rand"
	"maps"
	"net/http"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// A responseOutput writes a response, or with a stream its events. The text of each turn
// is a message of its own.
type responseOutput struct {
	*stream  // nil: the response is one object
	w        http.ResponseWriter
	handler  *Handler
	req      *responsesRequest
	id       string
	created  int64
	items    []*outputItem
	sequence int
	begun    bool
	open     bool            // the last item is a message whose text has not ended
	whole    strings.Builder // this text
	messages []agent.Message // of the conversation
}

// An event has the fields of OpenAI's of its type.
type event map[string]any

// send sends an event; the first one is preceded by those that begin a response.
func (o *responseOutput) send(kind string, e event) {
	if o.stream == nil {
		return
	}
	if !o.begun {
		o.begun = true
		now := o.object("in_progress")
		now.Output = []*outputItem{}
		o.send("response.created", event{"response": now})
		o.send("response.in_progress", event{"response": now})
	}
	e["type"], e["sequence_number"] = kind, o.sequence
	o.sequence++
	o.stream.send(kind, e)
}

// item sends an event about the last item.
func (o *responseOutput) item(kind string, more event) {
	e := event{"item_id": o.last().ID, "output_index": len(o.items) - 1}
	maps.Copy(e, more)
	o.send(kind, e)
}

// content sends an event about the content of the last item.
func (o *responseOutput) content(kind string, more event) {
	more["content_index"] = 0
	o.item(kind, more)
}

func (o *responseOutput) last() *outputItem { return o.items[len(o.items)-1] }

// add begins an item.
func (o *responseOutput) add(it *outputItem) {
	o.items = append(o.items, it)
	o.send("response.output_item.added", event{"output_index": len(o.items) - 1, "item": it})
}

// done ends the last item.
func (o *responseOutput) done(status string) {
	o.last().Status = status
	o.send("response.output_item.done", event{"output_index": len(o.items) - 1, "item": o.last()})
}

// begin begins a message.
func (o *responseOutput) begin(part outputPart) {
	o.add(&outputItem{ID: "msg_" + rand.Text(), Type: "message", Status: "in_progress", Role: "assistant", Content: &[]outputPart{}})
	o.content("response.content_part.added", event{"part": part})
}

// end ends a message with its content.
func (o *responseOutput) end(part outputPart, status string) {
	o.last().Content = &[]outputPart{part}
	o.content("response.content_part.done", event{"part": part})
	o.done(status)
}

func (o *responseOutput) text(piece string, again bool) {
	if again {
		o.close("incomplete")
	}
	if !o.open {
		o.open = true
		o.begin(textPart(""))
	}
	o.whole.WriteString(piece)
	o.content("response.output_text.delta", event{"delta": piece, "logprobs": []any{}})
}

// close ends the message that is open.
func (o *responseOutput) close(status string) {
	if !o.open {
		return
	}
	o.open = false
	text := o.whole.String()
	o.whole.Reset()
	o.content("response.output_text.done", event{"text": text, "logprobs": []any{}})
	o.end(textPart(text), status)
}

func (o *responseOutput) turn() { o.close("completed") }

func (o *responseOutput) idle() {
	if !o.begun { // the client gets the id of the response
		o.send("response.in_progress", event{"response": o.object("in_progress")})
		return
	}
	o.comment()
}

// keep takes over the conversation for a request that continues it.
func (o *responseOutput) keep(c *conversation) {
	if o.kept() {
		o.messages = withoutNote(c.messages(), o.req.Instructions)
	}
}

func (o *responseOutput) kept() bool { return o.req.Store == nil || *o.req.Store }

// call adds a call of a tool of the client.
func (o *responseOutput) call(c call) {
	o.add(&outputItem{ID: "fc_" + rand.Text(), Type: "function_call", Status: "in_progress", CallID: c.id, Name: c.name, Arguments: new(string)})
	o.last().Arguments = &c.args
	o.item("response.function_call_arguments.delta", event{"delta": c.args})
	o.item("response.function_call_arguments.done", event{"name": c.name, "arguments": c.args})
	o.done("completed")
}

// refuse adds a message with the reason of a run that was refused.
func (o *responseOutput) refuse(reason string) {
	o.begin(outputPart{Type: "refusal", Refusal: new(string)})
	o.content("response.refusal.delta", event{"delta": reason})
	o.content("response.refusal.done", event{"refusal": reason})
	o.end(outputPart{Type: "refusal", Refusal: &reason}, "completed")
}

func (o *responseOutput) finish(r *reply, short string) {
	o.close("incomplete")
	for _, c := range r.calls {
		o.call(c)
	}
	if n := len(o.items); o.stream == nil && n > 0 && r.text != "" && r.end != nil && r.end.Status == agent.StatusOK {
		*o.items[n-1].Content = []outputPart{textPart(r.text)} // as it was accepted
	}
	if refusal := r.refusal(); refusal != "" {
		o.refuse(refusal)
	}
	status := "completed"
	reason := map[string]string{cutShort: "max_output_tokens", withheld: withheld}[short]
	if reason != "" {
		status = "incomplete"
	}
	object := o.object(status)
	object.Usage, object.Agents = newResponseUsage(r.usage), &r.extra
	if reason != "" {
		object.Incomplete = &incomplete{reason}
	}
	if o.kept() {
		o.handler.store.add(object, o.messages, o.handler.StoreBytes)
	}
	if o.stream == nil {
		writeJSON(o.w, http.StatusOK, object)
		return
	}
	o.send("response."+status, event{"response": object})
}

func (o *responseOutput) fail(err error) {
	if o.stream == nil || !o.stream.begun {
		writeError(o.w, err)
		return
	}
	o.close("incomplete")
	object := o.object("failed")
	object.Error = &responseError{"server_error", asAPIError(err).Text}
	o.send("response.failed", event{"response": object})
}
