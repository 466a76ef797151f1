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

// maxProblems is how many problems are reported one by one.
const maxProblems = 20

// A value is a JSON value with its place in the script.
type value struct {
	off int
	raw string
	// name and nameOff are those of the member that the value is, if it is one.
	name    string
	nameOff int
	list    []value // members of an object, elements of an array
}

// A decoder turns JSON values into a script and collects problems.
type decoder struct {
	file     string
	data     string
	lines    []int // where each line starts
	problems []*Problem
	program  int // instructions of the patterns so far
}

func newDecoder(file, data string) *decoder {
	d := &decoder{file: file, data: data, lines: []int{0}}
	for i, c := range []byte(data) {
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
	for i, r := range d.data {
		if r == utf8.RuneError && !strings.HasPrefix(d.data[i:], "\uFFFD") {
			d.fail(i, "", "the script is not valid UTF-8")
			return value{}, false
		}
	}
	var all json.RawMessage
	if err := json.Unmarshal([]byte(d.data), &all); err != nil {
		at := len(d.data)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = max(int(syntax.Offset)-1, 0)
		}
		d.fail(at, "", "no valid JSON: %s", err)
		return value{}, false
	}
	return d.value(json.NewDecoder(strings.NewReader(d.data))), true
}

// value reads the next value of text that is valid JSON.
func (d *decoder) value(dec *json.Decoder) value {
	before := int(dec.InputOffset())
	v := value{off: before + len(d.data[before:]) - len(strings.TrimLeft(d.data[before:], " \t\r\n,:"))}
	if tok, _ := dec.Token(); tok == json.Delim('{') || tok == json.Delim('[') {
		for dec.More() {
			var name value
			if tok == json.Delim('{') {
				name = d.value(dec)
			}
			item := d.value(dec)
			item.name, item.nameOff = unquote(name.raw), name.off
			v.list = append(v.list, item)
		}
		_, _ = dec.Token()
	}
	v.raw = d.data[v.off:dec.InputOffset()]
	return v
}

func unquote(raw string) string {
	var s string
	_ = json.Unmarshal([]byte(raw), &s) // fails for what is no string, whose s is not used
	return s
}

func (d *decoder) line(off int) int {
	return sort.Search(len(d.lines), func(i int) bool { return d.lines[i] > off })
}

func (d *decoder) fail(off int, key, format string, args ...any) {
	line := d.line(off)
	d.problems = append(d.problems, &Problem{File: d.file, Line: line, Column: off - d.lines[line-1] + 1,
		Key: printable(key), Message: fmt.Sprintf(format, args...)})
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
		if i == maxProblems {
			all = append(all, fmt.Errorf("%s: and %d more problems", d.file, len(d.problems)-maxProblems))
			break
		}
		all = append(all, p)
	}
	return errors.Join(all...)
}

// A kind is the first character of a JSON value, 0 for numbers and t for true and
// false.
type kind byte

const (
	object kind = '{'
	array  kind = '['
	text   kind = '"'
	number kind = '0'
	truth  kind = 't'
)

func (v value) kind() kind {
	switch c := v.raw[0]; c {
	case 'f':
		return truth
	case '{', '[', '"', 't', 'n':
		return kind(c)
	}
	return number
}

// String is what messages call a value of the kind.
func (k kind) String() string {
	switch k {
	case object:
		return "an object"
	case array:
		return "an array"
	case text:
		return "a string"
	case number:
		return "a number"
	case truth:
		return "true or false"
	default:
		return "null"
	}
}

// is checks the kind of a value.
func (d *decoder) is(v value, key string, want kind) bool {
	got := v.kind()
	switch got {
	case want:
		return true
	case truth:
		d.fail(v.off, key, "must be %s, not %s", want, v.raw)
	default:
		d.fail(v.off, key, "must be %s, not %s", want, got)
	}
	return false
}

// A reader reads the value of a key.
type reader func(v value, key string)

// A field is a key of an object.
type field struct {
	name string
	read reader
}

// object reads the members of an object, in the order of the fields, and reports
// unknown and repeated names. It returns the members by name.
func (d *decoder) object(v value, key string, fields ...field) map[string]value {
	if !d.is(v, key, object) {
		return nil
	}
	var known []string
	for _, f := range fields {
		known = append(known, f.name)
	}
	members := map[string]value{}
	for _, m := range v.list {
		if !slices.Contains(known, m.name) {
			d.fail(m.nameOff, key, "unknown key %q; %s", m.name, nearest(m.name, known))
		} else if _, repeated := members[m.name]; repeated {
			d.fail(m.nameOff, key, "the key %q stands here twice", m.name)
		} else {
			members[m.name] = m
		}
	}
	if key != "" {
		key += "."
	}
	for _, f := range fields {
		if m, ok := members[f.name]; ok {
			f.read(m, key+f.name)
		}
	}
	return members
}

func (d *decoder) text(to *string) reader {
	return func(v value, key string) {
		if d.is(v, key, text) {
			*to = unquote(v.raw)
		}
	}
}

// oneOf reads a string that must be one of the words.
func (d *decoder) oneOf(to *string, words ...string) reader {
	return func(v value, key string) {
		if !d.is(v, key, text) {
			return
		}
		if s := unquote(v.raw); slices.Contains(words, s) {
			*to = s
		} else {
			d.fail(v.off, key, "%q is not known; %s", s, nearest(s, words))
		}
	}
}

// array reads the elements of an array of at most limit things.
func (d *decoder) array(limit int, things string, element reader) reader {
	return func(v value, key string) {
		if !d.is(v, key, array) {
			return
		}
		if n := len(v.list); n > limit {
			d.fail(v.off, key, "there are %d %s; the limit is %d", n, things, limit)
			return
		}
		for i, item := range v.list {
			element(item, fmt.Sprintf("%s[%d]", key, i))
		}
	}
}

// integer reads a whole number between low and high.
func (d *decoder) integer(to *int, low, high int) reader {
	return func(v value, key string) {
		n, ok := d.between(v, key, float64(low), float64(high))
		switch {
		case !ok:
		case n != math.Trunc(n):
			d.fail(v.off, key, "must be a whole number, not %s", v.raw)
		default:
			*to = int(n)
		}
	}
}

func (d *decoder) between(v value, key string, low, high float64) (n float64, ok bool) {
	if !d.is(v, key, number) {
		return 0, false
	}
	if err := json.Unmarshal([]byte(v.raw), &n); err != nil || n < low || n > high {
		d.fail(v.off, key, "must be between %.0f and %.0f, not %s", low, high, v.raw)
		return 0, false
	}
	return n, true
}

// nearest suggests the known word that looks most like word, or lists them all.
func nearest(word string, known []string) string {
	if k := closest.Match(word, known); k != "" {
		return fmt.Sprintf("did you mean %q?", k)
	}
	return "known are " + strings.Join(known, ", ")
}
