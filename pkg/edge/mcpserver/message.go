package mcpserver

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
	"github.com/agents-exe/agents/pkg/leaf/traceid"
)

// A message is one of a client with what is looked at of its params.
type message struct {
	*jsonrpc.Message
	params map[string]json.RawMessage
	meta   map[string]json.RawMessage // _meta of params
	modern bool                       // names its protocol version itself: 2026-07-28 and later

	// Of tools/call.
	name string
	args string
}

// listens reports whether the request stays open for notifications.
func (m *message) listens() bool { return m.Method == string(mcp.MethodSubscriptionsListen) }

func invalid(format string, args ...any) *jsonrpc.Error {
	return jsonrpc.Errorf(mcp.INVALID_REQUEST, format, args...)
}

func invalidParams(format string, args ...any) *jsonrpc.Error {
	return jsonrpc.Errorf(mcp.INVALID_PARAMS, format, args...)
}

func mismatch(format string, args ...any) *jsonrpc.Error {
	return jsonrpc.Errorf(mcp.HEADER_MISMATCH, format, args...)
}

// parse reads a message. nil without an error is an empty line. Beside an error the
// message has the id, if one was found.
func parse(text []byte) (*message, *jsonrpc.Error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	parsed, bad := jsonrpc.Parse(text)
	if parsed == nil {
		return nil, bad
	}
	m := &message{Message: parsed}
	if bad == nil {
		bad = m.parseParams(parsed.Params)
	}
	return m, bad
}

func (m *message) parseParams(raw json.RawMessage) *jsonrpc.Error {
	var err error
	if raw != nil {
		if m.params, err = jsonrpc.Object(raw); err != nil {
			return invalidParams("params: %v", err)
		}
	}
	if raw := m.params["_meta"]; raw != nil {
		if m.meta, err = jsonrpc.Object(raw); err != nil {
			return invalidParams("params._meta: %v", err)
		}
	}
	_, m.modern = m.meta[mcp.MetaKeyProtocolVersion]
	if m.Method != string(mcp.MethodToolsCall) {
		return nil
	}
	var ok bool
	if m.name, ok = jsonrpc.Text(m.params["name"]); !ok {
		return invalidParams("params.name: it must be a string")
	}
	m.args = "{}"
	switch args := string(m.params["arguments"]); {
	case strings.HasPrefix(args, "{"):
		m.args = args
	case args != "" && args != "null":
		return invalidParams("params.arguments: it must be an object")
	}
	return nil
}

// version is the protocol version that m names itself, "" if it names none.
func (m *message) version() string {
	version, _ := jsonrpc.Text(m.meta[mcp.MetaKeyProtocolVersion])
	return version
}

// traceparent is the span of the client, "" if it did not send one.
func (m *message) traceparent() string {
	text, _ := jsonrpc.Text(m.meta["traceparent"])
	if _, ok := traceid.Parse(text); !ok {
		return ""
	}
	return text
}

// token is what the client wants progress to be marked with; nil means that it
// wants none.
func (m *message) token() json.RawMessage {
	if _, ok := jsonrpc.Key(m.meta["progressToken"]); !ok {
		return nil
	}
	return m.meta["progressToken"]
}

// encode writes m for the library. The arguments of a call are not in it: they
// reach the tool as they came.
func (m *message) encode() (json.RawMessage, error) {
	params := m.params
	if m.Method == string(mcp.MethodToolsCall) {
		params = map[string]json.RawMessage{"name": params["name"]}
		for _, key := range []string{"_meta", "inputResponses", "requestState"} {
			if value, ok := m.params[key]; ok {
				params[key] = value
			}
		}
	}
	q := jsonrpc.Request(m.ID, nil, m.Method)
	if params != nil {
		q["params"] = params
	}
	return json.Marshal(q)
}

func answer(id json.RawMessage, response mcp.JSONRPCMessage) []byte {
	switch r := response.(type) {
	case mcp.JSONRPCResponse:
		return jsonrpc.Answer(id, r.Result, nil)
	case mcp.JSONRPCError:
		return jsonrpc.Answer(id, nil, &jsonrpc.Error{Code: r.Error.Code, Message: r.Error.Message, Data: r.Error.Data})
	}
	return jsonrpc.Answer(id, nil, jsonrpc.Errorf(mcp.INTERNAL_ERROR, "there is no answer"))
}
