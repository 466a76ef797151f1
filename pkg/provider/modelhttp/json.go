package modelhttp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
)

// maxCommas bounds the number of elements that one piece of JSON can hold, and
// so the memory that reading it takes. No model writes so much in one answer.
const maxCommas = 1 << 18

// CheckJSON reports what is wrong with a piece of JSON. The functions below read
// only what passes it.
func CheckJSON(data []byte) error {
	if bytes.Count(data, []byte{','}) > maxCommas {
		return errors.New("it has too many elements")
	}
	if json.Valid(data) {
		return nil
	}
	var raw json.RawMessage
	return json.Unmarshal(data, &raw)
}

// split cuts a JSON object or array at its commas and colons. The parts share
// the memory of raw.
func split(raw []byte) [][]byte {
	parts := make([][]byte, 0, min(16, 1+bytes.Count(raw, []byte{','})+bytes.Count(raw, []byte{':'})))
	depth, start := 0, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth++; depth == 1 {
				start = i + 1
			}
		case '}', ']':
			depth--
			if last := bytes.TrimSpace(raw[start:i]); depth == 0 && len(last) > 0 {
				parts = append(parts, last)
			}
		case ',', ':':
			if depth == 1 {
				parts = append(parts, bytes.TrimSpace(raw[start:i]))
				start = i + 1
			}
		}
	}
	return parts
}

// An Object holds the names and values of a JSON object in turn. It exists
// because servers send members in forms that no struct can take, and because
// encoding/json ignores the case of names.
type Object [][]byte

// ObjectOf returns nil for a value that is not an object.
func ObjectOf(raw []byte) Object {
	if FirstByte(raw) != '{' {
		return nil
	}
	return split(raw)
}

// Get returns the value of a member, the last one if there are several, or nil.
func (o Object) Get(name string) []byte {
	for i := len(o) - 2; i >= 0; i -= 2 {
		if key := o[i]; string(key[1:len(key)-1]) == name || bytes.IndexByte(key, '\\') >= 0 && Str(key) == name {
			return o[i+1]
		}
	}
	return nil
}

// Elements returns those of a JSON array; any other value except null is the
// only element.
func Elements(raw []byte) [][]byte {
	switch FirstByte(raw) {
	case 0, 'n':
		return nil
	case '[':
		return split(raw)
	}
	return [][]byte{raw}
}

// Str returns the content of a JSON string, and "" for any other value.
func Str(raw []byte) string {
	var t Text
	t.Add(raw)
	return t.Rest()
}

// Word returns the content of a JSON string or the digits of a number.
func Word(raw []byte) string {
	if first := FirstByte(raw); first == '-' || first >= '0' && first <= '9' {
		return string(raw)
	}
	return Str(raw)
}

// Number reads a number, which may stand in a string. It is never negative, and
// 0 for any other value.
func Number(raw []byte) int {
	f, err := strconv.ParseFloat(string(bytes.Trim(raw, `"`)), 64)
	if err != nil || !(f > 0) {
		return 0
	}
	return int(min(f, math.MaxInt32))
}

// FirstByte is the first byte of JSON text, 0 if there is none.
func FirstByte(raw []byte) byte {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}

// A Writer writes the body of a request to B, with commas between members and elements. Each
// request repeats the whole conversation, so B has its size from the beginning.
type Writer struct {
	B        []byte
	settings *Settings
}

// NewWriter returns a Writer for a request, whose body has the model as its first member.
func NewWriter(req *agent.Request, s *Settings) Writer {
	w := Writer{make([]byte, 0, sizeOf(req)), s}
	w.Open()
	w.Member("model", s.Model)
	return w
}

// Open begins an object that is an element of a list, or the whole body.
func (w *Writer) Open() {
	w.comma()
	w.B = append(w.B, '{')
}

// OpenType is Open for an object whose first member is its type.
func (w *Writer) OpenType(kind string) {
	w.Open()
	w.Member("type", kind)
}

// Close writes brackets, or other JSON that follows without a comma.
func (w *Writer) Close(brackets string) { w.B = append(w.B, brackets...) }

func (w *Writer) comma() {
	if n := len(w.B); n > 0 && strings.IndexByte("{[:", w.B[n-1]) < 0 {
		w.B = append(w.B, ',')
	}
}

// name begins a member.
func (w *Writer) name(name string) {
	w.comma()
	w.B = append(AppendString(w.B, name), ':')
}

// Object begins a member that is an object.
func (w *Writer) Object(name string) {
	w.name(name)
	w.B = append(w.B, '{')
}

// List begins a member that is a list.
func (w *Writer) List(name string) {
	w.name(name)
	w.B = append(w.B, '[')
}

// Member writes a member whose value is a string.
func (w *Writer) Member(name, value string) {
	w.name(name)
	w.B = AppendString(w.B, value)
}

// Optional writes a member like Member, unless the value is empty.
func (w *Writer) Optional(name, value string) {
	if value != "" {
		w.Member(name, value)
	}
}

// Raw writes a member whose value is JSON already.
func (w *Writer) Raw(name, value string) {
	w.name(name)
	w.B = append(w.B, value...)
}

// Element writes an element of a list that is JSON already.
func (w *Writer) Element(value string) {
	w.comma()
	w.B = append(w.B, value...)
}

// Base64 writes a member whose value is data in base64 after a prefix.
func (w *Writer) Base64(name, prefix string, data []byte) {
	w.name(name)
	w.B = append(append(w.B, '"'), prefix...)
	w.B = append(base64.StdEncoding.AppendEncode(w.B, data), '"')
}

// DataURL writes a member whose value is a data URL.
func (w *Writer) DataURL(name, kind string, data []byte) {
	w.Base64(name, "data:"+kind+";base64,", data)
}

// A ToolForm is how a protocol writes a tool: it begins with Begin, has a name, a description
// and its schema under the name Schema, and ends with End.
type ToolForm struct{ Begin, Schema, End string }

// Tools writes the member tools, if there are any, with schemas that the server takes. A tool
// for which there is none is left out: see Refusals.
func (w *Writer) Tools(tools []agent.ToolSpec, form ToolForm, refused Refusals) error {
	begin, schema, end := form.Begin, form.Schema, form.End
	fitting := make([]agent.ToolSpec, 0, len(tools))
	for _, t := range tools {
		if !json.Valid(t.Schema) {
			return fmt.Errorf("the schema of tool %s is not valid JSON", t.Name)
		}
		if t, _, err := refused.Fit(t); err == nil {
			fitting = append(fitting, t)
		}
	}
	if len(fitting) == 0 {
		return nil
	}
	w.List("tools")
	for _, t := range fitting {
		w.Element(begin)
		w.Member("name", t.Name)
		w.Member("description", t.Description)
		w.name(schema)
		w.B = append(w.B, t.Schema...)
		w.Close(end)
	}
	w.Close("]")
	return nil
}

// AppendString appends s as a JSON string. It writes <, > and & as they are,
// which encoding/json does not, and needs no memory of its own.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i, r := range s {
		if r >= ' ' && r != '"' && r != '\\' && r != utf8.RuneError {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch short := strings.IndexRune("\"\\\n\r\t", r); {
		case short >= 0:
			b = append(b, '\\', `"\nrt`[short])
		case r < ' ':
			b = fmt.Appendf(b, `\u%04x`, r)
		default: // U+FFFD, or a byte that is not part of valid UTF-8
			b = utf8.AppendRune(b, utf8.RuneError)
			_, size := utf8.DecodeRuneInString(s[i:])
			start = i + size
		}
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
