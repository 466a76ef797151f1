package unparsed

import (
	"encoding/json"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/loosejson"
)

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

// value reads an object or a list and returns it as JSON. Gemma uses tokens as quotes.
func (r *reader) value(f *format) json.RawMessage {
	text := r.s[r.i:]
	if f != nil && f.quote != "" {
		all := text
		if text, _, _ = strings.Cut(text, f.end); len(text) == len(all) {
			r.far = len(r.s)
		}
		size := len(text)
		r.far = max(r.far, r.i+size)
		pieces := strings.Split(text, f.quote)
		if len(pieces)%2 == 0 { // the last string is cut off
			return nil
		}
		for i := 1; i < len(pieces); i += 2 {
			pieces[i] = loosejson.Write(pieces[i])
		}
		value, _ := whole(strings.Join(pieces, ""))
		if value != nil {
			r.to(r.i + size)
		}
		return value
	}
	value, n := whole(text)
	r.far = max(r.far, r.i+n)
	if value != nil {
		r.to(r.i + n)
	}
	return value
}

// whole reads the object or list that a text begins with, and returns nil if it is cut off. n is how
// much of the text was looked at.
func whole(text string) (value json.RawMessage, n int) {
	value, n, err := loosejson.Read(text)
	if err != nil || n == 0 || text[n-1] != '}' && text[n-1] != ']' {
		return nil, n
	}
	return value, n
}

// arguments reads arguments in Python syntax, up to the closing parenthesis.
func (r *reader) arguments() json.RawMessage {
	start, quote := r.i, ""
	for i := r.i + 1; i < len(r.s); i++ {
		switch rest := r.s[i:]; {
		case quote != "" && rest[0] == '\\':
			i++
		case quote != "" && strings.HasPrefix(rest, quote):
			i += len(quote) - 1
			quote = ""
		case quote != "":
		case rest[0] == '"' || rest[0] == '\'':
			quote = rest[:1]
			if three := strings.Repeat(quote, 3); strings.HasPrefix(rest, three) {
				quote = three
			}
			i += len(quote) - 1
		case rest[0] == ')':
			r.to(i + 1)
			value, _, err := loosejson.Read("{" + r.s[start+1:i] + "}")
			if err != nil {
				return nil
			}
			return value
		}
	}
	r.far = len(r.s)
	return nil
}

// An object is a JSON object that is being written.
type object struct {
	strings.Builder
}

// add adds an argument that was written as text: a string, unless the tool expects
// another type and the text has it.
func (o *object) add(key string, types arguments, text string, asIs bool) {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "\n"), "\n")
	if inner, ok := strings.CutPrefix(text, "<![CDATA["); ok {
		text = strings.TrimSuffix(inner, "]]>")
	}
	o.WriteString("{,"[min(o.Len(), 1):][:1] + loosejson.Write(key) + ":")
	if value, n, err := loosejson.Read(text); err == nil && strings.TrimSpace(text[n:]) == "" && !asIs && !types.wantsString(key) {
		o.Write(value)
		return
	}
	o.WriteString(loosejson.Write(text))
}

func (o *object) json() json.RawMessage {
	if o.Len() == 0 {
		return json.RawMessage("{}")
	}
	return json.RawMessage(o.String() + "}")
}
