package standin

import (
	"bytes"
	"encoding/json"
	"strings"
)

// DecodeJSON reads one JSON value; numbers keep their digits. ok is false if text
// is anything else.
func DecodeJSON(text string) (v any, ok bool) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&v) != nil || dec.More() {
		return nil, false
	}
	return v, true
}

// EncodeJSON is json.Marshal with <, > and & as they are. With indent, each value
// has a line of its own.
func EncodeJSON(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// FormatJSON is a JSON text without spaces, or with indent with a line for each
// value, and with the keys of objects sorted. A text that is not JSON is returned
// unchanged.
func FormatJSON(text, indent string) string {
	if v, ok := DecodeJSON(text); ok {
		if b, err := EncodeJSON(v, indent); err == nil {
			return string(b)
		}
	}
	return text
}
