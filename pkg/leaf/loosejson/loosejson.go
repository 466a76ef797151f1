// Package loosejson reads JSON as small language models write it: with single or curly
// quotes, comments, trailing or missing commas, names without quotes, the literals of
// Python and JavaScript, line breaks in strings, or without the brackets at the end.
//
//	fixed, n, err := loosejson.Read(`{'tool': 'bash', "args": {command: "ls"},} and more`)
//	// fixed is {"tool":"bash","args":{"command":"ls"}}, n the length of what was read
//
// A string that does not end is an error and never completed: it may be a part of a
// command.
package loosejson

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth limits how deep values are nested.
const maxDepth = 100

var (
	errString = errors.New("a string does not end")
	errDepth  = errors.New("it is nested too deep")
)

// Read reads the value at the beginning of text, behind white space, and returns it as
// JSON with its length in text. Valid JSON is returned as it is.
func Read(text string) (fixed json.RawMessage, n int, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	if d.Decode(&fixed) == nil {
		return fixed, int(d.InputOffset()), nil
	}
	r := reader{text: text}
	if err := r.value(0); err != nil {
		return nil, r.at, err
	}
	return json.RawMessage(r.out.String()), r.at, nil
}

type reader struct {
	text string
	at   int
	out  strings.Builder
}

// rest is what was not read yet.
func (r *reader) rest() string { return r.text[r.at:] }

func (r *reader) peek() byte {
	if r.at < len(r.text) {
		return r.text[r.at]
	}
	return 0
}

// skip passes over white space and comments.
func (r *reader) skip() {
	for r.at < len(r.text) {
		rest := r.rest()
		switch {
		case strings.HasPrefix(rest, "//") || rest[0] == '#':
			r.pass(strings.IndexByte(rest, '\n'), 1)
		case strings.HasPrefix(rest, "/*"):
			r.pass(strings.Index(rest, "*/"), 2)
		default:
			c, size := utf8.DecodeRuneInString(rest)
			if !strings.ContainsRune(" \t\r\n\u00a0\ufeff", c) {
				return
			}
			r.at += size
		}
	}
}

// pass moves behind what was found at i and has n bytes, or to the end.
func (r *reader) pass(i, n int) {
	if i < 0 {
		r.at = len(r.text)
		return
	}
	r.at += i + n
}

func (r *reader) value(depth int) error {
	r.skip()
	switch c := r.peek(); {
	case depth > maxDepth:
		return errDepth
	case r.at == len(r.text):
		return io.ErrUnexpectedEOF
	case c == '{':
		return r.list('}', depth)
	case c == '[':
		return r.list(']', depth)
	case r.quoted():
		return r.string()
	}
	return r.word()
}

func (r *reader) quoted() bool {
	begin, _ := quote(r.rest())
	return begin != ""
}

// list reads an object or an array. What is open at the end of the text is closed.
func (r *reader) list(end byte, depth int) error {
	r.out.WriteByte(r.text[r.at])
	r.at++
	for first := true; ; first = false {
		r.skip()
		for r.peek() == ',' {
			r.at++
			r.skip()
		}
		switch c := r.peek(); {
		case r.at == len(r.text), c == end:
			r.pass(0, min(1, len(r.text)-r.at))
			return r.out.WriteByte(end)
		case c == '}' || c == ']':
			return r.unexpected()
		}
		if !first {
			r.out.WriteByte(',')
		}
		if end == '}' {
			if err := r.key(); err != nil {
				return err
			}
		}
		if err := r.value(depth + 1); err != nil {
			return err
		}
	}
}

func (r *reader) unexpected() error {
	c, _ := utf8.DecodeRuneInString(r.rest())
	return errors.New("unexpected " + strconv.QuoteRune(c))
}

// key reads the name of a member and the colon behind it.
func (r *reader) key() error {
	var err error
	if r.quoted() {
		err = r.string()
	} else {
		end := strings.IndexAny(r.rest(), ":=,{}[]\"' \t\r\n")
		if end <= 0 {
			return r.unexpected()
		}
		r.write(r.rest()[:end])
		r.at += end
	}
	if err != nil {
		return err
	}
	r.skip()
	if c := r.peek(); c != ':' && c != '=' {
		if r.at == len(r.text) {
			return io.ErrUnexpectedEOF
		}
		return r.unexpected()
	}
	r.at++
	r.out.WriteByte(':')
	return nil
}

// quotes are what a string can begin with, and what it then ends with.
var quotes = [...][2]string{{`"""`, `"""`}, {"'''", "'''"}, {`"`, `"`}, {"'", "'"}, {"`", "`"}, {"“", "”"}, {"”", "”"}, {"„", "“"}, {"‘", "’"}, {"«", "»"}}

// quote returns how the string begins that s begins with, and how it ends; "" if it is none.
func quote(s string) (begin, end string) {
	for _, q := range quotes {
		if strings.HasPrefix(s, q[0]) && (len(q[0]) == 1 || q[0][0] > utf8.RuneSelf || strings.Contains(s[3:], q[1])) {
			return q[0], q[1]
		}
	}
	return "", ""
}

// string reads a string. A quote in it behind which nothing can follow a string is part of
// it.
func (r *reader) string() error {
	begin, end := quote(r.rest())
	r.at += len(begin)
	var b strings.Builder
	for r.at < len(r.text) {
		rest := r.rest()
		switch {
		case strings.HasPrefix(rest, end) && ends(rest[len(end):]):
			r.at += len(end)
			r.write(b.String())
			return nil
		case rest[0] == '\\':
			r.escape(&b)
		default:
			b.WriteByte(rest[0])
			r.at++
		}
	}
	return errString
}

// ends reports whether what follows a quote can follow a string.
func ends(rest string) bool {
	after := strings.TrimLeft(rest, " \t\r\n")
	if after == "" || strings.ContainsRune(",:=}]", rune(after[0])) {
		return true
	}
	begin, _ := quote(after)
	line := strings.Contains(rest[:len(rest)-len(after)], "\n")
	return len(after) < len(rest) && (strings.HasPrefix(after, "//") || strings.HasPrefix(after, "/*") || after[0] == '#') || line && begin != ""
}

// escape reads a backslash and what belongs to it. One that JSON does not know stays as it
// is, as in a regular expression.
func (r *reader) escape(b *strings.Builder) {
	rest := r.rest()
	if len(rest) < 2 {
		b.WriteByte('\\')
		r.at++
		return
	}
	size := 2
	switch c := rest[1]; c {
	case '"', '\'', '`', '\\', '/':
		b.WriteByte(c)
	case '\n': // a line that continues
	case 'b', 'f', 'n', 'r', 't':
		b.WriteByte(map[byte]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}[c])
	case 'u':
		var s string
		if size = unicode(rest); size == 0 || json.Unmarshal([]byte(`"`+rest[:size]+`"`), &s) != nil {
			s, size = `\u`, 2
		}
		b.WriteString(s)
	default:
		b.WriteString(rest[:2])
	}
	r.at += size
}

// unicode is the length of the characters that s begins with, written as \uXXXX: several,
// because two of them can be one.
func unicode(s string) (n int) {
	for strings.HasPrefix(s[n:], `\u`) && len(s) >= n+6 && strings.Trim(s[n+2:n+6], "0123456789abcdefABCDEF") == "" {
		n += 6
	}
	return n
}

// word reads a number, a literal, or a text without quotes.
func (r *reader) word() error {
	end := strings.IndexAny(r.rest(), ",}]\n")
	if end < 0 {
		end = len(r.rest())
	}
	word := strings.TrimSpace(r.rest()[:end])
	if i := strings.Index(word, " //"); i >= 0 {
		word = strings.TrimSpace(word[:i])
	}
	r.at += end
	switch word {
	case "":
		return errors.New("a value is missing")
	case "true", "True", "TRUE":
		r.out.WriteString("true")
	case "false", "False", "FALSE":
		r.out.WriteString("false")
	case "null", "None", "nil", "undefined", "NaN":
		r.out.WriteString("null")
	default:
		if json.Valid([]byte(word)) { // a number
			r.out.WriteString(word)
		} else if f, err := strconv.ParseFloat(word, 64); err == nil && strings.ContainsRune("+-.0123456789", rune(word[0])) {
			r.write(f)
		} else {
			r.write(word)
		}
	}
	return nil
}

func (r *reader) write(v any) { r.out.WriteString(Write(v)) }

// Write returns v as JSON in which <, > and & are not escaped. v must be a value that JSON
// has.
func Write(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n")
}
