// Package scripted is a model whose answers were written in advance. Tests,
// demos and examples run on it: the same loop and the same tools as with any
// other model, without a network or a key.
//
// A [Script] is a list of rules, read by [Parse]. A rule says when it applies
// (the agent, the turn, a pattern in the last message or the prompt, results of
// tools) and what it does: answer with text and tool calls, into which values of
// the conversation are filled, or fail as real models do. The first rule that
// fits wins. A [Provider] plays a script; a conversation that fits no rule is an
// error that wraps [ErrNoRule] and shows the nearest rule.
//
//	script, err := scripted.Parse("hello.json", []byte(`{"rules": [
//	  {"when": {"lastMessage": "(?i)^hello (?P<name>\\w+)"},
//	   "answer": {"text": "Hello to you, ${name}."}}
//	]}`))
//	a := &agent.Agent{Slug: "hello", Provider: &scripted.Provider{Script: script}}
//
// docs/scripted-model.md describes the format, schemas/script.schema.json is its
// JSON Schema.
package scripted

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// The limits of a script.
const (
	MaxBytes = 16 << 20  // of the whole script
	MaxDelay = time.Hour // of delayMillis and deltaMillis
	// MaxAnswer limits the bytes of one answer after values were filled in.
	MaxAnswer = 16 << 20
)

// ErrNoRule is wrapped by the error for a conversation that no rule fits.
var ErrNoRule = errors.New("no rule fits the conversation")

// A Script is a parsed script. It never changes and may be used by any number
// of Providers at the same time.
type Script struct {
	name  string
	rules []*rule
}

// A Problem is one mistake in a script.
type Problem struct {
	File string
	// Line and Column count from 1, columns in characters.
	Line   int
	Column int
	// Key is the path of the value, like rules[2].when.agent; empty means
	// the script as a whole.
	Key     string
	Message string
}

// Error is FILE:LINE:COLUMN: KEY: MESSAGE.
func (p *Problem) Error() string {
	place := fmt.Sprintf("%s:%d:%d: ", p.File, p.Line, p.Column)
	if p.Key != "" {
		place += p.Key + ": "
	}
	return place + p.Message
}

type rule struct {
	key   string // rules[2]
	place string // script.json:14
	name  string

	conditions []condition
	patterns   patterns

	answer *answer
	fault  *fault
	delay  time.Duration // before the answer or fault
	pace   time.Duration // between two pieces of the answer
	times  int           // uses in one session; 0 means any number
}

// String names the rule in messages.
func (r *rule) String() string {
	if r.name == "" {
		return fmt.Sprintf("%s (%s)", r.key, r.place)
	}
	return fmt.Sprintf("%s %q (%s)", r.key, r.name, r.place)
}

type answer struct {
	text      template
	reasoning template
	calls     []call
	finish    string
	usage     usage
}

type call struct {
	tool string
	args argsTemplate
	id   *string // nil means a made one
}

// usage overrides what is counted; nil means counted.
type usage struct {
	input, cached, output, reasoning *int
	cost                             *agent.Money
}

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
