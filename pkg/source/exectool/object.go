package exectool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// An object is a JSON object that is read strictly: exact key case and no key
// twice, which encoding/json would both let pass. A field that is null is as
// good as absent.
type object struct {
	fields []field
}

type field struct {
	key  string
	raw  json.RawMessage // without white space around it; never empty
	used bool
}

func parseObject(data []byte) (*object, error) {
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 {
		return nil, errors.New("a JSON object is expected, and there is nothing")
	}
	if trimmed[0] != '{' {
		return nil, fmt.Errorf("a JSON object is expected, not %s", show(trimmed))
	}
	// What is not UTF-8 in a description shows as U+FFFD.
	doc, err := jsondoc.Parse(bytes.ToValidUTF8(trimmed, []byte("\uFFFD")), jsondoc.Options{Shallow: true})
	if syntax, ok := errors.AsType[*jsondoc.SyntaxError](err); ok {
		return nil, fmt.Errorf("not valid JSON: %s near %s", syntax.Message, near(trimmed, syntax.Offset))
	}
	if len(doc.Duplicates) > 0 {
		return nil, fmt.Errorf("the field %q is there twice", doc.Duplicates[0].Name)
	}
	obj := &object{}
	for _, n := range doc.Root.Children {
		obj.fields = append(obj.fields, field{key: n.Name, raw: json.RawMessage(doc.Raw(n))})
	}
	return obj, nil
}

// near shows the text around offset.
func near(data []byte, offset int) string {
	from := max(0, min(offset, len(data))-20)
	return show(data[from:])
}

// show quotes the beginning of data, so that a person recognizes it and a
// terminal survives it.
func show(data []byte) string {
	const most = 60
	if len(data) <= most {
		return strconv.Quote(string(data))
	}
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(data[cut]) {
		cut--
	}
	return strconv.Quote(string(data[:cut])) + "…"
}

// take is the value of a field, nil if it is absent or null. From now on the
// field counts as known.
func (o *object) take(key string) json.RawMessage {
	for i := range o.fields {
		f := &o.fields[i]
		if f.key != key {
			continue
		}
		f.used = true
		if !bytes.Equal(f.raw, []byte("null")) {
			return f.raw
		}
	}
	return nil
}

func (o *object) has(key string) bool { return o.take(key) != nil }

// value decodes a field into dst and marks it as known. A field that is absent
// leaves dst alone and is an error only if it is required.
func (o *object) value(key string, required bool, want string, dst any) error {
	raw := o.take(key)
	if raw == nil {
		if required {
			return fmt.Errorf("the field %q is missing", key)
		}
		return nil
	}
	if err := json.Unmarshal(raw, dst); err != nil {
		return fmt.Errorf("%s must be %s, not %s", key, want, kindOf(raw))
	}
	return nil
}

func (o *object) text(key string, required bool, dst *string) error {
	return o.value(key, required, "a string", dst)
}

// oneOf is text for a field that has one of the valid values, or is absent.
func (o *object) oneOf(key string, dst *string, valid ...string) error {
	if err := o.text(key, false, dst); err != nil || !o.has(key) || slices.Contains(valid, *dst) {
		return err
	}
	if len(valid) == 1 {
		return fmt.Errorf("%s %q is unknown; the only valid value is %s", key, *dst, valid[0])
	}
	return fmt.Errorf("%s %q is unknown; valid are %s", key, *dst, strings.Join(valid, ", "))
}

// compact is the value of a field as compact JSON, nil if it is absent.
func (o *object) compact(key string) json.RawMessage {
	raw := o.take(key)
	if raw == nil {
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return raw // cannot be: the decoder has read it
	}
	return b.Bytes()
}

func (o *object) unused() []string {
	var keys []string
	for _, f := range o.fields {
		if !f.used {
			keys = append(keys, f.key)
		}
	}
	return keys
}

// kindOf names the type of a JSON value, with an article.
func kindOf(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

// fits reports whether a JSON value is of a type of JSON Schema.
func fits(backing string, raw json.RawMessage) bool {
	_, kind, known := strings.Cut(kindOf(raw), " ") // not of null and of nothing
	return known && backing == kind || backing == "integer" && kind == "number" && isInteger(raw)
}

// isInteger reports whether a JSON number has no fraction: 1, 1.0 and 1e2.
func isInteger(raw json.RawMessage) bool {
	text, err := agent.ArgText(raw)
	if err != nil {
		return false
	}
	mantissa, exp, _ := strings.Cut(strings.ToLower(text), "e")
	_, frac, _ := strings.Cut(mantissa, ".")
	n, _ := strconv.Atoi(exp)
	return len(frac) <= n
}
