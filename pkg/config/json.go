package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/closest"
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

// A value is a JSON value that knows where it stands.
type value struct {
	path    string // keys[0].id
	offset  int    // of the value
	key     int    // of its key; the value's own where there is none
	kind    string // as JSON Schema calls it
	text    string // of a string
	members map[string]*value
	names   []string // the keys of members in the order of the file
	items   []*value
}

// A reader collects what is wrong with one file.
type reader struct {
	path     string
	text     []byte
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
	before := r.text[:min(max(offset, 0), len(r.text))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return Problem{bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1, key, message}
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
func (r *reader) parse() (*value, bool) {
	if bytes.HasPrefix(r.text, []byte("\xef\xbb\xbf")) {
		r.problem(0, "", "there is a byte order mark; save the file as UTF-8 without one")
		return nil, false
	}
	if !utf8.Valid(r.text) {
		r.problem(invalidUTF8(r.text), "", "not valid UTF-8")
		return nil, false
	}
	if err := json.Unmarshal(r.text, new(json.RawMessage)); err != nil {
		r.syntax(err)
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(r.text))
	dec.UseNumber()
	v := r.value(dec, "", 0)
	return v, len(r.problems) == 0
}

func invalidUTF8(text []byte) int {
	i := 0
	for i < len(text) {
		c, size := utf8.DecodeRune(text[i:])
		if c == utf8.RuneError && size <= 1 {
			break
		}
		i += size
	}
	return i
}

// syntax notes a syntax error. No more than one character of the file is told.
func (r *reader) syntax(err error) {
	serr, ok := errors.AsType[*json.SyntaxError](err)
	if !ok || strings.HasPrefix(serr.Error(), "unexpected end") {
		r.problem(len(r.text), "", "the file ends too early; want JSON")
		return
	}
	offset := int(serr.Offset) - 1
	before := bytes.TrimRight(r.text[:max(offset, 0)], " \t\r\n")
	if c := r.text[offset]; bytes.HasSuffix(before, []byte(",")) && (c == '}' || c == ']') {
		r.problem(offset, "", "no valid JSON: there is a comma before the closing %c", c)
		return
	}
	r.problem(offset, "", "no valid JSON: %s", serr)
}

// value reads the next value of a text that is valid JSON.
func (r *reader) value(dec *json.Decoder, path string, depth int) *value {
	v := &value{path: path, offset: r.start(dec)}
	v.key = v.offset
	tok, err := dec.Token()
	if err != nil || depth > maxDepth {
		r.problem(v.offset, "", "nested more than %d deep", maxDepth)
		return v
	}
	switch tok := tok.(type) {
	case json.Delim:
		if tok == '{' {
			r.object(dec, v, depth)
		} else {
			r.array(dec, v, depth)
		}
		_, _ = dec.Token() // the closing one, as the text is valid
	case string:
		v.kind, v.text = "string", tok
	case json.Number:
		v.kind = "number"
	case bool:
		v.kind = "boolean"
	case nil:
		v.kind = "null"
	}
	return v
}

// start is the offset of the next token.
func (r *reader) start(dec *json.Decoder) int {
	i := int(dec.InputOffset())
	for i < len(r.text) && strings.IndexByte(" \t\r\n,:", r.text[i]) >= 0 {
		i++
	}
	return i
}

func (r *reader) object(dec *json.Decoder, v *value, depth int) {
	v.kind, v.members = "object", map[string]*value{}
	for dec.More() && len(r.problems) == 0 {
		offset := r.start(dec)
		tok, _ := dec.Token()
		name, _ := tok.(string)
		child := r.value(dec, join(v.path, name), depth+1)
		child.key = offset
		if _, ok := v.members[name]; ok {
			r.problem(offset, child.path, "this key is there twice")
		}
		v.members[name] = child
		v.names = append(v.names, name)
	}
}

func (r *reader) array(dec *json.Decoder, v *value, depth int) {
	v.kind, v.items = "array", []*value{}
	for dec.More() && len(r.problems) == 0 {
		v.items = append(v.items, r.value(dec, fmt.Sprintf("%s[%d]", v.path, len(v.items)), depth+1))
	}
}

// plainKey reports whether a key can stand in a path without quotes. (A compiled
// pattern would cost every start of the program half a millisecond.)
func plainKey(name string) bool {
	for i, r := range name {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '_' || r == '$'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return name != "" && len(name) <= 61
}

func join(path, name string) string {
	if !plainKey(name) {
		runes := []rune(name)
		return path + "[" + strconv.Quote(string(runes[:min(len(runes), 60)])) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// is notes a value of another type. null is as good as absent: neither is the
// type nor a problem.
func (r *reader) is(v *value, kind string) bool {
	if v == nil || v.kind == "null" {
		return false
	}
	if v.kind != kind {
		r.problem(v.offset, v.path, "got %s, want %s", v.kind, kind)
		return false
	}
	return true
}

// str returns a string, "" for none.
func (r *reader) str(v *value) string {
	if !r.is(v, "string") {
		return ""
	}
	return v.text
}

// strs returns a list of strings.
func (r *reader) strs(v *value) []*value {
	if !r.is(v, "array") {
		return nil
	}
	var out []*value
	for _, item := range v.items {
		if item.kind == "null" {
			r.problem(item.offset, item.path, "got null, want string")
		} else if r.is(item, "string") {
			out = append(out, item)
		}
	}
	return out
}

// keys warns of members of v that are not known.
func (r *reader) keys(v *value, known []string) {
	for _, name := range v.names {
		if slices.Contains(known, name) {
			continue
		}
		r.warn(v.members[name].key, v.members[name].path, "unknown key%s", closest.Hint(name, known))
	}
}
