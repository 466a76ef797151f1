// Package yamldoc reads YAML as JSON: each YAML document becomes a [jsondoc.Document] with
// the positions of its values in the YAML text, so that code for JSON handles both, and
// messages name the right lines.
//
// It supports the part of YAML 1.2 that can be expressed in JSON. A plain scalar is a
// string, except true, false, null and ~, so yes, no, on and off are strings. Numbers have
// the syntax of JSON; what only looks like one (0755, 0x1F, 1_000, .inf) is an error, as
// are tags, keys that are not scalars, and duplicate keys. Anchors, aliases and the merge
// key << are supported; their expansion counts towards the size limit.
//
//	docs, err := yamldoc.Parse(text, jsondoc.Options{MaxBytes: 1 << 20, MaxDepth: 64})
package yamldoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// maxDepth limits the nesting of flow collections before they are parsed: the parser is
// recursive.
const maxDepth = 1000

// maxGrowth is how many bytes of JSON, beyond 1 MiB, each byte of the text may become: aliases of
// aliases double the JSON with each line.
const maxGrowth = 20

// Parse returns the documents of a text. Only the last one may be empty, and is then left
// out. MaxBytes limits both the text and its form as JSON; 0 is 1 MiB. The JSON is also limited
// to 1 MiB and 20 times the length of the text. The error is a *jsondoc.SyntaxError.
func Parse(text []byte, opts jsondoc.Options) ([]*jsondoc.Document, error) {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = 1 << 20
	}
	if len(text) > opts.MaxBytes {
		return nil, &jsondoc.SyntaxError{Line: 1, Col: 1, Message: fmt.Sprintf("the text is %d bytes long; the limit is %d", len(text), opts.MaxBytes)}
	}
	if !utf8.Valid(text) {
		before := text[:slices.IndexFunc([]rune(string(text)), func(r rune) bool { return r == utf8.RuneError })]
		return nil, &jsondoc.SyntaxError{Line: strings.Count(string(before), "\n") + 1, Col: 1, Message: "this line, or a later one, is not valid UTF-8"}
	}
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		return nil, &jsondoc.SyntaxError{Line: 1, Col: 1, Message: "there is a byte order mark; save the file as UTF-8 without one"}
	}
	file, err := parse(string(text))
	if err != nil {
		return nil, err
	}
	var docs []*jsondoc.Document
	for _, d := range file.Docs {
		if d.Body == nil || d.Body.Type() == ast.NullType {
			continue
		}
		w := &writer{max: min(opts.MaxBytes, 1<<20+maxGrowth*len(text)), anchors: map[string]ast.Node{}, open: map[string]bool{}}
		if w.value(d.Body); w.err != nil {
			return nil, w.err
		}
		doc, err := jsondoc.Parse(w.out, jsondoc.Options{MaxDepth: opts.MaxDepth, Places: w.places})
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	if len(docs) == 0 {
		return nil, &jsondoc.SyntaxError{Line: 1, Col: 1, Message: "there is nothing in it; want a YAML mapping"}
	}
	return docs, nil
}

// parse parses a text that is not nested too deep. It refuses an empty document before
// another one, because the parser would drop both.
func parse(text string) (*ast.File, error) {
	tokens := lexer.Tokenize(text)
	depth := 0
	var last token.Type // but for comments
	for _, t := range tokens {
		if t.Type == token.DocumentHeaderType && last == t.Type {
			return nil, syntax(t, "there is no document between this --- and the one before")
		}
		if t.Type != token.CommentType {
			last = t.Type
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		}
		if depth > maxDepth {
			return nil, syntax(t, "nested more than %d deep", maxDepth)
		}
	}
	file, err := parser.Parse(tokens, 0)
	var at interface {
		error
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &at) {
		if at.GetMessage() == "found character '\t' that cannot start any token" {
			return nil, syntax(at.GetToken(), "there is a tab; indent with spaces")
		}
		return nil, syntax(at.GetToken(), "%s", at.GetMessage())
	}
	if err != nil {
		return nil, syntax(nil, "%s", err)
	}
	return file, nil
}

func syntax(t *token.Token, format string, args ...any) *jsondoc.SyntaxError {
	err := &jsondoc.SyntaxError{Line: 1, Col: 1, Message: fmt.Sprintf(format, args...)}
	if t != nil && t.Position != nil {
		err.Offset, err.Line, err.Col = t.Position.Offset, t.Position.Line, t.Position.Column
	}
	return err
}

// A writer writes nodes as JSON and stops at its first error.
type writer struct {
	out     []byte
	places  []jsondoc.Place
	max     int
	anchors map[string]ast.Node
	open    map[string]bool // anchors whose value is being written
	err     *jsondoc.SyntaxError
}

func (w *writer) fail(t *token.Token, format string, args ...any) {
	if w.err == nil {
		w.err = syntax(t, format, args...)
	}
}

// add adds JSON that begins at a token.
func (w *writer) add(t *token.Token, json string) {
	if len(w.out)+len(json) > w.max {
		w.fail(t, "with what its aliases stand for it is longer than %d bytes", w.max)
		return
	}
	if t != nil && t.Position != nil {
		w.places = append(w.places, jsondoc.Place{Offset: len(w.out), Line: t.Position.Line, Col: t.Position.Column})
	}
	w.out = append(w.out, json...)
}

func (w *writer) text(t *token.Token, s string) {
	text, err := json.Marshal(s)
	if err != nil {
		w.fail(t, "%s", err) // not reached
	}
	w.add(t, string(text))
}

// value writes a node; nil is null.
func (w *writer) value(n ast.Node) {
	if w.err != nil {
		return
	}
	switch n := n.(type) {
	case nil:
		w.add(nil, "null")
	case *ast.NullNode:
		w.add(n.Token, "null")
	case *ast.BoolNode:
		w.add(n.Token, fmt.Sprint(n.Value))
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		w.number(n.GetToken())
	case *ast.StringNode:
		if v := n.Token.Value; n.Token.Type == token.StringType && strings.Trim(v[:min(len(v), 1)], "-0123456789") == "" && json.Valid([]byte(v)) {
			w.number(n.Token) // of the forms that only JSON has
			return
		}
		w.text(n.Token, n.Value)
	case *ast.LiteralNode:
		w.text(n.Start, n.Value.Value)
	case *ast.MappingNode, *ast.MappingValueNode:
		w.mapping(n)
	case *ast.SequenceNode:
		w.sequence(n)
	case *ast.AnchorNode:
		name := n.Name.GetToken().Value
		w.anchors[name] = n.Value
		w.named(n.Start, name)
	case *ast.AliasNode:
		w.named(n.Start, n.Value.GetToken().Value)
	case *ast.TagNode:
		w.fail(n.Start, "the tag %s is not known here: quote a text, and write other values as in JSON", n.Start.Value)
	default:
		w.fail(n.GetToken(), "a %s is not allowed here", strings.ToLower(n.Type().String()))
	}
}

// number writes a number as it is in the text.
func (w *writer) number(t *token.Token) {
	if !json.Valid([]byte(t.Value)) {
		w.fail(t, "%s: write a number as in JSON, in decimal digits, or quote the text", t.Value)
		return
	}
	w.add(t, t.Value)
}

func (w *writer) named(t *token.Token, name string) {
	value, known := w.anchors[name]
	switch {
	case !known:
		w.fail(t, "there is no anchor &%s before this", name)
	case w.open[name]:
		w.fail(t, "the anchor &%s contains itself", name)
	default:
		w.open[name] = true
		w.value(value)
		delete(w.open, name)
	}
}

func (w *writer) sequence(n *ast.SequenceNode) {
	w.add(n.Start, "[")
	for i, item := range n.Values {
		if i > 0 {
			w.add(nil, ",")
		}
		w.value(item)
	}
	w.add(nil, "]")
}

// pairs are the members of a mapping.
func pairs(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

func (w *writer) mapping(n ast.Node) {
	list := pairs(n)
	start := n.GetToken()
	if m, ok := n.(*ast.MappingNode); len(list) > 0 && !(ok && m.IsFlowStyle) {
		start = list[0].Key.GetToken()
	}
	w.add(start, "{")
	own := map[string]bool{}
	for _, p := range list {
		own[keyOf(p)] = true
	}
	first := true
	for _, p := range list {
		if _, merge := p.Key.(*ast.MergeKeyNode); !merge {
			w.member(p, &first)
			continue
		}
		for _, merged := range w.merged(p.Value) {
			if name := keyOf(merged); !own[name] {
				own[name] = true
				w.member(merged, &first)
			}
		}
	}
	w.add(nil, "}")
}

func (w *writer) member(p *ast.MappingValueNode, first *bool) {
	if !*first {
		w.add(nil, ",")
	}
	*first = false
	switch key := keyNode(p).(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		w.text(key.GetToken(), keyOf(p))
	default:
		w.fail(p.Key.GetToken(), "want a text as the key")
	}
	w.add(nil, ":")
	w.value(p.Value)
}

// keyOf returns the key of a member. A plain scalar such as true is a string here.
func keyOf(p *ast.MappingValueNode) string {
	key := keyNode(p)
	if s, ok := key.(*ast.StringNode); ok {
		return s.Value
	}
	return key.GetToken().Value
}

// keyNode is the key of a member, which may be written after a question mark.
func keyNode(p *ast.MappingValueNode) ast.Node {
	if key, ok := p.Key.(*ast.MappingKeyNode); ok && key.Value != nil {
		return key.Value
	}
	return p.Key
}

// merged are the members that << adds.
func (w *writer) merged(n ast.Node) []*ast.MappingValueNode {
	alias, ok := n.(*ast.AliasNode)
	if ok {
		if list := pairs(w.anchors[alias.Value.GetToken().Value]); list != nil {
			return list
		}
	}
	w.fail(n.GetToken(), "<< wants the alias of a mapping")
	return nil
}
