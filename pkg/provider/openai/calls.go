package openai

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/agents-exe/agents/pkg/agent"
)

// maxCalls limits the tool calls of one answer.
const maxCalls = 1 << 14

// calls are the tool calls of an answer, in the order of their first pieces.
// Servers name the call that a piece belongs to by index, by id, by both, or by
// nothing but the order; and some of what they say is wrong.
type calls struct {
	list    []*call
	byIndex map[number]*call // the last call with an index
	byID    map[string]*call
}

type call struct {
	id    string
	name  string
	args  text
	extra json.RawMessage
}

// add takes in a piece, the position-th of its chunk.
func (c *calls) add(piece *callDelta, position int) error {
	f := piece.Function
	if f == nil {
		f = &piece.function
	}
	target := c.find(piece, f, position)
	if target == nil {
		if len(c.list) == maxCalls {
			return &agent.ModelError{Message: fmt.Sprintf("the answer has more than %d tool calls (the limit of one answer)", maxCalls)}
		}
		target = &call{}
		c.list = append(c.list, target)
	}
	if target.id == "" {
		target.id = string(piece.ID)
	}
	c.note(target, piece.Index)
	if target.name != string(f.Name) {
		target.name += string(f.Name)
	}
	target.addArgs(f.Arguments)
	if firstByte(piece.ExtraContent) == '{' {
		target.extra = piece.ExtraContent
	}
	return nil
}

func (c *calls) note(target *call, index *number) {
	if c.byID == nil {
		c.byID, c.byIndex = map[string]*call{}, map[number]*call{}
	}
	if target.id != "" && c.byID[target.id] == nil {
		c.byID[target.id] = target
	}
	if index != nil {
		c.byIndex[*index] = target
	}
}

// find is the call that a piece continues, or nil if it begins one.
func (c *calls) find(piece *callDelta, f *function, position int) *call {
	if len(c.list) == 0 {
		return nil
	}
	last := c.list[len(c.list)-1]
	if piece.Index != nil {
		if last = c.byIndex[*piece.Index]; last == nil {
			return nil
		}
	}
	if id := string(piece.ID); id != "" && id != last.id {
		known := c.byID[id]
		if known == nil && last.id != "" && f.Name != "" {
			// Another id at the same index is another call (Gemini); but some
			// servers make up an id for every piece, so it takes a name too.
			return nil
		}
		if known != nil {
			last = known
		}
	}
	if last.precedes(piece, f, position) {
		return nil
	}
	return last
}

// precedes reports whether a piece that nothing tells apart from c begins
// another call nevertheless.
func (c *call) precedes(piece *callDelta, f *function, position int) bool {
	sameID := piece.ID != "" && string(piece.ID) == c.id
	switch {
	case f.Name == "" || c.name == "":
		return false
	case string(f.Name) != c.name:
		twoPieces := piece.Index != nil && piece.ID == "" && position == 0 && len(c.args.buf) == 0
		return !twoPieces
	case piece.Index == nil && position > 0:
		return true // servers do not cut a call in two within one chunk
	case len(c.args.buf) == 0 || len(f.Arguments) <= 2 || sameID && piece.Index != nil:
		return false // the name is said again and again
	}
	return c.whole()
}

// whole reports whether the arguments are complete. No arguments are.
func (c *call) whole() bool {
	args := bytes.TrimSpace(c.args.buf)
	return len(args) == 0 || json.Valid(args)
}

// addArgs appends a piece of the arguments. A server may send an object where
// the protocol has a string; then its text is what the model wrote.
func (c *call) addArgs(raw json.RawMessage) {
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
		c.args.buf = piece // {} held the place
	case n > 2 && bytes.Equal(before, piece) && json.Valid(piece):
		c.args.buf = before // all of them again, at the end
	}
}

// whole reports whether no call is cut.
func (c *calls) whole() bool {
	for _, one := range c.list {
		if !one.whole() {
			return false
		}
	}
	return true
}

func (c *calls) toolCalls() []agent.ToolCall {
	var list []agent.ToolCall
	for _, one := range c.list {
		// The bytes stay as they came, valid or not: a call whose arguments are
		// no valid UTF-8 is refused by whoever decodes them, not repaired.
		t := agent.ToolCall{ID: one.id, Name: one.name, Args: string(one.args.buf)}
		if one.extra != nil {
			t.Extra = mustJSON(extraContent{one.extra})
		}
		list = append(list, t)
	}
	return list
}
