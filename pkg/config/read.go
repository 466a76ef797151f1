package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// maxBytes and maxDepth limit a keys file and a cfg file.
const (
	maxBytes = 1 << 20
	maxDepth = 64
)

// A Problem is something to change in a file.
type Problem struct {
	// Line and Col count from 1, Col in characters.
	Line, Col int
	// Key names the value as keys[0].id; empty means the file as a whole.
	Key string
	// Message says what was found and what was expected. Of a keys file it
	// never holds a value.
	Message string
}

// A FileError holds every problem of a file.
type FileError struct {
	Path     string
	Problems []Problem
}

// Error has a line for each problem: path:line:col: key: message.
func (e *FileError) Error() string {
	var lines []string
	for _, p := range e.Problems {
		lines = append(lines, p.at(e.Path))
	}
	return strings.Join(lines, "\n")
}

func (p Problem) at(path string) string {
	key := ""
	if p.Key != "" {
		key = p.Key + ": "
	}
	return fmt.Sprintf("%s:%d:%d: %s%s", path, p.Line, p.Col, key, p.Message)
}

// A reader collects what is wrong with one file.
type reader struct {
	path     string
	doc      *jsondoc.Document
	problems []Problem
	warnings []Problem
}

func (r *reader) problem(offset int, key, format string, args ...any) {
	r.problems = append(r.problems, r.at(offset, key, fmt.Sprintf(format, args...)))
}

func (r *reader) warn(offset int, key, format string, args ...any) {
	r.warnings = append(r.warnings, r.at(offset, key, fmt.Sprintf(format, args...)))
}

func (r *reader) at(offset int, key, message string) Problem {
	line, col := r.doc.Position(offset)
	return Problem{line, col, key, message}
}

// err is a *FileError if there are problems. They are in the order of the file.
func (r *reader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, byPlace)
	return &FileError{r.path, r.problems}
}

func (r *reader) warningLines() []string {
	slices.SortStableFunc(r.warnings, byPlace)
	var lines []string
	for _, p := range r.warnings {
		lines = append(lines, p.at(r.path))
	}
	return lines
}

func byPlace(a, b Problem) int {
	if a.Line != b.Line {
		return a.Line - b.Line
	}
	return a.Col - b.Col
}

// parse reads the text, or notes why it cannot.
func (r *reader) parse(text []byte) (*jsondoc.Node, bool) {
	doc, err := jsondoc.Parse(text, jsondoc.Options{MaxDepth: maxDepth})
	if syntax, ok := errors.AsType[*jsondoc.SyntaxError](err); ok {
		r.problems = []Problem{{syntax.Line, syntax.Col, "", syntax.Message}}
		return nil, false
	}
	r.doc = doc
	for _, n := range doc.Duplicates {
		r.problem(n.NameStart, n.Path(), "this key is there twice")
	}
	return doc.Root, len(r.problems) == 0
}

// fields says how the members of an object are read; nil leaves one to the caller.
type fields map[string]func(v *jsondoc.Node)

// object reads an object. It reports a value that is not one, and warns of members
// that are not known.
func (r *reader) object(v *jsondoc.Node, want string, f fields) bool {
	if v.Kind() != "object" {
		r.problem(v.Start, v.Path(), "got %s, want %s", v.Kind(), want)
		return false
	}
	for _, m := range v.Children {
		switch read, known := f[m.Name]; {
		case !known:
			r.warn(m.NameStart, m.Path(), "unknown key%s", closest.Hint(m.Name, slices.Sorted(maps.Keys(f))))
		case read != nil:
			read(m)
		}
	}
	return true
}

// is reports a value of another type. null is the same as absent: it is neither of
// the type nor a problem.
func (r *reader) is(v *jsondoc.Node, kind string) bool {
	if v == nil || v.Kind() == "null" {
		return false
	}
	if v.Kind() != kind {
		r.problem(v.Start, v.Path(), "got %s, want %s", v.Kind(), kind)
		return false
	}
	return true
}

func (r *reader) strings(v *jsondoc.Node) []*jsondoc.Node {
	if !r.is(v, "array") {
		return nil
	}
	var out []*jsondoc.Node
	for _, item := range v.Children {
		if item.Kind() == "string" {
			out = append(out, item)
		} else {
			r.problem(item.Start, item.Path(), "got %s, want string", item.Kind())
		}
	}
	return out
}

// required returns the string that the object must have under name.
func (r *reader) required(v *jsondoc.Node, name string) string {
	member := v.Member(name)
	switch {
	case member == nil:
		r.problem(v.Start, v.Path()+"."+name, "missing; want a string")
	case member.Kind() != "string":
		r.problem(member.Start, member.Path(), "got %s, want a string", member.Kind())
	case member.Text() == "":
		r.problem(member.Start, member.Path(), "it is empty; want a string of at least one character")
	default:
		return member.Text()
	}
	return ""
}
