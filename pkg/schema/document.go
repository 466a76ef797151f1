package schema

import (
	"fmt"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/jsondoc"
)

// A Document is a parsed JSON text that knows where its values are. It never
// changes and may be used concurrently.
type Document struct {
	// Value is the text's value: nil, bool, string, json.Number, []any or
	// map[string]any. Of a key that is there twice, the later value counts.
	Value any
	// Duplicates has a problem for every key that an object holds twice, up to
	// MaxProblems, and then one for all others.
	Duplicates []Problem

	doc *jsondoc.Document
}

// A SyntaxError says where a text stops to be JSON.
type SyntaxError = jsondoc.SyntaxError

// Parse reads one JSON text of valid UTF-8, nested at most agent.MaxArgsDepth
// deep. Its error is a *SyntaxError.
func Parse(text []byte) (*Document, error) {
	doc, err := jsondoc.Parse(text, jsondoc.Options{MaxDepth: agent.MaxArgsDepth})
	if err != nil {
		return nil, err
	}
	d := &Document{Value: doc.Root.Value, doc: doc}
	for _, n := range doc.Duplicates[:min(len(doc.Duplicates), MaxProblems)] {
		line, col := doc.Position(n.NameStart)
		firstLine, firstCol := doc.Position(n.First.NameStart)
		d.Duplicates = append(d.Duplicates, Problem{Line: line, Col: col, Key: n.Path(), Message: fmt.Sprintf("this key is there twice, first at %d:%d", firstLine, firstCol)})
	}
	if n := len(doc.Duplicates) - MaxProblems; n > 0 {
		last := d.Duplicates[MaxProblems-1]
		d.Duplicates = append(d.Duplicates, Problem{Line: last.Line, Col: last.Col, Message: fmt.Sprintf("%d more keys are there twice", n)})
	}
	return d, nil
}

// Pos returns the line and column, from 1, at which the value begins that the
// JSON pointer (RFC 6901) names; where there is none, those of the nearest value
// around it.
func (d *Document) Pos(pointer string) (line, col int) {
	return d.doc.Position(d.doc.Find(pointer).Start)
}

// KeyPos is Pos for the key before the value, where it has one.
func (d *Document) KeyPos(pointer string) (line, col int) {
	return d.doc.Position(d.doc.Find(pointer).NameStart)
}

// Key writes a JSON pointer as a person would: contents.mcpServers[0].tag.
func (d *Document) Key(pointer string) string { return d.doc.Path(pointer) }
