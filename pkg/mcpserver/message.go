package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
)

// A message is a request or a notification. Its keys were compared exactly;
// encoding/json would take any case.
type message struct {
	id     json.RawMessage // nil: a notification
	key    string          // the same for every spelling of the id
	method string
	params map[string]json.RawMessage
	modern bool // names its protocol version itself: 2026-07-28 and later

	// Of tools/call.
	name string
	args string

	// Of the answer to a request of ours, which has no method.
	result  json.RawMessage
	failure *fault
}

// answers reports whether m answers a request of ours.
func (m *message) answers() bool { return m.result != nil || m.failure != nil }

// listens reports whether the request stays open for what happens.
func (m *message) listens() bool { return m.method == string(mcp.MethodSubscriptionsListen) }

// A fault is an error as JSON-RPC 2.0 has it.
type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func invalid(format string, args ...any) *fault {
	return &fault{Code: mcp.INVALID_REQUEST, Message: fmt.Sprintf(format, args...)}
}

func invalidParams(format string, args ...any) *fault {
	return &fault{Code: mcp.INVALID_PARAMS, Message: fmt.Sprintf(format, args...)}
}

func mismatch(format string, args ...any) *fault {
	return &fault{Code: mcp.HEADER_MISMATCH, Message: fmt.Sprintf(format, args...)}
}

// parse reads a message. nil without a fault is an empty line. Beside a fault the
// message has the id, if one was found.
func parse(text []byte) (*message, *fault) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil, nil
	}
	if !utf8.Valid(text) {
		return nil, &fault{Code: mcp.PARSE_ERROR, Message: "parse error: the message is not valid UTF-8"}
	}
	var members map[string]json.RawMessage
	if !json.Valid(text) {
		var any json.RawMessage
		return nil, &fault{Code: mcp.PARSE_ERROR, Message: fmt.Sprintf("parse error: %v", json.Unmarshal(text, &any))}
	}
	if text[0] == '[' {
		return nil, invalid("batches are not supported: send one message a line")
	}
	if json.Unmarshal(text, &members) != nil {
		return nil, invalid("a message is a JSON object")
	}
	m := &message{}
	if raw, ok := members["id"]; ok {
		if m.key, ok = idKey(raw); !ok {
			return m, invalid("id: it must be a string or a number")
		}
		m.id = raw
	}
	if version, ok := decodeText(members["jsonrpc"]); !ok || version != mcp.JSONRPC_VERSION {
		return m, invalid(`jsonrpc: it must be "2.0"`)
	}
	raw, ok := members["method"]
	if !ok && (members["result"] != nil || members["error"] != nil) {
		return m, m.parseAnswer(members)
	}
	if m.method, ok = decodeText(raw); !ok {
		return m, invalid("method: it must be a string")
	}
	return m, m.parseParams(members["params"])
}

// parseAnswer reads an answer to a request of ours.
func (m *message) parseAnswer(members map[string]json.RawMessage) *fault {
	m.result = members["result"]
	if raw := members["error"]; raw != nil {
		m.failure = &fault{}
		if json.Unmarshal(raw, m.failure) != nil {
			return invalid("error: it must be an object with code and message")
		}
	}
	return nil
}

func (m *message) parseParams(raw json.RawMessage) *fault {
	if raw != nil && json.Unmarshal(raw, &m.params) != nil {
		return &fault{Code: mcp.INVALID_PARAMS, Message: "params: it must be an object"}
	}
	var meta map[string]json.RawMessage
	if raw := m.params["_meta"]; raw != nil && json.Unmarshal(raw, &meta) != nil {
		return &fault{Code: mcp.INVALID_PARAMS, Message: "params._meta: it must be an object"}
	}
	_, m.modern = meta[mcp.MetaKeyProtocolVersion]
	if m.method != string(mcp.MethodToolsCall) {
		return nil
	}
	var ok bool
	if m.name, ok = decodeText(m.params["name"]); !ok {
		return &fault{Code: mcp.INVALID_PARAMS, Message: "params.name: it must be a string"}
	}
	args := m.params["arguments"]
	var object map[string]json.RawMessage
	if args != nil && json.Unmarshal(args, &object) != nil {
		return &fault{Code: mcp.INVALID_PARAMS, Message: "params.arguments: it must be an object"}
	}
	m.args = "{}"
	if object != nil {
		m.args = string(args)
	}
	return nil
}

// version is the protocol version that m names itself, "" if it names none.
func (m *message) version() string {
	var meta map[string]json.RawMessage
	if json.Unmarshal(m.params["_meta"], &meta) != nil {
		return ""
	}
	version, _ := decodeText(meta[mcp.MetaKeyProtocolVersion])
	return version
}

// token is what the client wants progress to be marked with; nil means that it
// wants none.
func (m *message) token() json.RawMessage {
	var meta map[string]json.RawMessage
	if json.Unmarshal(m.params["_meta"], &meta) != nil {
		return nil
	}
	if _, ok := idKey(meta["progressToken"]); !ok {
		return nil
	}
	return meta["progressToken"]
}

// encode writes m for the library. The arguments of a call are not in it: they
// are handed to the tool as they came.
func (m *message) encode() (json.RawMessage, error) {
	params := m.params
	if m.method == string(mcp.MethodToolsCall) {
		params = map[string]json.RawMessage{"name": params["name"]}
		for _, key := range []string{"_meta", "inputResponses", "requestState"} {
			if value, ok := m.params[key]; ok {
				params[key] = value
			}
		}
	}
	v := map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "id": m.id, "method": m.method}
	if params != nil {
		v["params"] = params
	}
	return json.Marshal(v)
}

// answer is the line that answers the request id.
func answer(id json.RawMessage, response mcp.JSONRPCMessage) []byte {
	var v any
	switch r := response.(type) {
	case mcp.JSONRPCResponse:
		v = map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "id": id, "result": r.Result}
	case mcp.JSONRPCError:
		v = map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "id": id, "error": r.Error}
	}
	if text, err := encode(v); err == nil && v != nil {
		return text
	}
	return refusal(id, &fault{Code: mcp.INTERNAL_ERROR, Message: "the answer could not be written as JSON"})
}

// refusal is the line that says what is wrong with a message. id may be nil.
func refusal(id json.RawMessage, f *fault) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	text, _ := encode(map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "id": id, "error": f}) // always encodes
	return text
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// idKey tells ids apart; false means that raw is none.
func idKey(raw json.RawMessage) (string, bool) {
	if s, ok := decodeText(raw); ok {
		return "s" + s, true
	}
	var n json.Number
	if len(raw) == 0 || raw[0] == '"' || raw[0] == 'n' || json.Unmarshal(raw, &n) != nil {
		return "", false
	}
	return "n" + n.String(), true
}

// decodeText decodes a string; false means that raw is none.
func decodeText(raw json.RawMessage) (string, bool) {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}
