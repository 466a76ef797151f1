package modelhttp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
)

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
