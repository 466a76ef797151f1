package modelhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
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
