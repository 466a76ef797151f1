package openai

import (
	"bytes"
	"cmp"
	"encoding/json"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// calls are the tool calls of an answer, in the order of their first pieces.
// Servers identify the call of a piece by index, by id, by both, or only by the
// order, and some of these are wrong.
type calls struct {
	list    []*call
	byIndex map[int]*call // the last call with an index
	byID    map[string]*call
}

type call struct {
	id    string
	name  string
	args  modelhttp.Text
	extra json.RawMessage
}

// A callDelta is the part of a call in one chunk.
type callDelta struct {
	index    int // -1 if there is none
	id, name string
	args     []byte
	extra    []byte
	position int // in its chunk
}

// callDeltaOf reads an element of tool_calls. Some servers leave out the object
// "function" around name and arguments.
func callDeltaOf(raw []byte, position int) callDelta {
	o := modelhttp.ObjectOf(raw)
	f := modelhttp.ObjectOf(o.Get("function"))
	if f == nil {
		f = o
	}
	p := callDelta{index: -1, id: modelhttp.Str(o.Get("id")), name: modelhttp.Str(f.Get("name")), args: f.Get("arguments"), extra: o.Get("extra_content"), position: position}
	if index := o.Get("index"); modelhttp.FirstByte(index) != 'n' && index != nil {
		p.index = modelhttp.Number(index)
	}
	return p
}

func (c *calls) add(p callDelta) error {
	target := c.find(p)
	if target == nil {
		if len(c.list) == modelhttp.MaxCalls {
			return modelhttp.TooManyCalls()
		}
		target = &call{}
		c.list = append(c.list, target)
	}
	target.id = cmp.Or(target.id, p.id)
	if c.byID == nil {
		c.byID, c.byIndex = map[string]*call{}, map[int]*call{}
	}
	if target.id != "" && c.byID[target.id] == nil {
		c.byID[target.id] = target
	}
	if p.index >= 0 {
		c.byIndex[p.index] = target
	}
	if target.name != p.name && len(target.name) <= modelhttp.MaxName {
		target.name += p.name
	}
	target.addArgs(p.args)
	if modelhttp.FirstByte(p.extra) == '{' {
		target.extra = bytes.Clone(p.extra)
	}
	return nil
}

// find returns the call that a piece continues, or nil if it begins one.
func (c *calls) find(p callDelta) *call {
	if len(c.list) == 0 {
		return nil
	}
	last := c.list[len(c.list)-1]
	if p.index >= 0 {
		if last = c.byIndex[p.index]; last == nil {
			return nil
		}
	}
	if p.id != "" && p.id != last.id {
		known := c.byID[p.id]
		if known == nil && last.id != "" && p.name != "" {
			// Another id at the same index is another call (Gemini); but some
			// servers make up an id for every piece, so it takes a name too.
			return nil
		}
		if known != nil {
			last = known
		}
	}
	if last.precedes(p) {
		return nil
	}
	return last
}

// precedes reports whether a piece with the index and id of c begins another
// call nevertheless.
func (c *call) precedes(p callDelta) bool {
	sameID := p.id != "" && p.id == c.id
	switch {
	case p.name == "" || c.name == "":
		return false
	case p.name != c.name:
		twoPieces := p.index >= 0 && p.id == "" && p.position == 0 && len(c.args.Buf) == 0
		return !twoPieces
	case p.index < 0 && p.position > 0:
		return true // servers do not cut a call in two within one chunk
	case len(c.args.Buf) == 0 || len(p.args) <= 2 || sameID && p.index >= 0:
		return false // the name comes with every piece
	}
	return c.complete()
}

// complete reports whether the arguments are complete; empty ones are.
func (c *call) complete() bool {
	args := bytes.TrimSpace(c.args.Buf)
	return len(args) == 0 || json.Valid(args)
}

// addArgs appends a piece of the arguments. A server may send an object where
// the protocol has a string; then its text is what the model wrote.
func (c *call) addArgs(raw []byte) {
	switch modelhttp.FirstByte(raw) {
	case 0, 'n':
		return
	case '"':
	default:
		c.args.Buf = append(c.args.Buf[:0], raw...)
		return
	}
	n := len(c.args.Buf)
	c.args.Add(raw)
	before, piece := c.args.Buf[:min(n, len(c.args.Buf))], c.args.Buf[min(n, len(c.args.Buf)):]
	switch {
	case string(before) == "{}" && modelhttp.FirstByte(piece) == '{':
		c.args.Buf = piece // {} was a placeholder
	case n > 2 && bytes.Equal(before, piece) && json.Valid(piece):
		c.args.Buf = before // servers repeat all arguments at the end
	}
}

// complete reports whether no call is cut.
func (c *calls) complete() bool {
	for _, one := range c.list {
		if !one.complete() {
			return false
		}
	}
	return true
}

func (c *calls) toolCalls() []agent.ToolCall {
	var list []agent.ToolCall
	for _, one := range c.list {
		t := modelhttp.ToolCall(one.id, one.name, one.args.Buf)
		if one.extra != nil {
			t.Extra = modelhttp.MustJSON(extraContent{one.extra})
		}
		list = append(list, t)
	}
	return list
}
