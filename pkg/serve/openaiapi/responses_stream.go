package openaiapi

import (
	"crypto/rand"
	"net/http"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// A responseOutput writes a response, or with a stream its events. The text of each turn
// is a message of its own.
type responseOutput struct {
	w        http.ResponseWriter
	stream   *stream // nil: the response is one object
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
func (o *responseOutput) send(kind string, e event) error {
	if o.stream == nil {
		return nil
	}
	if !o.begun {
		o.begun = true
		now := o.object("in_progress")
		now.Output = []*outputItem{}
		for _, kind := range []string{"response.created", "response.in_progress"} {
			if err := o.send(kind, event{"response": now}); err != nil {
				return err
			}
		}
	}
	e["type"], e["sequence_number"] = kind, o.sequence
	o.sequence++
	return o.stream.send(kind, e)
}

func (o *responseOutput) index() int { return len(o.items) - 1 }

// add begins an item.
func (o *responseOutput) add(it *outputItem) error {
	o.items = append(o.items, it)
	return o.send("response.output_item.added", event{"output_index": o.index(), "item": it})
}

// done ends the last item.
func (o *responseOutput) done(status string) error {
	it := o.items[o.index()]
	it.Status = status
	return o.send("response.output_item.done", event{"output_index": o.index(), "item": it})
}

// within is an event about the content of the last item.
func (o *responseOutput) within(more event) event {
	more["item_id"], more["output_index"], more["content_index"] = o.items[o.index()].ID, o.index(), 0
	return more
}

// begin begins a message.
func (o *responseOutput) begin(part outputPart) error {
	o.open = true
	it := &outputItem{ID: "msg_" + rand.Text(), Type: "message", Status: "in_progress", Role: "assistant", Content: &[]outputPart{}}
	if err := o.add(it); err != nil {
		return err
	}
	it.Content = &[]outputPart{part}
	return o.send("response.content_part.added", o.within(event{"part": part}))
}

func (o *responseOutput) text(piece string, again bool) error {
	if again && o.open {
		if err := o.close("incomplete"); err != nil {
			return err
		}
	}
	if !o.open {
		if err := o.begin(textPart("")); err != nil {
			return err
		}
	}
	o.whole.WriteString(piece)
	return o.send("response.output_text.delta", o.within(event{"delta": piece, "logprobs": []any{}}))
}

// close ends the message that is open.
func (o *responseOutput) close(status string) error {
	if !o.open {
		return nil
	}
	o.open = false
	part := textPart(o.whole.String())
	o.whole.Reset()
	o.items[o.index()].Content = &[]outputPart{part}
	if err := o.send("response.output_text.done", o.within(event{"text": *part.Text, "logprobs": []any{}})); err != nil {
		return err
	}
	if err := o.send("response.content_part.done", o.within(event{"part": part})); err != nil {
		return err
	}
	return o.done(status)
}

func (o *responseOutput) turn() error { return o.close("completed") }

func (o *responseOutput) idle() error {
	if o.stream == nil {
		return nil
	}
	if !o.begun { // the client gets the id of the response
		return o.send("response.in_progress", event{"response": o.object("in_progress")})
	}
	return o.stream.comment()
}

// keep takes over the conversation for a request that continues it.
func (o *responseOutput) keep(c *conversation) {
	o.messages = withoutNote(c.messages(), o.req.Instructions)
}

func (o *responseOutput) kept() bool { return o.req.Store == nil || *o.req.Store }

// call adds a call of a tool of the client.
func (o *responseOutput) call(c call) error {
	it := &outputItem{ID: "fc_" + rand.Text(), Type: "function_call", Status: "in_progress", CallID: c.id, Name: c.name, Arguments: new(string)}
	if err := o.add(it); err != nil {
		return err
	}
	it.Arguments = &c.args
	place := func(more event) event {
		more["item_id"], more["output_index"] = it.ID, o.index()
		return more
	}
	if err := o.send("response.function_call_arguments.delta", place(event{"delta": c.args})); err != nil {
		return err
	}
	if err := o.send("response.function_call_arguments.done", place(event{"name": c.name, "arguments": c.args})); err != nil {
		return err
	}
	return o.done("completed")
}

// refuse adds a message with the reason of a run that was refused.
func (o *responseOutput) refuse(reason string) error {
	if err := o.begin(outputPart{Type: "refusal", Refusal: new(string)}); err != nil {
		return err
	}
	o.open = false
	part := outputPart{Type: "refusal", Refusal: &reason}
	o.items[o.index()].Content = &[]outputPart{part}
	for _, e := range []struct {
		kind string
		event
	}{
		{"response.refusal.delta", event{"delta": reason}},
		{"response.refusal.done", event{"refusal": reason}},
		{"response.content_part.done", event{"part": part}},
	} {
		if err := o.send(e.kind, o.within(e.event)); err != nil {
			return err
		}
	}
	return o.done("completed")
}

func (o *responseOutput) finish(r *reply, short string) {
	// A client that is gone reads nothing, and gets the response later if it is stored.
	_ = o.close("incomplete")
	for _, c := range r.calls {
		_ = o.call(c)
	}
	answer, refusal := r.instead(short)
	if refusal != "" {
		_ = o.refuse(refusal)
	}
	if n := len(o.items); o.stream == nil && n > 0 && r.calls == nil && refusal == "" && answer != "" {
		*o.items[n-1].Content = []outputPart{textPart(answer)} // as it was accepted
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
	_ = o.send("response."+status, event{"response": object})
}

func (o *responseOutput) fail(err error) {
	if o.stream == nil || !o.stream.begun {
		writeError(o.w, err)
		return
	}
	_ = o.close("incomplete")
	object := o.object("failed")
	object.Error = &responseError{"server_error", asAPIError(err).Text}
	_ = o.send("response.failed", event{"response": object})
}
