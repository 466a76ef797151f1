package scripted

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// maxProblems is how many problems are reported one by one.
const maxProblems = 20

// A decoder turns a JSON document into a script and collects problems.
type decoder struct {
	file     string
	data     []byte
	doc      *jsondoc.Document
	problems []*Problem
	// line is the number of line breaks in the first read bytes of data.
	// Document.Position would count the characters of a long line for every rule.
	line, read int
}

// parse reads the JSON text. It returns nil if there is a problem.
func (d *decoder) parse() *jsondoc.Node {
	doc, err := jsondoc.Parse(d.data, jsondoc.Options{MaxBytes: MaxBytes})
	if e, ok := errors.AsType[*jsondoc.SyntaxError](err); ok {
		d.problems = append(d.problems, &Problem{File: d.file, Line: e.Line, Column: e.Col, Message: e.Message})
		return nil
	}
	d.doc = doc
	return doc.Root
}

func (d *decoder) fail(n *jsondoc.Node, format string, args ...any) {
	d.failAt(n.Start, n.Path(), format, args...)
}

func (d *decoder) failAt(offset int, key, format string, args ...any) {
	line, column := d.doc.Position(offset)
	d.problems = append(d.problems, &Problem{File: d.file, Line: line, Column: column, Key: key, Message: fmt.Sprintf(format, args...)})
}

func (d *decoder) err() error {
	slices.SortStableFunc(d.problems, func(a, b *Problem) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	var all []error
	for i, p := range d.problems {
		if i == maxProblems {
			all = append(all, fmt.Errorf("%s: and %d more problems", d.file, len(d.problems)-maxProblems))
			break
		}
		all = append(all, p)
	}
	return errors.Join(all...)
}

func (d *decoder) raw(n *jsondoc.Node) string { return string(d.doc.Raw(n)) }

// The kinds of JSON values, as jsondoc names them.
const (
	object  = "object"
	array   = "array"
	text    = "string"
	number  = "number"
	boolean = "boolean"
)

func (d *decoder) is(n *jsondoc.Node, want string) bool {
	if got := n.Kind(); got != want {
		d.fail(n, "got %s, want %s", got, want)
		return false
	}
	return true
}

type reader func(n *jsondoc.Node)

type field struct {
	name string
	read reader
}

// object reads the members of an object, in the order of the fields, and reports
// unknown and repeated keys.
func (d *decoder) object(n *jsondoc.Node, fields ...field) bool {
	if !d.is(n, object) {
		return false
	}
	var known []string
	for _, f := range fields {
		known = append(known, f.name)
	}
	for _, m := range n.Children {
		if !slices.Contains(known, m.Name) {
			d.failAt(m.NameStart, n.Path(), "unknown key %q; %s", m.Name, nearest(m.Name, known))
		} else if last := n.Member(m.Name); last != m {
			d.failAt(last.NameStart, n.Path(), "the key %q is repeated", m.Name)
		}
	}
	for _, f := range fields {
		if m := n.Member(f.name); m != nil {
			f.read(m)
		}
	}
	return true
}

func (d *decoder) array(element reader) reader {
	return func(n *jsondoc.Node) {
		if d.is(n, array) {
			for _, item := range n.Children {
				element(item)
			}
		}
	}
}

func (d *decoder) text(to *string) reader {
	return func(n *jsondoc.Node) {
		if d.is(n, text) {
			*to = n.Text()
		}
	}
}

// oneOf reads a string that must be one of the words.
func (d *decoder) oneOf(to *string, words ...string) reader {
	return func(n *jsondoc.Node) {
		switch s := n.Text(); {
		case !d.is(n, text):
		case slices.Contains(words, s):
			*to = s
		default:
			d.fail(n, "%q is not known; %s", s, nearest(s, words))
		}
	}
}

// integer reads a whole number between low and high.
func (d *decoder) integer(to *int, low, high int) reader {
	return func(n *jsondoc.Node) {
		f, ok := d.number(n, float64(low), float64(high))
		switch {
		case !ok:
		case f != math.Trunc(f):
			d.fail(n, "must be a whole number, not %s", n.Value)
		default:
			*to = int(f)
		}
	}
}

func (d *decoder) number(n *jsondoc.Node, low, high float64) (f float64, ok bool) {
	if !d.is(n, number) {
		return 0, false
	}
	f, err := n.Value.(json.Number).Float64()
	if err != nil || f < low || f > high {
		d.fail(n, "must be between %.0f and %.0f, not %s", low, high, n.Value)
		return 0, false
	}
	return f, true
}

// nearest suggests the known word that looks most like word, or lists them all.
func nearest(word string, known []string) string {
	if k := closest.Match(word, known); k != "" {
		return fmt.Sprintf("did you mean %q?", k)
	}
	return "known are " + strings.Join(known, ", ")
}
