package openaiapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// keepAlive is how often a stream has a comment while nothing else is sent. lateCalls is
// how long a response with calls waits for further calls of the same answer, which the
// agent's limit of parallel calls holds back.
const (
	keepAlive = 10 * time.Second
	lateCalls = 200 * time.Millisecond
)

// A heldRun is a run and the requests that it spans. One request at a time reads
// its events; between requests nobody does, and the run waits.
type heldRun struct {
	channel *runner.Channel
	cancel  context.CancelFunc
	events  chan agent.Event
	gone    chan struct{} // closed when no event is read any more
	slug    string
	rebuilt bool             // from the messages of the client
	tools   map[string]bool  // of the client
	single  bool             // one call per response
	shape   json.RawMessage  // the schema of the answer; then only one that was accepted is said
	forced  []agent.ToolSpec // the answer is a call of one of these tools of the client
	stops   []string         // the text of a turn ends before the first of them

	// Guarded by the Handler's mutex.
	given []call // the calls whose results it waits for; nil when it does not wait
	late  *time.Timer

	session  agent.Session // of the root
	begun    bool          // it has events of this run
	acted    bool          // a call started, at any depth: it may have had effects
	pending  []call        // the calls that the client does not have yet
	seen     map[string]bool
	open     int    // calls of the client's tools in the last answer that have not begun
	sent     []byte // the text of the turn that the output has
	at       int    // how much of it the present request to the model has repeated
	held     string // text of the turn that may be the beginning of a stop text
	stopped  bool   // the text of the turn has one
	last     string // the text of the last turn that has one, since the last reply
	finish   agent.Finish
	total    agent.TotalUsage // since the last reply
	turns    int
	warnings []string
}

// A call is one of a tool of the client. id is what the client has: it is made of the
// key of the call, so that it is unique among all runs. n is its position in the answer.
type call struct {
	id, key, model, name, args string
	n                          int
}

// input returns the arguments in the form of protocols in which they are JSON.
func (c call) input() json.RawMessage {
	if !json.Valid([]byte(c.args)) {
		return json.RawMessage("{}")
	}
	return json.RawMessage(c.args)
}

// An output receives what is said in a run for one request, and writes the reply.
type output interface {
	// text adds a piece to the text of the turn; again says that the text so far is
	// void.
	text(piece string, again bool)
	// turn ends the text of a turn.
	turn()
	// idle is called when nothing was sent for some time.
	idle()
	// lost is why the client is not there any more.
	lost() error
	finish(r *reply)
	fail(err error)
}

// read passes on events until the run ends or nobody reads them.
func (c *heldRun) read() {
	defer close(c.events)
	for e := range c.channel.Events() {
		select {
		case c.events <- e:
		case <-c.gone:
			return
		}
	}
}

// next reads events until there is a reply. What is said goes to x.
func (c *heldRun) next(ctx context.Context, x *exchange) (*reply, error) {
	late := time.NewTimer(lateCalls)
	defer late.Stop()
	for {
		if len(c.pending) > 0 && c.open == 0 {
			return c.ask(), nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-late.C:
			if len(c.pending) > 0 {
				return c.ask(), nil
			}
		case e, ok := <-c.events:
			if !ok {
				return nil, errors.New("the run has no end event")
			}
			late.Reset(lateCalls)
			c.note(&e, x)
			if e.Kind == agent.EventEnd && e.Depth == 0 {
				if c.shape != nil && e.Text != "" {
					c.last = e.Text
					if c.forced == nil {
						c.show(e.Text, false, x)
						c.endTurn(x)
					}
				}
				r, err := c.end(&e)
				if err == nil && c.forced != nil && e.Status == agent.StatusOK {
					c.call(r)
				}
				return r, err
			}
		}
	}
}

// note takes over what an event says.
func (c *heldRun) note(e *agent.Event, x *exchange) {
	c.total.Note(e)
	c.acted = c.acted || e.Kind == agent.EventCallStarted || e.Kind == agent.EventClientCall
	if e.Depth > 0 {
		return
	}
	if e.Kind.Lasting() {
		c.begun = c.begun || e.Kind != agent.EventEnd
		_ = c.session.Apply(*e) // the Runner has applied it
	}
	switch e.Kind {
	case agent.EventText:
		c.say(e.Text, x)
	case agent.EventRetry:
		c.at = 0
	case agent.EventWarning:
		if len(c.warnings) < 10 {
			c.warnings = append(c.warnings, e.Text)
		}
	case agent.EventClientCall:
		c.seen[e.Key] = true
		c.open--
		c.pending = append(c.pending, call{"call_" + strings.ReplaceAll(e.Key, ".", "_"), e.Key, e.CallID, e.Tool, e.Args, e.N})
	case agent.EventCallEnded: // one that was refused never reaches the client
		if c.seen[e.Key] {
			c.pending = slices.DeleteFunc(c.pending, func(p call) bool { return p.key == e.Key })
		} else if c.tools[e.Tool] {
			c.open--
		}
	case agent.EventAnswer:
		c.turns++
		c.finish, c.open = e.Finish, 0
		for _, k := range e.Message.Calls {
			if c.tools[k.Name] {
				c.open++
			}
		}
		c.at = 0
		c.say(e.Message.Text(), x) // some providers show no pieces
		c.sent, c.at = nil, 0
		if said := e.Message.Text(); said != "" && c.shape == nil {
			c.last = said
			c.endTurn(x)
			x.add(mark{turn: true})
		}
	}
}

// say passes on a piece of the model's text, but not what repeats the text before a
// retry.
func (c *heldRun) say(piece string, x *exchange) {
	if c.shape != nil {
		return
	}
	repeats := string(c.sent[c.at:])
	if strings.HasPrefix(repeats, piece) {
		c.at += len(piece)
		return
	}
	rest, same := strings.CutPrefix(piece, repeats)
	if !same {
		rest = string(c.sent[:c.at]) + piece
		c.sent = nil
	}
	c.sent = append(c.sent, rest...)
	c.at = len(c.sent)
	c.show(rest, !same, x)
}

// show passes on text up to the first stop text.
func (c *heldRun) show(piece string, again bool, x *exchange) {
	if again {
		c.held, c.stopped = "", false
	}
	if c.stopped {
		return
	}
	text := c.held + piece
	cut := c.cut(text)
	c.stopped = len(cut) < len(text)
	c.held = ""
	if !c.stopped {
		c.held = text[len(text)-c.partial(text):]
		cut = text[:len(text)-len(c.held)]
	}
	if cut != "" || again {
		x.said(cut, again)
	}
}

// endTurn shows what was held back.
func (c *heldRun) endTurn(x *exchange) {
	if c.held != "" {
		x.said(c.held, false)
	}
	c.held, c.stopped = "", false
}

// cut returns the text before the first stop text in it.
func (c *heldRun) cut(text string) string {
	for _, s := range c.stops {
		text, _, _ = strings.Cut(text, s)
	}
	return text
}

// partial returns how many bytes at the end of text may be the beginning of a stop text.
func (c *heldRun) partial(text string) (n int) {
	for _, s := range c.stops {
		for i := min(len(s)-1, len(text)); i > n; i-- {
			if strings.HasSuffix(text, s[:i]) {
				n = i
			}
		}
	}
	return n
}

// call makes the answer of a run that must end in a call of a tool of the client that call. The
// run is over: the results of the client begin another.
func (c *heldRun) call(r *reply) {
	made := call{id: "call_" + rand.Text(), name: c.forced[0].Name, args: r.text}
	if len(c.forced) > 1 {
		var chosen struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		_ = json.Unmarshal([]byte(r.text), &chosen) // the schema holds
		made.name, made.args = chosen.Name, string(chosen.Arguments)
	}
	r.text, r.calls, r.over = "", []call{made}, true
	if n := len(r.messages); n > 0 && r.messages[n-1].Role == agent.RoleAssistant {
		r.messages[n-1] = agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: made.id, Name: made.name, Args: made.args}}}
	}
}

// A reply is what a request gets: calls for the client, or the end of the run.
type reply struct {
	text     string // of the last turn
	calls    []call
	over     bool            // the run does not wait for results of the calls
	refusal  string          // why the run was refused
	short    string          // why the answer is not complete
	messages []agent.Message // the conversation
	usage    agent.Usage
	extra    extension
}

// The values of reply.short.
const (
	cutShort = "length"
	withheld = "content_filter"
)

// An extension is the member "agents" of a response, which OpenAI's do not have.
type extension struct {
	Status   agent.Status `json:"status,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	Session  string       `json:"session,omitempty"`
	Turns    int          `json:"turns,omitempty"`
	Cost     *agent.Money `json:"cost,omitempty"`
	Unpriced int          `json:"unpriced,omitempty"`
	Rebuilt  bool         `json:"rebuilt,omitempty"`
	Warnings []string     `json:"warnings,omitempty"`
}

// add adds the member to a response of an agent. That of a model has no session.
func (e *extension) add(to object) {
	if e.Session != "" {
		to["agents"] = e
	}
}

// reply is what there is since the last one.
func (c *heldRun) reply(calls []call) *reply {
	r := &reply{text: c.cut(c.last), calls: calls, messages: c.messages(calls), usage: c.total.Usage}
	c.last, c.total = "", agent.TotalUsage{}
	r.extra = extension{Session: c.session.ID, Turns: c.turns, Unpriced: r.usage.Unpriced(), Rebuilt: c.rebuilt, Warnings: c.warnings}
	if r.usage.Priced > 0 {
		r.extra.Cost = &r.usage.Cost
	}
	return r
}

// ask is the reply with the calls that the client has to answer next.
func (c *heldRun) ask() *reply {
	slices.SortStableFunc(c.pending, func(a, b call) int { return a.n - b.n })
	n := len(c.pending)
	if c.single {
		n = 1
	}
	calls := slices.Clone(c.pending[:n])
	c.pending = c.pending[n:]
	return c.reply(calls)
}

// statusFinal is the status of an error after which no known client repeats a request by itself:
// the libraries of OpenAI repeat 408, 409, 429 and 5xx, the package ai and litellm the same
// whatever X-Should-Retry says, and LangChain all but a few from 400 to 409. Those that were told
// to repeat any error get the same one again: see exchange.
const statusFinal = http.StatusBadRequest

// end is the reply at the end of the run, or the error of a run that has no answer. The
// client must not repeat the request by itself if calls of tools may have had effects.
func (c *heldRun) end(e *agent.Event) (*reply, error) {
	if len(c.sent) > 0 { // it was cut
		c.last = string(c.sent)
	}
	r := c.reply(nil)
	r.extra.Status, r.extra.Reason = e.Status, e.Error
	failed := &apiError{status: http.StatusInternalServerError, final: true, Type: "server_error", Code: text(string(e.Status)), Text: e.Error}
	switch status := e.Status; {
	case status == agent.StatusOK:
		return r, nil
	case status == agent.StatusPartial, status == agent.StatusBudget, status == agent.StatusLimit, status == agent.StatusDeadline,
		status == agent.StatusFailed && c.finish == agent.FinishLength:
		r.short = cutShort
		return r, nil
	case status == agent.StatusRefused:
		r.short, r.refusal = withheld, e.Error
		return r, nil
	case status == agent.StatusFailed && c.finish == agent.FinishContentFilter:
		r.short = withheld
		return r, nil
	case !c.begun: // only what the client sent can be wrong
		return nil, invalid("", string(status), "%s", e.Error)
	case status == agent.StatusFailed:
		failed.status = http.StatusBadGateway
	case status == agent.StatusInterrupted:
		failed.status = http.StatusServiceUnavailable
	}
	if c.acted {
		failed.status = statusFinal
	}
	return nil, failed
}

// messages is the conversation as it is now. The calls that the client has to answer have
// its ids, and all others have a result.
func (c *heldRun) messages(given []call) []agent.Message {
	list := slices.Clone(c.session.Messages)
	if len(c.session.Calls) == 0 {
		return list
	}
	last := &list[len(list)-1]
	last.Calls = slices.Clone(last.Calls)
	results := agent.Message{Role: agent.RoleTool}
	for i := range last.Calls {
		k := &last.Calls[i]
		if g := slices.IndexFunc(given, func(g call) bool { return g.model == k.ID }); g >= 0 {
			k.ID = given[g].id
			continue
		}
		r := c.session.Calls[i].Result
		if r == nil {
			r = &agent.ToolResult{CallID: k.ID, Name: k.Name, Failed: true, Parts: []agent.Part{agent.Text("error: the run ended before the result; what the call did is not known")}}
		}
		results.Results = append(results.Results, *r)
	}
	if len(results.Results) > 0 {
		list = append(list, results)
	}
	return list
}
