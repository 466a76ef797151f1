package openai

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// The limits of the tool calls of one answer.
const (
	maxCalls = 1 << 14
	maxName  = 256 // bytes; a longer name is not that of a tool
	maxID    = 256 // bytes; a longer id is replaced
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
	args  text
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
	o := objectOf(raw)
	f := objectOf(o.get("function"))
	if f == nil {
		f = o
	}
	p := callDelta{index: -1, id: str(o.get("id")), name: str(f.get("name")), args: f.get("arguments"), extra: o.get("extra_content"), position: position}
	if index := o.get("index"); firstByte(index) != 'n' && index != nil {
		p.index = number(index)
	}
	return p
}

// add adds a piece to its call, or a new call.
func (c *calls) add(p callDelta) error {
	target := c.find(p)
	if target == nil {
		if len(c.list) == maxCalls {
			return &agent.ModelError{Message: fmt.Sprintf("the answer has more than %d tool calls (the limit of one answer)", maxCalls)}
		}
		target = &call{}
		c.list = append(c.list, target)
	}
	if target.id == "" {
		target.id = p.id
	}
	if c.byID == nil {
		c.byID, c.byIndex = map[string]*call{}, map[int]*call{}
	}
	if target.id != "" && c.byID[target.id] == nil {
		c.byID[target.id] = target
	}
	if p.index >= 0 {
		c.byIndex[p.index] = target
	}
	if target.name != p.name && len(target.name) <= maxName {
		target.name += p.name
	}
	target.addArgs(p.args)
	if firstByte(p.extra) == '{' {
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
		twoPieces := p.index >= 0 && p.id == "" && p.position == 0 && len(c.args.buf) == 0
		return !twoPieces
	case p.index < 0 && p.position > 0:
		return true // servers do not cut a call in two within one chunk
	case len(c.args.buf) == 0 || len(p.args) <= 2 || sameID && p.index >= 0:
		return false // the name comes with every piece
	}
	return c.complete()
}

// complete reports whether the arguments are complete; empty ones are.
func (c *call) complete() bool {
	args := bytes.TrimSpace(c.args.buf)
	return len(args) == 0 || json.Valid(args)
}

// addArgs appends a piece of the arguments. A server may send an object where
// the protocol has a string; then its text is what the model wrote.
func (c *call) addArgs(raw []byte) {
	switch firstByte(raw) {
	case 0, 'n':
		return
	case '"':
	default:
		c.args.buf = append(c.args.buf[:0], raw...)
		return
	}
	n := len(c.args.buf)
	c.args.add(raw)
	before, piece := c.args.buf[:min(n, len(c.args.buf))], c.args.buf[min(n, len(c.args.buf)):]
	switch {
	case string(before) == "{}" && firstByte(piece) == '{':
		c.args.buf = piece // {} was a placeholder
	case n > 2 && bytes.Equal(before, piece) && json.Valid(piece):
		c.args.buf = before // servers repeat all arguments at the end
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
		// Invalid UTF-8 in arguments is not repaired: the call is refused when they
		// are decoded.
		t := agent.ToolCall{ID: one.id, Name: one.name, Args: string(one.args.buf)}
		if len(t.ID) > maxID {
			t.ID = fmt.Sprintf("call_%x", sha256.Sum256([]byte(t.ID)))
		}
		if len(t.Name) > maxName {
			t.Name = strings.ToValidUTF8(t.Name[:maxName-len("…")], "") + "…"
		}
		if one.extra != nil {
			t.Extra = mustJSON(extraContent{one.extra})
		}
		list = append(list, t)
	}
	return list
}
