package scripted

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// The kinds of fault that have no HTTP status.
const (
	brokenStream = "broken_stream" // the answer begins and breaks off
	badJSON      = "bad_json"      // the body is no JSON
	timeout      = "timeout"       // the server says nothing for too long
	reset        = "reset"         // the connection is cut
)

// fault is a failure of the model.
type fault struct {
	kind       string // empty if there is a status
	status     int
	code       string
	message    string
	retryAfter time.Duration
	deltas     int // of a broken stream; -1 means half of them
}

func (d *decoder) fault(v value, key string) *fault {
	x := &fault{deltas: -1}
	f := d.fields(v, key, "status", "kind", "message", "code", "retryAfterSeconds", "afterDeltas")
	if f == nil {
		return x
	}
	status, hasStatus := f["status"]
	kind, hasKind := f["kind"]
	switch {
	case hasStatus == hasKind:
		d.fail(v.off, key, "must have one of status and kind")
	case hasStatus:
		x.status, _ = d.integer(status, key+".status", 400, 599)
	default:
		x.kind, _ = d.oneOf(kind, key+".kind", brokenStream, badJSON, timeout, reset)
	}
	x.message = x.usual()
	if v, ok := f["message"]; ok {
		x.message, _ = d.text(v, key+".message")
	}
	d.only(f, key, "code", "status", hasStatus)
	if v, ok := f["code"]; ok {
		x.code, _ = d.text(v, key+".code")
	}
	d.only(f, key, "retryAfterSeconds", "status", hasStatus)
	if v, ok := f["retryAfterSeconds"]; ok {
		n, _ := d.number(v, key+".retryAfterSeconds", 0, 86_400)
		x.retryAfter = time.Duration(n * float64(time.Second))
	}
	d.only(f, key, "afterDeltas", "the kind broken_stream", x.kind == brokenStream)
	if v, ok := f["afterDeltas"]; ok {
		x.deltas, _ = d.integer(v, key+".afterDeltas", 0, 1_000_000)
	}
	return x
}

// only reports a key that stands without the key that gives it a meaning.
func (d *decoder) only(f map[string]value, key, name, with string, there bool) {
	if v, ok := f[name]; ok && !there {
		d.fail(v.off, key+"."+name, "belongs to faults with %s only", with)
	}
}

// usual is the text of a fault that brings none of its own.
func (x *fault) usual() string {
	switch x.kind {
	case brokenStream:
		return "the stream broke off before the answer was complete"
	case badJSON:
		return "the server's answer is no JSON: invalid character '<' looking for beginning of value"
	case timeout:
		return "the server sent nothing for too long"
	case reset:
		return "connection reset by peer"
	}
	if text := http.StatusText(x.status); text != "" {
		return text
	}
	return fmt.Sprintf("status %d", x.status)
}

// err is the fault as a real provider reports it.
func (x *fault) err() error {
	e := &agent.ModelError{
		Status: x.status, Code: x.code, Message: x.message, RetryAfter: x.retryAfter, Temporary: true,
	}
	switch {
	case x.kind == brokenStream:
		e.Err = io.ErrUnexpectedEOF
	case x.kind == "":
		e.Temporary = x.status >= 500 || x.status == http.StatusRequestTimeout ||
			x.status == http.StatusConflict || x.status == http.StatusTooManyRequests
	}
	return e
}
