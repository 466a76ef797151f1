// Package jsondoc reads one JSON text strictly: valid UTF-8, exact case, nothing
// behind the value, with limits, and with the place of every value for messages.
//
// [Parse] returns a [Document], a tree of [Node] values. A key that an object has
// twice is listed in Duplicates, or refused with Options.Strict. Numbers stay the
// digits that were written.
//
//	doc, err := jsondoc.Parse(text, jsondoc.Options{MaxDepth: 64})
//	if err != nil {
//		return err // a *SyntaxError: 3:14: there is a comma missing before this
//	}
//	slug := doc.Root.Member("contents").Member("slug")
//	line, col := doc.Position(slug.Start)
//
// The arguments of a tool call come from a model and must reach the tool unchanged.
// They are read with every limit, and only the places of the arguments are kept:
//
//	doc, err := jsondoc.Parse([]byte(args), jsondoc.Options{
//		MaxBytes: 16 << 20, MaxDepth: 1000, MaxDigits: 1000, MaxExponent: 1000,
//		Strict: true, Shallow: true,
//	})
//	decoded := doc.Root.Value                   // map[string]any, numbers as json.Number
//	raw := doc.Raw(doc.Root.Member("path"))     // the bytes as they were sent
package jsondoc

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// Options say what is refused. A limit of 0 is none.
type Options struct {
	// MaxBytes limits the text, MaxDepth the objects and arrays in each other.
	MaxBytes, MaxDepth int
	// MaxDigits limits the digits of a number before its exponent, MaxExponent the
	// exponent without its sign.
	MaxDigits, MaxExponent int
	// Strict refuses an object that has a key twice, and an escaped half of a
	// surrogate pair, which otherwise becomes U+FFFD.
	Strict bool
	// Places says where parts of the text stand in the one from which it was made, by
	// ascending Offset: Position is that of the last Place that is not behind an offset.
	// nil is the text itself.
	Places []Place
	// Shallow keeps the places of the outermost value and its members only, which
	// takes less memory; Values are whole at every depth.
	Shallow bool
}

// HasName reports whether a file with this name is a document, in JSON or in YAML:
// whether it ends in .json, .yaml or .yml.
func HasName(name string) bool {
	return strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// A Place is the line and the column, from 1, of what stands at an offset of the text.
type Place struct{ Offset, Line, Col int }

// A Document is a parsed text. It never changes and may be used concurrently.
type Document struct {
	Root *Node
	// Duplicates are the members whose key their object had before. Of several,
	// the last one counts.
	Duplicates []Duplicate

	text   []byte
	places []Place
	once   sync.Once
	lines  []int // where each line begins
}

// A Duplicate is a member whose key its object had before, in First.
type Duplicate struct {
	*Node
	First *Node
}

// A Node is a value and its place.
type Node struct {
	// Value is nil, a bool, string, json.Number, []any or map[string]any.
	Value any
	// Start and End are its bytes in the text.
	Start, End int
	// Name is the key of an object's member, and NameStart and NameEnd are its bytes
	// with the quotes; without a key both are Start.
	Name               string
	NameStart, NameEnd int
	// Children are the members of an object or the items of an array, in the order
	// of the text. An object's hold duplicates too.
	Children []*Node

	parent  *Node
	index   int // among the parent's children
	members map[string]*Node
}

// A SyntaxError says where and why a text was refused.
type SyntaxError struct {
	// Offset counts bytes from 0; Line and Col count from 1, Col in characters.
	Offset, Line, Col int
	// Message quotes no more than one character of the text, or a key.
	Message string
}

// Error begins with the place, "LINE:COL: ".
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%d:%d: %s", e.Line, e.Col, e.Message)
}

// Member returns the member of an object, nil if there is none. n may be nil.
func (n *Node) Member(name string) *Node {
	if n == nil {
		return nil
	}
	return n.members[name]
}

// Kind names the type of the value as JSON Schema does: "object", "array",
// "string", "number", "boolean" or "null".
func (n *Node) Kind() string {
	switch n.Value.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case nil:
		return "null"
	}
	return "number"
}

// Text is the value of a string, "" for any other. n may be nil.
func (n *Node) Text() string {
	s, _ := n.value().(string)
	return s
}

// Path names the value: contents.mcpServers[0].tag. It is "" for
// the outermost one.
func (n *Node) Path() string {
	if n.parent == nil {
		return ""
	}
	if n.parent.members == nil {
		return fmt.Sprintf("%s[%d]", n.parent.Path(), n.index)
	}
	return joinPath(n.parent.Path(), n.Name)
}

// maxName limits a key in a message.
const maxName = 60

func joinPath(path, name string) string {
	switch {
	case !plainName(name):
		return path + "[" + strconv.Quote(clip(name)) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

func clip(name string) string {
	if runes := []rune(name); len(runes) > maxName {
		return string(runes[:maxName]) + "…"
	}
	return name
}

// plainName reports whether a key can stand in a path without quotes. (A compiled
// pattern would cost every start of the program half a millisecond.)
func plainName(name string) bool {
	for i, r := range name {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '_' || r == '$'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

// Raw is the text of a value, which must not be changed.
func (d *Document) Raw(n *Node) []byte { return d.text[n.Start:n.End:n.End] }

// Position returns the line and column, from 1, of an offset; columns count
// characters.
func (d *Document) Position(offset int) (line, col int) {
	if len(d.places) > 0 {
		i := sort.Search(len(d.places), func(i int) bool { return d.places[i].Offset > offset })
		p := d.places[max(i-1, 0)]
		return p.Line, p.Col
	}
	d.once.Do(func() {
		d.lines = []int{0}
		for i, c := range d.text {
			if c == '\n' {
				d.lines = append(d.lines, i+1)
			}
		}
	})
	offset = min(max(offset, 0), len(d.text))
	line = sort.SearchInts(d.lines, offset+1)
	return line, utf8.RuneCount(d.text[d.lines[line-1]:offset]) + 1
}

// Find returns the value that a JSON pointer (RFC 6901) names, or the nearest one
// around it.
func (d *Document) Find(pointer string) *Node {
	n := d.Root
	for _, token := range SplitPointer(pointer) {
		next := n.child(token)
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

// Path is Node.Path for the value that a JSON pointer names, even if there is none.
func (d *Document) Path(pointer string) string {
	n, path := d.Root, ""
	for _, token := range SplitPointer(pointer) {
		if _, ok := n.value().([]any); ok {
			path += "[" + token + "]"
		} else {
			path = joinPath(path, token)
		}
		n = n.child(token)
	}
	return path
}

func (n *Node) value() any {
	if n == nil {
		return nil
	}
	return n.Value
}

// child is the member or item that a part of a JSON pointer names.
func (n *Node) child(token string) *Node {
	if n == nil || n.members != nil {
		return n.Member(token)
	}
	if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(n.Children) {
		return n.Children[i]
	}
	return nil
}

// JoinPointer makes a JSON pointer of its parts.
func JoinPointer(tokens ...string) string {
	var b strings.Builder
	for _, token := range tokens {
		b.WriteString("/" + strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1"))
	}
	return b.String()
}

// SplitPointer returns the parts of a JSON pointer.
func SplitPointer(pointer string) []string {
	if pointer == "" {
		return nil
	}
	tokens := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, token := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	return tokens
}

// invalidUTF8 is the offset of the first byte that is not UTF-8, -1 if all are.
func invalidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	for i := 0; ; {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
}
