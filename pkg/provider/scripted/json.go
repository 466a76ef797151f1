package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/closest"
)

// value is a JSON value with its place in the script.
type value struct {
	off, end int
	// kind is '{', '[', '"', '0' (a number), 't' (true or false) or 'n'.
	kind    byte
	members []member
	items   []value
}

// member is a key of an object, with the place of its name.
type member struct {
	name     string
	off, end int
	value    value
}

// tree reads text that is known to be valid JSON.
type tree struct {
	data []byte
	pos  int
}

func (t *tree) space() {
	for t.pos < len(t.data) && strings.IndexByte(" \t\r\n", t.data[t.pos]) >= 0 {
		t.pos++
	}
}

func (t *tree) value() value {
	t.space()
	v := value{off: t.pos}
	switch c := t.data[t.pos]; c {
	case '{':
		v.kind = c
		t.each('}', func() { v.members = append(v.members, t.member()) })
	case '[':
		v.kind = c
		t.each(']', func() { v.items = append(v.items, t.value()) })
	case '"':
		v.kind = c
		t.string()
	case 't', 'f':
		v.kind = 't'
		t.literal()
	case 'n':
		v.kind = c
		t.literal()
	default:
		v.kind = '0'
		t.literal()
	}
	v.end = t.pos
	return v
}

// each reads the elements between two brackets.
func (t *tree) each(closing byte, element func()) {
	t.pos++
	for {
		t.space()
		switch t.data[t.pos] {
		case closing:
			t.pos++
			return
		case ',':
			t.pos++
		default:
			element()
		}
	}
}

func (t *tree) member() member {
	m := member{off: t.pos}
	t.string()
	m.end = t.pos
	m.name = unquote(t.data[m.off:m.end])
	t.space()
	t.pos++ // the colon
	m.value = t.value()
	return m
}

func (t *tree) string() {
	for t.pos++; t.data[t.pos] != '"'; t.pos++ {
		if t.data[t.pos] == '\\' {
			t.pos++
		}
	}
	t.pos++
}

func (t *tree) literal() {
	for t.pos < len(t.data) && strings.IndexByte(" \t\r\n,]}", t.data[t.pos]) < 0 {
		t.pos++
	}
}

func unquote(raw []byte) string {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return string(raw) // cannot happen: the text is valid JSON
	}
	return s
}

const (
	most       = 20        // problems that are reported one by one
	maxProgram = 1_000_000 // instructions of all patterns together
)

// decoder turns JSON values into a script and collects what is wrong.
type decoder struct {
	file     string
	data     []byte
	lines    []int // where each line begins
	problems []*Problem
	program  int // instructions of the patterns so far
}

func newDecoder(file string, data []byte) *decoder {
	d := &decoder{file: file, data: data, lines: []int{0}}
	for i, c := range data {
		if c == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	return d
}

// parse reads the JSON text.
func (d *decoder) parse() (value, bool) {
	if len(d.data) > MaxBytes {
		d.fail(0, "", "the script is %d bytes long; the limit is %d", len(d.data), MaxBytes)
		return value{}, false
	}
	if !utf8.Valid(d.data) {
		d.fail(invalidUTF8(d.data), "", "the script is not valid UTF-8")
		return value{}, false
	}
	var all json.RawMessage
	if err := json.Unmarshal(d.data, &all); err != nil {
		at := len(d.data)
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			at = max(int(syntax.Offset)-1, 0)
		}
		d.fail(at, "", "no valid JSON: %s", err)
		return value{}, false
	}
	return (&tree{data: d.data}).value(), true
}

func invalidUTF8(data []byte) int {
	at := 0
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		at += size
	}
	return at
}

func (d *decoder) line(off int) int {
	return sort.Search(len(d.lines), func(i int) bool { return d.lines[i] > off })
}

func (d *decoder) fail(off int, key, format string, args ...any) {
	line := d.line(off)
	d.problems = append(d.problems, &Problem{
		File: d.file, Line: line, Column: off - d.lines[line-1] + 1,
		Key: printable(key), Message: fmt.Sprintf(format, args...),
	})
}

// err joins the problems in the order of the script.
func (d *decoder) err() error {
	slices.SortStableFunc(d.problems, func(a, b *Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	var all []error
	for i, p := range d.problems {
		if i == most {
			all = append(all, fmt.Errorf("%s: and %d more problems", d.file, len(d.problems)-most))
			break
		}
		all = append(all, p)
	}
	return errors.Join(all...)
}

func (v value) raw(d *decoder) string { return string(d.data[v.off:v.end]) }

// kindName says what a value is, for messages.
func kindName(kind byte) string {
	switch kind {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't':
		return "true or false"
	default:
		return "null"
	}
}

// is checks the kind of a value.
func (d *decoder) is(v value, key string, kind byte) bool {
	if v.kind == kind {
		return true
	}
	got := kindName(v.kind)
	if v.kind == 't' {
		got = v.raw(d)
	}
	d.fail(v.off, key, "must be %s, not %s", kindName(kind), got)
	return false
}

// fields returns the members of an object by name, and reports unknown and
// repeated names.
func (d *decoder) fields(v value, key string, known ...string) map[string]value {
	if !d.is(v, key, '{') {
		return nil
	}
	fields := map[string]value{}
	for _, m := range v.members {
		if !slices.Contains(known, m.name) {
			d.fail(m.off, key, "unknown key %q; %s", m.name, nearest(m.name, known))
			continue
		}
		if _, twice := fields[m.name]; twice {
			d.fail(m.off, key, "the key %q stands here twice", m.name)
			continue
		}
		fields[m.name] = m.value
	}
	return fields
}

func (d *decoder) text(v value, key string) (string, bool) {
	if !d.is(v, key, '"') {
		return "", false
	}
	return unquote(d.data[v.off:v.end]), true
}

func (d *decoder) bool(v value, key string) (b, ok bool) {
	if !d.is(v, key, 't') {
		return false, false
	}
	return d.data[v.off] == 't', true
}

// integer reads a whole number between low and high.
func (d *decoder) integer(v value, key string, low, high int) (int, bool) {
	n, ok := d.number(v, key, float64(low), float64(high))
	if ok && n != math.Trunc(n) {
		d.fail(v.off, key, "must be a whole number, not %s", v.raw(d))
		return 0, false
	}
	return int(n), ok
}

func (d *decoder) number(v value, key string, low, high float64) (float64, bool) {
	if !d.is(v, key, '0') {
		return 0, false
	}
	var n float64
	err := json.Unmarshal(d.data[v.off:v.end], &n)
	if err != nil || n < low || n > high {
		d.fail(v.off, key, "must be between %v and %v, not %s", jsonNumber(low), jsonNumber(high), v.raw(d))
		return 0, false
	}
	return n, true
}

func jsonNumber(f float64) string {
	raw, err := json.Marshal(f)
	if err != nil {
		return fmt.Sprint(f)
	}
	return string(raw)
}

// oneOf reads a string that must be one of the words.
func (d *decoder) oneOf(v value, key string, words ...string) (string, bool) {
	s, ok := d.text(v, key)
	if ok && !slices.Contains(words, s) {
		d.fail(v.off, key, "%q is not known; %s", s, nearest(s, words))
		return "", false
	}
	return s, ok
}

// nearest suggests the known word that looks most like word, or lists them all.
func nearest(word string, known []string) string {
	if k := closest.Match(word, known); k != "" {
		return fmt.Sprintf("did you mean %q?", k)
	}
	return "known are " + strings.Join(known, ", ")
}
