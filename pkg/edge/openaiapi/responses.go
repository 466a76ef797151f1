package openaiapi

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A responseOutput writes a response, or with a stream its events. The text of each turn
// is a message of its own.
type responseOutput struct {
	*stream
	answered func(id string, response []byte) // stores it; nil stores none. A *Handler would be linked into agents
	req      *request
	id       string
	items    []object
	sequence int
	created  bool            // the events that begin a response were sent
	open     string          // the type of the last item's content, while it is written
	whole    strings.Builder // this content
}

// event sends an event; the first one is preceded by those that begin a response.
func (o *responseOutput) event(kind string, e object) {
	if !o.created {
		o.created = true
		now := o.object("in_progress")
		now["output"] = []object{}
		o.event("response.created", object{"response": now})
		o.event("response.in_progress", object{"response": now})
	}
	e["type"], e["sequence_number"] = kind, o.sequence
	o.sequence++
	o.send(kind, e)
}

func (o *responseOutput) last() object { return o.items[len(o.items)-1] }

// about sends an event about the last item.
func (o *responseOutput) about(kind string, more object) {
	e := object{"item_id": o.last()["id"], "output_index": len(o.items) - 1}
	maps.Copy(e, more)
	o.event(kind, e)
}

func (o *responseOutput) add(it object) {
	it["status"] = "in_progress"
	o.items = append(o.items, it)
	o.event("response.output_item.added", object{"output_index": len(o.items) - 1, "item": it})
}

func (o *responseOutput) done(status string) {
	o.last()["status"] = status
	o.event("response.output_item.done", object{"output_index": len(o.items) - 1, "item": o.last()})
}

// content is the content of a message, of the type output_text or refusal.
func content(kind, text string) object {
	if kind == "refusal" {
		return object{"type": kind, "refusal": text}
	}
	return object{"type": kind, "text": text, "annotations": []any{}}
}

// piece adds a piece to the content of the open message, or begins one.
func (o *responseOutput) piece(kind, piece string) {
	if o.open == "" {
		o.open = kind
		o.add(object{"id": "msg_" + rand.Text(), "type": "message", "role": "assistant", "content": []object{}})
		o.about("response.content_part.added", object{"content_index": 0, "part": content(kind, "")})
	}
	o.whole.WriteString(piece)
	o.about("response."+kind+".delta", object{"content_index": 0, "delta": piece, "logprobs": []any{}})
}

func (o *responseOutput) close(status string) {
	if o.open == "" {
		return
	}
	part := content(o.open, o.whole.String())
	done := object{"content_index": 0, "logprobs": []any{}}
	maps.Copy(done, part)
	o.about("response."+o.open+".done", done)
	o.about("response.content_part.done", object{"content_index": 0, "part": part})
	o.last()["content"] = []object{part}
	o.done(status)
	o.open = ""
	o.whole.Reset()
}

func (o *responseOutput) text(piece string, again bool) {
	if again {
		o.close("incomplete")
	}
	o.piece("output_text", piece)
}

func (o *responseOutput) turn() { o.close("completed") }

func (o *responseOutput) idle() {
	if !o.created { // the client gets the id of the response
		o.event("response.in_progress", object{"response": o.object("in_progress")})
		return
	}
	o.stream.idle()
}

func (o *responseOutput) call(c call) {
	it := object{"id": "fc_" + rand.Text(), "type": "function_call", "call_id": c.id, "name": c.name, "arguments": ""}
	o.add(it)
	it["arguments"] = c.args
	o.about("response.function_call_arguments.delta", object{"delta": c.args})
	o.about("response.function_call_arguments.done", object{"name": c.name, "arguments": c.args})
	o.done("completed")
}

func (o *responseOutput) finish(r *reply) {
	o.close("incomplete")
	for _, c := range r.calls {
		o.call(c)
	}
	if r.refusal != "" {
		o.piece("refusal", r.refusal)
		o.close("completed")
	}
	whole := o.object("completed")
	if r.short != "" {
		whole["status"], whole["incomplete_details"] = "incomplete", object{"reason": strings.Replace(r.short, cutShort, "max_output_tokens", 1)}
	}
	if whole["status"] == "completed" {
		whole["completed_at"] = time.Now().Unix()
	}
	whole["usage"] = usage(r.usage, "input", "output")
	r.extra.add(whole)
	if o.req.Store && o.answered != nil {
		o.answered(o.id, encode(whole))
	}
	if !o.on {
		o.reply(whole)
		return
	}
	o.end("response."+whole["status"].(string), whole)
}

func (o *responseOutput) fail(err error) {
	if !o.begun {
		o.refuse(err)
		return
	}
	o.failed = true
	o.close("incomplete")
	whole := o.object("failed")
	whole["error"] = object{"code": "server_error", "message": asAPIError(err).Text}
	o.end("response.failed", whole)
}

// end sends the last event, and then [DONE], which Open Responses requires.
func (o *responseOutput) end(kind string, whole object) {
	o.event(kind, object{"response": whole})
	o.write([]byte("data: [DONE]\n\n"))
}

// object returns the response as it is now, with all keys that Open Responses requires. The agent
// file configures the model, so keys that only tune a model have the API's defaults.
func (o *responseOutput) object(status string) object {
	r, choice := o.req, json.RawMessage(`"auto"`)
	if given(r.ToolChoice) {
		choice = r.ToolChoice
	}
	return object{
		"id": o.id, "object": "response", "created_at": r.created, "completed_at": nil, "status": status, "model": r.Model, "background": false,
		"error": nil, "incomplete_details": nil, "output": append([]object{}, o.items...), "usage": nil,
		"instructions": text(r.Instructions), "metadata": r.Metadata, "previous_response_id": text(r.Previous), "store": r.Store,
		"parallel_tool_calls": r.Parallel, "tools": withKeys(r.Tools, "description", "parameters", "strict"), "tool_choice": choice,
		"text":        object{"format": cmp.Or(r.Text.Format, &format{Type: "text"}).shown()},
		"temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0, "top_logprobs": 0,
		"reasoning": nil, "max_output_tokens": nil, "max_tool_calls": nil, "truncation": "disabled", "service_tier": "default",
		"safety_identifier": nil, "prompt_cache_key": nil,
	}
}

// withKeys returns a list of objects in which each has all of the keys; those it lacked are null.
func withKeys(list json.RawMessage, keys ...string) []map[string]json.RawMessage {
	var objects []map[string]json.RawMessage // the text of a schema stays as it is
	_ = json.Unmarshal(list, &objects)       // everything else was refused
	for _, o := range objects {
		for _, key := range keys {
			if _, there := o[key]; !there {
				o[key] = nil
			}
		}
	}
	return append([]map[string]json.RawMessage{}, objects...)
}

// shown returns the format with all keys that its type requires.
func (f *format) shown() object {
	if f.Type != "json_schema" {
		return object{"type": f.Type}
	}
	return object{"type": f.Type, "name": f.Name, "description": text(f.Description), "schema": f.Schema, "strict": f.Strict}
}

// withoutNote returns messages without the instructions of one request: they do not hold
// for the next.
func withoutNote(messages []agent.Message, instructions string) []agent.Message {
	if instructions == "" {
		return messages
	}
	drop := note(instructions).Text
	for i, m := range messages {
		if m.Role == agent.RoleUser {
			messages[i].Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p agent.Part) bool { return strings.TrimPrefix(p.Text, "\n\n") == drop })
		}
	}
	return messages
}
