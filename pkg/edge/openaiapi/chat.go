package openaiapi

import "cmp"

// A chatOutput writes a chat completion, or with a stream its chunks.
type chatOutput struct {
	*stream
	req    *request
	id     string
	opened bool // the first chunk was sent
	parted bool // the text of a turn was sent, and the next is another's
}

// object is a completion or a chunk of one.
func (o *chatOutput) object(kind string, choices ...object) object {
	if choices == nil {
		choices = []object{}
	}
	return object{"id": o.id, "object": kind, "created": o.req.created, "model": o.req.Model, "choices": choices}
}

// chunk sends a piece of the answer. The first piece is preceded by the role.
func (o *chatOutput) chunk(delta object) {
	if !o.opened {
		o.opened = true
		o.chunk(object{"role": "assistant", "content": ""})
	}
	o.send("", o.object("chat.completion.chunk", object{"index": 0, "delta": delta, "finish_reason": nil}))
}

func (o *chatOutput) text(piece string, again bool) {
	if o.parted || again {
		piece = "\n\n" + piece
	}
	o.parted = false
	o.chunk(object{"content": piece})
}

func (o *chatOutput) turn() { o.parted = true }

func (o *chatOutput) finish(r *reply) {
	reason := cmp.Or(r.short, "stop")
	more := object{} // what follows the text
	var calls []object
	for i, c := range r.calls {
		reason = "tool_calls"
		calls = append(calls, object{"index": i, "id": c.id, "type": "function", "function": object{"name": c.name, "arguments": c.args}})
	}
	if calls != nil {
		more["tool_calls"] = calls
	}
	if r.refusal != "" {
		more["refusal"] = r.refusal
	}
	if !o.on {
		if more["content"] = text(r.text); len(more) == 1 {
			more["content"] = r.text // "", not null
		}
		more["role"], more["refusal"] = "assistant", text(r.refusal)
		whole := o.object("chat.completion", object{"index": 0, "message": more, "finish_reason": reason})
		whole["usage"] = usage(r.usage, "prompt", "completion")
		r.extra.add(whole)
		o.reply(whole)
		return
	}
	if len(more) > 0 || !o.opened {
		o.chunk(more)
	}
	last := o.object("chat.completion.chunk", object{"index": 0, "delta": object{}, "finish_reason": reason})
	r.extra.add(last)
	o.send("", last)
	if o.req.StreamOptions.IncludeUsage {
		last = o.object("chat.completion.chunk")
		last["usage"] = usage(r.usage, "prompt", "completion")
		o.send("", last)
	}
	o.write([]byte("data: [DONE]\n\n"))
}

func (o *chatOutput) fail(err error) {
	if !o.begun {
		writeError(o.w, err)
		return
	}
	o.send("", errorObject(asAPIError(err)))
}
