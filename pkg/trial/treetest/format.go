package treetest

import (
	"bytes"
	"encoding/json"
	"strings"
)

// lineWidth limits the length of an object or array on one line.
const lineWidth = 110

// format formats a valid JSON text for people: short values on one line, the others
// on several, keys in their order.
func format(text []byte) []byte {
	var b bytes.Buffer
	formatValue(&b, text, 0)
	b.WriteByte('\n')
	return b.Bytes()
}

func formatValue(b *bytes.Buffer, raw json.RawMessage, depth int) {
	raw = bytes.TrimSpace(raw)
	open := raw[0]
	if open != '{' && open != '[' || len(raw)+2*depth <= lineWidth && depth > 0 {
		b.Write(oneLine(raw))
		return
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.Token() // the bracket; the text is valid
	indent := "\n" + strings.Repeat("  ", depth+1)
	b.WriteByte(open)
	for first := true; dec.More(); first = false {
		if !first {
			b.WriteByte(',')
		}
		b.WriteString(indent)
		if open == '{' {
			key, _ := dec.Token()
			name, _ := encode(key)
			b.Write(name)
			b.WriteString(": ")
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return // cannot happen: the text is valid
		}
		formatValue(b, value, depth+1)
	}
	b.WriteString(indent[:len(indent)-2])
	b.WriteByte(map[byte]byte{'{': '}', '[': ']'}[open])
}

// oneLine is JSON with a space after each comma and colon.
func oneLine(raw []byte) []byte {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "") != nil {
		return raw
	}
	// Line breaks are between values only: in strings they are escaped.
	return bytes.ReplaceAll(bytes.ReplaceAll(b.Bytes(), []byte(",\n"), []byte(", ")), []byte("\n"), nil)
}
