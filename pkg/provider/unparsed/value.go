package unparsed

import (
	"encoding/json"
	"strings"
)

// maxDepth limits how deep values are nested.
const maxDepth = 64

// to moves the reader.
func (r *reader) to(i int) {
	r.i = i
	r.far = max(r.far, i)
}

func (r *reader) skip(chars string) {
	r.to(len(r.s) - len(strings.TrimLeft(r.s[r.i:], chars)))
}

// peek is the next byte, 0 at the end of the text.
func (r *reader) peek() byte {
	if r.i == len(r.s) {
		return 0
	}
	return r.s[r.i]
}

func (r *reader) accept(token string) bool {
	if !strings.HasPrefix(r.s[r.i:], token) {
		return false
	}
	r.to(r.i + len(token))
	return true
}

// value reads a value in the notation of JSON or Python, as models write both, and writes it
// as JSON: with either kind of quotes, line breaks in strings, names without quotes as keys, a
// comma too many. Gemma's quotes are tokens.
func (r *reader) value(out *strings.Builder, depth int) bool {
	if depth > maxDepth {
		return false
	}
	r.skip(" \t\r\n")
	switch c := r.peek(); c {
	case '{':
		r.to(r.i + 1)
		return r.members(out, ":", "}", depth)
	case '[', '(':
		r.to(r.i + 1)
		return r.elements(out, map[byte]string{'[': "]", '(': ")"}[c], depth)
	}
	if text, ok := r.quotedText(); ok {
		out.WriteString(text)
		return true
	}
	word := r.word()
	switch word {
	case "True", "true":
		word = "true"
	case "False", "false":
		word = "false"
	case "None", "null":
		word = "null"
	default:
		if !json.Valid([]byte(word)) {
			return false
		}
	}
	out.WriteString(word)
	return true
}

// word reads a name, a number or a constant.
func (r *reader) word() string {
	start := r.i
	for c := r.peek(); c == '_' || c == '.' || c == '-' || c == '+' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'; c = r.peek() {
		r.to(r.i + 1)
	}
	return r.s[start:r.i]
}

// members reads pairs up to an end, and writes an object.
func (r *reader) members(out *strings.Builder, between, end string, depth int) bool {
	o := object{out: out}
	for {
		r.skip(" \t\r\n")
		if r.accept(end) {
			o.end()
			return true
		}
		key, ok := r.quotedText()
		if word := ""; !ok {
			if word = r.word(); word == "" {
				return false
			}
			key = encode(word)
		}
		if r.skip(" \t\r\n"); !r.accept(between) {
			return false
		}
		o.key(key)
		if !r.value(out, depth+1) || !r.separated(end) {
			return false
		}
	}
}

func (r *reader) elements(out *strings.Builder, end string, depth int) bool {
	out.WriteByte('[')
	for first := true; ; first = false {
		r.skip(" \t\r\n")
		if r.accept(end) {
			out.WriteByte(']')
			return true
		}
		if !first {
			out.WriteByte(',')
		}
		if !r.value(out, depth+1) || !r.separated(end) {
			return false
		}
	}
}

// separated passes a comma, or looks at the end.
func (r *reader) separated(end string) bool {
	r.skip(" \t\r\n")
	return r.accept(",") || strings.HasPrefix(r.s[r.i:], end)
}

// quotedText reads a string and returns it as JSON.
func (r *reader) quotedText() (string, bool) {
	for _, quote := range []string{`"""`, "'''", `"`, "'", `<|"|>`, "<escape>"} {
		start := r.i
		if !r.accept(quote) {
			continue
		}
		begin := r.i
		for r.i < len(r.s) {
			end := r.i
			switch {
			case r.accept(quote):
				return encodeQuoted(r.s[begin:end], quote[0] != '<'), true
			case r.s[r.i] == '\\' && quote[0] != '<' && r.i+1 < len(r.s):
				r.i++
			}
			r.i++
		}
		r.far, r.i = r.i, start
		return "", false
	}
	return "", false
}

// encodeQuoted writes what stood between quotes as a string of JSON. Its escapes are those
// of JSON or Python; a backslash before anything else is itself.
func encodeQuoted(s string, escapes bool) string {
	if !escapes {
		return encode(s)
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			b.WriteString(`\"`)
		case c < ' ':
			b.WriteString(strings.Trim(encode(string(rune(c))), `"`))
		case c != '\\':
			b.WriteByte(c)
		case i+1 < len(s) && strings.IndexByte(`"\/bfnrtu`, s[i+1]) >= 0:
			b.WriteString(s[i : i+2])
			i++
		case i+1 < len(s) && s[i+1] == '\'':
		default:
			b.WriteString(`\\`)
		}
	}
	b.WriteByte('"')
	if !json.Valid([]byte(b.String())) { // \u without its digits
		return encode(s)
	}
	return b.String()
}

// encode writes a string as JSON.
func encode(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // it is a string
	return strings.TrimSuffix(b.String(), "\n")
}

// An object is a JSON object that is being written.
type object struct {
	out *strings.Builder
	n   int
}

// key writes a key, which is encoded.
func (o *object) key(key string) {
	o.out.WriteByte("{,"[min(o.n, 1)])
	o.n++
	o.out.WriteString(key + ":")
}

// add writes an argument that was written as text: a string, unless the tool wants
// something else and the text is that.
func (o *object) add(key string, types arguments, text string, asIs bool) {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "\n"), "\n")
	if inner, ok := strings.CutPrefix(text, "<![CDATA["); ok {
		text = strings.TrimSuffix(inner, "]]>")
	}
	o.key(encode(key))
	var out strings.Builder
	r := &reader{s: strings.TrimSpace(text)}
	if !asIs && !types.wantsString(key) && r.value(&out, 0) && r.i == len(r.s) {
		o.out.WriteString(out.String())
		return
	}
	o.out.WriteString(encode(text))
}

func (o *object) end() {
	if o.n == 0 {
		o.out.WriteByte('{')
	}
	o.out.WriteByte('}')
}
