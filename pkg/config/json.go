package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/agents-exe/agents/pkg/closest"
	"github.com/agents-exe/agents/pkg/jsondoc"
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

// openRegular opens a file for reading if it is a regular one; of a FIFO it does
// not wait for a writer.
func openRegular(path string) (*os.File, os.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, &os.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err = f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, nil, err
	}
	return f, info, nil
}

// readAll reads at most maxBytes.
func readAll(f *os.File) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && len(text) > maxBytes {
		err = &os.PathError{Op: "read", Path: f.Name(), Err: fmt.Errorf("it is longer than %d bytes", maxBytes)}
	}
	return text, err
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

// is notes a value of another type. null is as good as absent: neither is the
// type nor a problem.
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

// str returns a string, "" for none.
func (r *reader) str(v *jsondoc.Node) string {
	if !r.is(v, "string") {
		return ""
	}
	return v.Text()
}

// strs returns a list of strings.
func (r *reader) strs(v *jsondoc.Node) []*jsondoc.Node {
	if !r.is(v, "array") {
		return nil
	}
	var out []*jsondoc.Node
	for _, item := range v.Children {
		if item.Kind() == "null" {
			r.problem(item.Start, item.Path(), "got null, want string")
		} else if r.is(item, "string") {
			out = append(out, item)
		}
	}
	return out
}

// keys warns of members of v that are not known.
func (r *reader) keys(v *jsondoc.Node, known []string) {
	for _, m := range v.Children {
		if !slices.Contains(known, m.Name) {
			r.warn(m.NameStart, m.Path(), "unknown key%s", closest.Hint(m.Name, known))
		}
	}
}
