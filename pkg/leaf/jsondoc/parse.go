package jsondoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Parse reads text, which must not change while the Document is used. Its error is
// a *SyntaxError.
func Parse(text []byte, opts Options) (*Document, error) {
	p := &parser{opts: opts, doc: &Document{text: text, places: opts.Places}}
	switch i := invalidUTF8(text); {
	case opts.MaxBytes > 0 && len(text) > opts.MaxBytes:
		p.fail(0, "the text is %d bytes long; the limit is %d", len(text), opts.MaxBytes)
	case bytes.HasPrefix(text, []byte("\xef\xbb\xbf")):
		p.fail(0, "there is a byte order mark; save the file as UTF-8 without one")
	case i >= 0:
		p.fail(i, "not valid UTF-8")
	case !json.Valid(text):
		p.syntax(json.Unmarshal(text, new(json.RawMessage)))
	default:
		p.doc.Root = &Node{}
		p.value(p.doc.Root, 0)
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.doc, nil
}

// A parser builds the tree of a text that is valid JSON, and stops at its first
// error.
type parser struct {
	opts Options
	doc  *Document
	pos  int
	err  *SyntaxError
}

func (p *parser) fail(offset int, format string, args ...any) {
	if p.err == nil {
		line, col := p.doc.Position(offset)
		p.err = &SyntaxError{offset, line, col, fmt.Sprintf(format, args...)}
		p.pos = len(p.doc.text)
	}
}

// next skips white space and returns the byte after it, 0 at the end.
func (p *parser) next() byte {
	for p.pos < len(p.doc.text) {
		switch c := p.doc.text[p.pos]; c {
		case ' ', '\t', '\r', '\n':
			p.pos++
		default:
			return c
		}
	}
	return 0
}

// value reads the next value, and notes its place in n, which is nil where no
// places are kept.
func (p *parser) value(n *Node, depth int) any {
	c := p.next()
	start := p.pos
	var v any
	switch c {
	case '{', '[':
		if depth == p.opts.MaxDepth && depth > 0 {
			p.fail(start, "nested more than %d deep", depth)
			return nil
		}
		if c == '{' {
			v = p.object(n, depth)
		} else {
			v = p.array(n, depth)
		}
	case '"':
		v = p.string()
	case 't', 'f':
		p.literal()
		v = c == 't'
	case 'n':
		p.literal()
	default:
		v = p.number()
	}
	if n != nil {
		n.Value, n.Start, n.End = v, start, p.pos
		if n.NameEnd == 0 {
			n.NameStart, n.NameEnd = start, start
		}
	}
	return v
}

// child returns a Node for a value inside n, nil where no places are kept.
func (p *parser) child(n *Node, depth int) *Node {
	if n == nil || p.opts.Shallow && depth > 0 {
		return nil
	}
	child := &Node{parent: n, index: len(n.Children)}
	n.Children = append(n.Children, child)
	return child
}

func (p *parser) object(n *Node, depth int) map[string]any {
	v := map[string]any{}
	if n != nil {
		n.members = map[string]*Node{}
	}
	p.pos++
	for c := p.next(); c != '}' && p.err == nil; c = p.next() {
		if c == ',' {
			p.pos++
			p.next()
		}
		start := p.pos
		name := p.string()
		end := p.pos
		p.next()
		p.pos++ // the colon
		_, twice := v[name]
		if twice && p.opts.Strict {
			p.fail(start, "the key %s is there twice", strconv.Quote(clip(name)))
			break
		}
		child := p.child(n, depth)
		if child != nil {
			child.Name, child.NameStart, child.NameEnd = name, start, end
			if twice {
				p.doc.Duplicates = append(p.doc.Duplicates, Duplicate{child, n.members[name]})
			}
			n.members[name] = child
		}
		v[name] = p.value(child, depth+1)
	}
	p.pos++
	return v
}

func (p *parser) array(n *Node, depth int) []any {
	v := []any{}
	p.pos++
	for c := p.next(); c != ']' && p.err == nil; c = p.next() {
		if c == ',' {
			p.pos++
		}
		v = append(v, p.value(p.child(n, depth), depth+1))
	}
	p.pos++
	return v
}

// string reads a string and returns what it stands for.
func (p *parser) string() string {
	start, escaped := p.pos, false
	for p.pos++; p.pos < len(p.doc.text) && p.doc.text[p.pos] != '"'; p.pos++ {
		if p.doc.text[p.pos] == '\\' {
			escaped = true
			p.pos++
		}
	}
	p.pos++
	if p.err != nil {
		return ""
	}
	raw := p.doc.text[start:p.pos]
	if !escaped {
		return string(raw[1 : len(raw)-1])
	}
	if i := halfPair(raw); i >= 0 && p.opts.Strict {
		p.fail(start+i, "half of a surrogate pair (%s)", raw[i:i+6])
		return ""
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		p.fail(start, "%s", err) // cannot be: the text is valid
	}
	return s
}

// literal skips a number or a word and returns it.
func (p *parser) literal() []byte {
	start := p.pos
	for p.pos < len(p.doc.text) && strings.IndexByte(" \t\r\n,]}", p.doc.text[p.pos]) < 0 {
		p.pos++
	}
	return p.doc.text[start:p.pos]
}

func (p *parser) number() json.Number {
	start := p.pos
	n := string(p.literal())
	mantissa, exp := n, ""
	if i := strings.IndexAny(n, "eE"); i >= 0 {
		mantissa, exp = n[:i], strings.TrimLeft(n[i+1:], "+-0")
	}
	if most := p.opts.MaxDigits; most > 0 && len(mantissa) > most {
		digits := len(strings.NewReplacer("-", "", ".", "").Replace(mantissa))
		if digits > most {
			p.fail(start, "a number of %d digits; the limit is %d", digits, most)
		}
	}
	if most := p.opts.MaxExponent; most > 0 && exp != "" {
		if e, err := strconv.Atoi(exp); err != nil || e > most {
			p.fail(start, "a number with an exponent of more than %d", most)
		}
	}
	return json.Number(n)
}

// halfPair is the offset of an escaped half of a surrogate pair in the raw text of
// a string, -1 if there is none.
func halfPair(raw []byte) int {
	for i := 0; i+5 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		r := escaped(raw[i:])
		switch {
		case r < 0: // another escape
			i++
		case r >= 0xDC00 && r <= 0xDFFF:
			return i
		case r >= 0xD800 && r <= 0xDBFF:
			if low := escaped(raw[i+6:]); low < 0xDC00 || low > 0xDFFF {
				return i
			}
			i += 11
		default:
			i += 5
		}
	}
	return -1
}

// escaped is the code unit of the \uXXXX that raw begins with, -1 without one.
func escaped(raw []byte) int {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 32)
	if err != nil {
		return -1
	}
	return int(n)
}

// syntax says where and why the text is not JSON.
func (p *parser) syntax(err error) {
	text := p.doc.text
	if len(bytes.TrimSpace(text)) == 0 {
		p.fail(0, "there is nothing in it; want a JSON value")
		return
	}
	serr, ok := errors.AsType[*json.SyntaxError](err)
	if !ok || strings.HasPrefix(serr.Error(), "unexpected end") {
		p.fail(len(text), "the text ends too early")
		return
	}
	offset := max(int(serr.Offset)-1, 0)
	p.fail(offset, "%s", p.reason(offset, serr.Error()))
}

// reason guesses what a person meant who wrote what stands at offset.
func (p *parser) reason(offset int, message string) string {
	text := p.doc.text
	before := bytes.TrimRight(text[:min(offset, len(text))], " \t\r\n")
	var last, c byte
	if len(before) > 0 {
		last = before[len(before)-1]
	}
	if offset < len(text) {
		c = text[offset]
	}
	switch {
	case strings.Contains(message, "exceeded max depth"):
		if p.opts.MaxDepth > 0 {
			return fmt.Sprintf("nested more than %d deep", p.opts.MaxDepth)
		}
	case strings.Contains(message, "after top-level value"):
		return "there is text behind the JSON value"
	case last == ',' && (c == '}' || c == ']'):
		return fmt.Sprintf("there is a comma before the closing %c", c)
	case c == '/' || c == '#':
		return "comments are not allowed in JSON"
	case c == '\'':
		return "strings need double quotes"
	case strings.Contains(message, "looking for beginning of object key"):
		return "want a key in double quotes"
	case strings.Contains(message, "after object key:value pair"), strings.Contains(message, "after array element"):
		return "there is a comma missing before this"
	case strings.Contains(message, "after object key"):
		return "there is a colon missing before this"
	case strings.Contains(message, "in string literal"):
		return "a string holds a raw line break or control character; write it as \\n or \\u00XX"
	case strings.Contains(message, "looking for beginning of value"):
		return "want a JSON value"
	}
	return message
}
