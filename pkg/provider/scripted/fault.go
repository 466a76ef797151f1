package scripted

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// The kinds of fault that have no HTTP status.
const (
	brokenStream = "broken_stream" // the answer begins and breaks off
	badJSON      = "bad_json"      // the body is not JSON
	timeout      = "timeout"       // the server sends nothing for too long
	reset        = "reset"         // the connection is cut
)

// A fault is a failure of the model, as a real provider reports it.
type fault struct {
	agent.ModelError
	kind   string // empty if there is a status
	deltas int    // of a broken stream; -1 means half of them
}

func (d *decoder) fault(n *jsondoc.Node) *fault {
	x := &fault{deltas: -1}
	ok := d.object(n,
		field{"status", d.integer(&x.Status, 400, 599)},
		field{"kind", d.oneOf(&x.kind, brokenStream, badJSON, timeout, reset)},
		field{"message", d.text(&x.Message)},
		field{"code", d.text(&x.Code)},
		field{"retryAfterSeconds", func(n *jsondoc.Node) {
			seconds, _ := d.number(n, 0, 86_400)
			x.RetryAfter = time.Duration(seconds * float64(time.Second))
		}},
		field{"afterDeltas", d.integer(&x.deltas, 0, 1_000_000)})
	hasStatus := n.Member("status") != nil
	if ok && hasStatus == (n.Member("kind") != nil) {
		d.fail(n, "must have one of status and kind")
	}
	only := func(name, with string, there bool) {
		if m := n.Member(name); m != nil && !there {
			d.fail(m, "belongs to faults with %s only", with)
		}
	}
	only("code", "status", hasStatus)
	only("retryAfterSeconds", "status", hasStatus)
	only("afterDeltas", "the kind broken_stream", x.kind == brokenStream)
	if n.Member("message") == nil {
		x.Message = x.defaultMessage()
	}
	x.Temporary = x.kind != "" || x.Status >= 500 || x.Status == http.StatusRequestTimeout ||
		x.Status == http.StatusConflict || x.Status == http.StatusTooManyRequests && x.Code != "insufficient_quota"
	x.TooLong = x.Code == "context_length_exceeded"
	if x.kind == brokenStream {
		x.Err = io.ErrUnexpectedEOF
	}
	return x
}

// defaultMessage is the text of a fault without a message.
func (x *fault) defaultMessage() string {
	switch x.kind {
	case brokenStream:
		return "the stream broke off before the answer was complete"
	case badJSON:
		return "the server's answer is not valid JSON: invalid character '<' looking for beginning of value"
	case timeout:
		return "the server sent nothing for too long"
	case reset:
		return "connection reset by peer"
	}
	return cmp.Or(http.StatusText(x.Status), fmt.Sprintf("status %d", x.Status))
}

func (x *fault) err() error {
	e := x.ModelError
	return &e
}
