package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Document is a parsed JSON text that knows where its values stand. It never
// changes and may be used concurrently.
type Document struct {
	// Value is the text's value: nil, bool, string, json.Number, []any or
	// map[string]any. Of a key that is there twice, the later value counts.
	Value any
	// Twice has a problem for every key that an object holds twice, up to
	// MaxProblems, and then one for all others.
	Twice []Problem

	text []byte
	root *node
}

// A node is a value's place in the text, and the places of what is in it.
type node struct {
	key, value int // offsets; key is value's own where there is no key
	members    map[string]*node
	items      []*node
}

// A SyntaxError says where a text stops to be JSON. Line and Col count from 1, Col
// in characters.
type SyntaxError struct {
	Line, Col int
	Message   string
}

// Error begins with the place, "LINE:COL: ".
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%d:%d: %s", e.Line, e.Col, e.Message)
}

// Parse reads one JSON text of valid UTF-8, nested at most agent.MaxArgsDepth
// deep. Its error is a *SyntaxError.
func Parse(text []byte) (*Document, error) {
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		return nil, &SyntaxError{1, 1, "there is a byte order mark; save the file as UTF-8 without one"}
	}
	if i := invalidUTF8(text); i >= 0 {
		line, col := position(text, i)
		return nil, &SyntaxError{line, col, "not valid UTF-8"}
	}
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		return nil, plainSyntax(text, err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	p := &parser{dec: dec, doc: &Document{text: text}}
	n, v, err := p.value()
	if err != nil {
		return nil, err
	}
	n.key = n.value
	p.doc.root, p.doc.Value = n, v
	for i, twice := range p.doc.Twice {
		p.doc.Twice[i].Key = p.doc.Key(twice.Key)
	}
	if p.more > 0 {
		last := p.doc.Twice[MaxProblems-1]
		p.doc.Twice = append(p.doc.Twice, Problem{Line: last.Line, Col: last.Col, Message: fmt.Sprintf("%d more keys are there twice", p.more)})
	}
	return p.doc, nil
}

func invalidUTF8(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return -1
}

// position returns line and column of an offset.
func position(text []byte, offset int) (line, col int) {
	before := text[:min(max(offset, 0), len(text))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}

// parser builds a Document from the tokens of a text that is valid JSON.
type parser struct {
	dec  *json.Decoder
	doc  *Document
	path []string // of the value that is being read
	more int      // keys that are there twice beyond MaxProblems
}

// next returns the next token and its offset.
func (p *parser) next() (json.Token, int, error) {
	start := int(p.dec.InputOffset())
	for start < len(p.doc.text) && strings.IndexByte(" \t\r\n,:", p.doc.text[start]) >= 0 {
		start++
	}
	tok, err := p.dec.Token()
	return tok, start, err
}

func (p *parser) value() (*node, any, error) {
	tok, offset, err := p.next()
	if err != nil {
		return nil, nil, plainSyntax(p.doc.text, err)
	}
	if len(p.path) > agent.MaxArgsDepth {
		line, col := position(p.doc.text, offset)
		return nil, nil, &SyntaxError{line, col, fmt.Sprintf("nested more than %d deep", agent.MaxArgsDepth)}
	}
	n := &node{value: offset}
	switch tok {
	case json.Delim('{'):
		v, err := p.object(n)
		return n, v, err
	case json.Delim('['):
		v, err := p.array(n)
		return n, v, err
	}
	return n, tok, nil
}

func (p *parser) object(n *node) (any, error) {
	n.members = map[string]*node{}
	v := map[string]any{}
	for p.dec.More() {
		tok, offset, err := p.next()
		if err != nil {
			return nil, plainSyntax(p.doc.text, err)
		}
		key := tok.(string)
		p.path = append(p.path, key)
		child, value, err := p.value()
		if err != nil {
			return nil, err
		}
		child.key = offset
		if first, ok := n.members[key]; ok {
			p.twice(first.key, offset)
		}
		p.path = p.path[:len(p.path)-1]
		n.members[key], v[key] = child, value
	}
	_, _, err := p.next()
	return v, err
}

func (p *parser) twice(first, second int) {
	if len(p.doc.Twice) == MaxProblems {
		p.more++
		return
	}
	line, col := position(p.doc.text, second)
	firstLine, firstCol := position(p.doc.text, first)
	p.doc.Twice = append(p.doc.Twice, Problem{
		Line: line, Col: col, Key: joinPointer(p.path), // Parse makes a dotted key of it
		Message: fmt.Sprintf("this key is there twice, first at %d:%d", firstLine, firstCol),
	})
}

func (p *parser) array(n *node) (any, error) {
	n.items = []*node{}
	v := []any{}
	for p.dec.More() {
		p.path = append(p.path, strconv.Itoa(len(v)))
		child, value, err := p.value()
		if err != nil {
			return nil, err
		}
		p.path = p.path[:len(p.path)-1]
		child.key = child.value
		n.items, v = append(n.items, child), append(v, value)
	}
	_, _, err := p.next()
	return v, err
}

// find follows pointer as far as there are values.
func (d *Document) find(pointer string) *node {
	n := d.root
	for _, tok := range splitPointer(pointer) {
		next := n.members[tok]
		if i, ok := index(tok, len(n.items)); ok {
			next = n.items[i]
		}
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

// Pos returns the line and column, from 1, at which the value begins that the
// JSON pointer (RFC 6901) names; where there is none, those of the nearest value
// around it.
func (d *Document) Pos(pointer string) (line, col int) {
	return position(d.text, d.find(pointer).value)
}

// KeyPos is Pos for the key before the value, where it has one.
func (d *Document) KeyPos(pointer string) (line, col int) {
	return position(d.text, d.find(pointer).key)
}

// plainKey reports whether a key can stand in a path without quotes. (A compiled
// pattern would cost every start of the program.)
func plainKey(name string) bool {
	for i, r := range name {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '_' || r == '$'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return name != ""
}

// Key writes a JSON pointer as a person would: contents.mcpServers[0].tag.
func (d *Document) Key(pointer string) string {
	var b strings.Builder
	n := d.root
	for _, tok := range splitPointer(pointer) {
		isIndex := n != nil && n.items != nil
		switch {
		case isIndex:
			fmt.Fprintf(&b, "[%s]", tok)
		case !plainKey(tok):
			fmt.Fprintf(&b, "[%s]", strconv.Quote(clip(tok)))
		case b.Len() > 0:
			b.WriteString("." + tok)
		default:
			b.WriteString(tok)
		}
		if n == nil {
			continue
		}
		if i, ok := index(tok, len(n.items)); ok {
			n = n.items[i]
		} else {
			n = n.members[tok]
		}
	}
	return b.String()
}

// index reads an array index below n.
func index(tok string, n int) (int, bool) {
	i, err := strconv.Atoi(tok)
	return i, err == nil && i >= 0 && i < n
}

func escape(tok string) string {
	return strings.ReplaceAll(strings.ReplaceAll(tok, "~", "~0"), "/", "~1")
}

func joinPointer(toks []string) string {
	var b strings.Builder
	for _, tok := range toks {
		b.WriteString("/" + escape(tok))
	}
	return b.String()
}

// splitPointer returns the parts of a JSON pointer, or of one in the fragment of
// a URL.
func splitPointer(pointer string) []string {
	if pointer == "" {
		return nil
	}
	toks := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, tok := range toks {
		toks[i] = strings.ReplaceAll(strings.ReplaceAll(tok, "~1", "/"), "~0", "~")
	}
	return toks
}

// plainSyntax says in our words where and why text is not JSON.
func plainSyntax(text []byte, err error) error {
	offset, message := len(text), "the text ends too early"
	if serr, ok := errors.AsType[*json.SyntaxError](err); ok && !strings.HasPrefix(serr.Error(), "unexpected end") {
		offset = max(int(serr.Offset)-1, 0)
		message = reason(text, offset, serr.Error())
	}
	if len(bytes.TrimSpace(text)) == 0 {
		offset, message = 0, "there is nothing in it; want a JSON value"
	}
	line, col := position(text, offset)
	return &SyntaxError{line, col, message}
}

// reason guesses what a person meant who wrote what stands at offset.
func reason(text []byte, offset int, message string) string {
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
		return fmt.Sprintf("nested more than %d deep", agent.MaxArgsDepth)
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
