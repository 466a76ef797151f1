// Package jsonrpc reads and writes the messages of JSON-RPC 2.0 as both sides of MCP
// use it: one JSON object each, with keys that are compared exactly, in lines of a
// bounded length. It does not depend on the methods.
//
// encoding/json matches keys regardless of case, so that {"Result": …} would be an
// answer; [Parse] and [Unmarshal] do not.
package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Version is what every message has under "jsonrpc".
const Version = "2.0"

// The codes of JSON-RPC 2.0 for messages that cannot be used.
const (
	ParseError     = -32700
	InvalidRequest = -32600
	InternalError  = -32603
)

// A Message is a request (ID and Method), a notification (only Method), or the answer
// to a request (ID, and Result or Error).
type Message struct {
	ID     json.RawMessage // nil: none
	Key    string          // of ID, see Key
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *Error
}

// IsAnswer reports whether m answers a request.
func (m *Message) IsAnswer() bool { return m.Result != nil || m.Error != nil }

// An Error is the error of an answer.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// Errorf makes an Error.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Parse reads a message. If it cannot be used the error says why, and the message has
// its ID where that was found, and is nil otherwise.
func Parse(text []byte) (*Message, *Error) {
	if !utf8.Valid(text) {
		return nil, Errorf(ParseError, "parse error: the message is not valid UTF-8")
	}
	if !json.Valid(text) {
		var any json.RawMessage
		return nil, Errorf(ParseError, "parse error: %v", json.Unmarshal(text, &any))
	}
	switch bytes.TrimLeft(text, " \t\r\n")[0] {
	case '[':
		return nil, Errorf(InvalidRequest, "batches are not supported: send one message a line")
	case '{':
	default:
		return nil, Errorf(InvalidRequest, "a message is a JSON object")
	}
	members, err := Object(text)
	if err != nil {
		return nil, Errorf(InvalidRequest, "the message: %v", err)
	}
	m := &Message{Params: members["params"], Result: members["result"]}
	if raw, ok := members["id"]; ok {
		if m.Key, ok = Key(raw); !ok {
			return m, Errorf(InvalidRequest, "id: it must be a string or a number")
		}
		m.ID = raw
	}
	if version, ok := Text(members["jsonrpc"]); !ok || version != Version {
		return m, Errorf(InvalidRequest, `jsonrpc: it must be "2.0"`)
	}
	raw, hasMethod := members["method"]
	if m.Method, _ = Text(raw); hasMethod && m.Method == "" {
		return m, Errorf(InvalidRequest, "method: it must be a string")
	}
	if hasMethod {
		return m, nil
	}
	var bad *Error
	if m.Error, bad = parseError(members["error"]); bad != nil {
		return m, bad
	}
	if !m.IsAnswer() {
		return m, Errorf(InvalidRequest, "method: it must be a string; an answer has a result or an error")
	}
	return m, nil
}

// parseError reads the error of an answer, which some programs write as a text.
func parseError(raw json.RawMessage) (e, bad *Error) {
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	if text, ok := Text(raw); ok {
		return &Error{Code: InternalError, Message: text}, nil
	}
	e = &Error{}
	if Unmarshal(raw, e) != nil {
		return nil, Errorf(InvalidRequest, "error: it must be an object with code, a number, and message, a string")
	}
	return e, nil
}

// Encode is v as a line of JSON.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// Request is a request, or without an id a notification, for Encode.
func Request(id, params any, method string) map[string]any {
	m := map[string]any{"jsonrpc": Version, "method": method}
	if id != nil {
		m["id"] = id
	}
	if params != nil {
		m["params"] = params
	}
	return m
}

// Answer is the line that answers the request id: with e, unless it is nil, or the
// result. An id of nil is written as null.
func Answer(id json.RawMessage, result any, e *Error) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	m := map[string]any{"jsonrpc": Version, "id": id}
	if e != nil {
		m["error"] = e
	} else {
		m["result"] = result
	}
	text, err := Encode(m)
	if err != nil {
		text, _ = Encode(map[string]any{"jsonrpc": Version, "id": id, // always encodes
			"error": Errorf(InternalError, "the answer could not be written as JSON")})
	}
	return text
}

// Key is the same for every spelling of an id, and differs between ids; false means
// that raw is not an id.
func Key(raw json.RawMessage) (string, bool) {
	if s, ok := Text(raw); ok {
		return "s" + s, true
	}
	var n json.Number
	if len(raw) == 0 || raw[0] == '"' || raw[0] == 'n' || json.Unmarshal(raw, &n) != nil {
		return "", false
	}
	if f, err := n.Float64(); err == nil && f == float64(int64(f)) && f < 1<<53 && f > -1<<53 {
		return "n" + strconv.FormatInt(int64(f), 10), true
	}
	return "n" + n.String(), true
}

// MaxMembers limits the members of a message, of its params and of their _meta: each takes a few
// bytes of the text, and hundreds in memory.
const MaxMembers = 10_000

// Object decodes an object of at most MaxMembers. text is valid JSON; null is nil.
func Object(text json.RawMessage) (map[string]json.RawMessage, error) {
	members, depth, inString := 1, 0, false
	for i := 0; i < len(text) && members <= MaxMembers; i++ {
		switch c := text[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++
		case inString:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ',' && depth == 1:
			members++
		}
	}
	if members > MaxMembers {
		return nil, fmt.Errorf("it has more than %d members", MaxMembers)
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil {
		return nil, errors.New("it must be an object")
	}
	return object, nil
}

// Text decodes a string; false means that raw is not a string.
func Text(raw json.RawMessage) (string, bool) {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}
