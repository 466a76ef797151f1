package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

// A transport carries messages to a server and hands what comes from it to its conn:
// a stdio or a web.
type transport interface {
	// send sends a request, and hands its answer, or why there is none, to
	// conn.answered or conn.received.
	send(ctx context.Context, q *request)
	// post sends a message that wants no answer.
	post(ctx context.Context, line []byte) error
	// end releases everything and returns why the connection is gone. closed says
	// that it was closed here. The end of ctx cuts its waits short.
	end(ctx context.Context, closed bool) error
}

type request struct {
	key     string // of its id, see jsonrpc.Key
	method  string
	line    []byte            // the message
	version string            // of the protocol, "" before there is one
	header  map[string]string // over HTTP, from 2026-07-28 on
	call    *call             // that it belongs to, or nil
	answers chan<- answer     // has room for the answer
}

// An answer is what a request brought.
type answer struct {
	method string
	result json.RawMessage
	err    error
}

// codeUnusable is the JSON-RPC error code of an answer that cannot be used.
const codeUnusable = -32099

// refusal is the error in an answer, nil if it has none.
func refusal(m *jsonrpc.Message) error {
	if m.Error != nil {
		return &rpcError{m.Error}
	}
	return nil
}

// unusable says why an answer of the server cannot be used.
func unusable(why string) error {
	return &rpcError{jsonrpc.Errorf(codeUnusable, "the server's message cannot be used: %s", why)}
}

func tooLong(max int) string { return fmt.Sprintf("it is longer than %d bytes", max) }

// parse reads a message of a server. Beside an error there may be its id.
func parse(l jsonrpc.Line, max int) (m *jsonrpc.Message, err error) {
	if l.TooLong {
		key, _ := jsonrpc.Key(l.ID)
		return &jsonrpc.Message{ID: l.ID, Key: key}, unusable(tooLong(max))
	}
	m, bad := jsonrpc.Parse(bytes.ToValidUTF8(l.Text, []byte("\uFFFD")))
	if m == nil {
		m = &jsonrpc.Message{}
	}
	if bad == nil {
		return m, nil
	}
	if m.ID == nil {
		var find jsonrpc.IDFinder
		_, _ = find.Write(l.Text) // never fails
		m.ID = find.ID()
		m.Key, _ = jsonrpc.Key(m.ID)
	}
	return m, unusable(bad.Message)
}

// isMessage reports whether text looks like a JSON-RPC message. Programs that print
// logs as JSON do not say "jsonrpc" in them, and would otherwise answer requests by
// accident.
func isMessage(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return bytes.HasPrefix(text, []byte("{")) && bytes.Contains(text, []byte(`"jsonrpc"`))
}
