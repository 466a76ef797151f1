package openaiapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// waitTime is how long a run waits for the results of the client's tools. It is less than
// the time limit of such a call. keepAlive is how often a stream has a comment while
// nothing else is sent.
const (
	waitTime  = 4 * time.Minute
	keepAlive = 10 * time.Second
)

// lateCalls is how long a response with calls waits for further calls of the same
// answer, which the agent's limit of parallel calls holds back.
const lateCalls = 200 * time.Millisecond

// A conversation is a run and the requests that it spans. One request at a time reads
// its events; between requests nobody does, and the run waits.
type conversation struct {
	channel *agent.Channel
	cancel  context.CancelFunc
	events  chan agent.Event
	gone    chan struct{} // closed when no event is read any more
	slug    string
	rebuilt bool            // from the messages of the client
	tools   map[string]bool // of the client
	single  bool            // one call per response

	// Guarded by the Handler's mutex.
	isWaiting bool
	resumed   chan struct{} // closed when it waits no more

	session  agent.Session // of the root
	begun    bool          // it has events of this run
	given    []call        // the calls that the client has to answer
	pending  []call        // the calls that the client does not have yet
	seen     map[string]bool
	open     int // calls of the client's tools in the last answer that have not begun
	answer   answerText
	finish   agent.Finish // of the last answer
	total    agent.TotalUsage
	reported agent.Usage // in earlier responses
	turns    int
	warnings []string
}

// A call is one of a tool of the client. id is what the client has: it is made of the
// key of the call, so that it is unique among all runs.
// n is its position in the answer.
type call struct {
	id, key, model, name, args string
	n                          int
}

func callID(key string) string { return "call_" + strings.ReplaceAll(key, ".", "_") }

// A reply is what a request gets: calls for the client, or the end of the run.
type reply struct {
	text  string
	calls []call
	end   *agent.Event // nil with calls
	usage agent.Usage
	extra extension
}

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

// refusal is the reason of a run that was refused, "" for others.
func (r *reply) refusal() string {
	if r.end == nil || r.end.Status != agent.StatusRefused {
		return ""
	}
	return r.end.Error
}

// An output receives what is said in a run for one request.
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
	// keep is called before finish.
	keep(c *conversation)
	// finish writes the reply. short says why it is not complete, if it is not.
	finish(r *reply, short string)
	fail(err error)
}

// respond writes what the run answers to a request.
func (h *Handler) respond(r *http.Request, c *conversation, out output) {
	got, err := c.next(r.Context(), out)
	if err != nil {
		h.end(c, "the client left: "+err.Error())
		return
	}
	out.keep(c)
	if got.calls != nil {
		h.wait(c) // the results may arrive before finish returns
		out.finish(got, "")
		return
	}
	h.end(c, "")
	short, err := c.outcome(got.end)
	if err != nil {
		out.fail(err)
		return
	}
	out.finish(got, short)
}

// open continues the run that waits for the results in t, or starts one.
func (h *Handler) open(r *http.Request, t *thread, spec agent.ToolSpec, tools []agent.ToolSpec, single bool) (*conversation, error) {
	c, err := h.resume(t, spec.Name)
	if c != nil || err != nil {
		return c, err
	}
	s, err := t.start(spec, tools)
	if err != nil {
		return nil, err
	}
	s.Lease.Traceparent = r.Header.Get("Traceparent")
	h.mu.Lock()
	closed := h.closed
	if !closed {
		h.runs.Add(1)
	}
	h.mu.Unlock()
	if closed {
		return nil, &apiError{status: http.StatusServiceUnavailable, Type: "server_error", Text: "the server is stopping"}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	starting := context.AfterFunc(r.Context(), cancel) // it may wait in a queue
	channel, err := h.Host.Start(ctx, spec.Name, s)
	if !starting() && err == nil {
		err = context.Cause(r.Context())
		channel.Cancel("the client left")
		_, _ = channel.Wait()
	}
	if err != nil {
		cancel()
		h.runs.Done()
		return nil, err
	}
	c = &conversation{channel: channel, cancel: cancel, events: make(chan agent.Event), gone: make(chan struct{}), slug: spec.Name,
		rebuilt: s.Args == nil, tools: map[string]bool{}, single: single, seen: map[string]bool{}}
	for _, spec := range tools {
		c.tools[spec.Name] = true
	}
	for _, e := range s.History {
		_ = c.session.Apply(e) // what is wrong with it is the end of the run
	}
	go c.read()
	return c, nil
}

// read passes on events until the run ends or nobody reads them.
func (c *conversation) read() {
	defer close(c.events)
	for e := range c.channel.Events() {
		select {
		case c.events <- e:
		case <-c.gone:
			return
		}
	}
}

// resume passes the results in t to the run that waits for them. It is nil if there is
// no such run.
func (h *Handler) resume(t *thread, slug string) (*conversation, error) {
	results, said := t.answers()
	h.mu.Lock()
	defer h.mu.Unlock()
	var c *conversation
	for _, r := range results {
		if found := h.calls[r.CallID]; found != nil && found.slug == slug {
			c = found
		}
	}
	if c == nil {
		return nil, nil
	}
	parts := map[string][]agent.Part{}
	for _, r := range results {
		parts[r.CallID] = append([]agent.Part{}, r.Parts...) // never nil
	}
	if err := c.expects(parts, h.calls); err != nil {
		return nil, err
	}
	h.forget(c)
	if said != nil {
		c.channel.Input(*said)
	}
	for _, g := range c.given {
		c.channel.Result(g.key, parts[g.id], false)
	}
	c.given = nil
	return c, nil
}

// expects checks that c waits for these results. h.mu is held.
func (c *conversation) expects(parts map[string][]agent.Part, calls map[string]*conversation) error {
	given := map[string]bool{}
	if c.isWaiting {
		for _, g := range c.given {
			if given[g.id] = true; parts[g.id] == nil {
				return invalid("", "invalid_value", "the run waits for the result of the tool call %s too", g.id)
			}
		}
	}
	for id := range parts {
		if calls[id] == c && !given[id] {
			return invalid("", "call_answered", "the result of the tool call %s arrived before, and the run continues with that", id).as(http.StatusConflict)
		}
	}
	return nil
}

// wait keeps c until the results of its given calls arrive.
func (h *Handler) wait(c *conversation) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		h.end(c, "the server is stopping")
		return
	}
	if h.calls == nil {
		h.calls = map[string]*conversation{}
	}
	for _, g := range c.given {
		h.calls[g.id] = c
	}
	c.isWaiting, c.resumed = true, make(chan struct{})
	h.waiting = append(h.waiting, c)
	go h.watch(c, c.resumed)
	var oldest *conversation
	if len(h.waiting) > cmp.Or(h.MaxWaiting, DefaultMaxWaiting) {
		oldest = h.waiting[0]
	}
	h.mu.Unlock()
	if oldest != nil {
		h.expire(oldest)
	}
}

// watch ends a run that waits for too long, or has ended by itself.
func (h *Handler) watch(c *conversation, resumed <-chan struct{}) {
	late := time.NewTimer(waitTime)
	defer late.Stop()
	select {
	case <-resumed:
		return
	case <-late.C:
	case <-c.channel.Done():
	}
	h.expire(c)
}

// expire ends a run that still waits.
func (h *Handler) expire(c *conversation) {
	h.mu.Lock()
	waits := c.isWaiting
	if waits {
		h.forget(c)
	}
	h.mu.Unlock()
	if waits {
		h.end(c, "nobody sent the results of the tools of the client")
	}
}

// forget takes c from those that wait. h.mu is held.
func (h *Handler) forget(c *conversation) {
	close(c.resumed)
	c.isWaiting = false
	h.waiting = slices.DeleteFunc(h.waiting, func(other *conversation) bool { return other == c })
}

// end ends the run if it has not ended, and returns when nothing of it is left.
func (h *Handler) end(c *conversation, reason string) {
	h.mu.Lock()
	for id, other := range h.calls {
		if other == c {
			delete(h.calls, id)
		}
	}
	h.mu.Unlock()
	close(c.gone)
	c.channel.Cancel(reason)
	_, _ = c.channel.Wait()
	for range c.events { // until read has ended
	}
	c.cancel()
	h.runs.Done()
}

// next reads events until there is a reply. The error says that the client is gone.
func (c *conversation) next(ctx context.Context, out output) (*reply, error) {
	idle := time.NewTicker(keepAlive)
	defer idle.Stop()
	late := time.NewTimer(lateCalls)
	defer late.Stop()
	for out.lost() == nil {
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
		case <-idle.C:
			out.idle()
		case e, ok := <-c.events:
			if !ok {
				return nil, errors.New("the run has no end event")
			}
			late.Reset(lateCalls)
			if e.Kind == agent.EventText && e.Depth == 0 {
				idle.Reset(keepAlive)
			}
			c.note(&e, out)
			if e.Kind == agent.EventEnd && e.Depth == 0 {
				return c.reply(&e), nil
			}
		}
	}
	return nil, out.lost()
}

// note takes over what an event says.
func (c *conversation) note(e *agent.Event, out output) {
	c.total.Note(e)
	if e.Depth > 0 {
		return
	}
	if e.Kind.Lasting() {
		c.begun = c.begun || e.Kind != agent.EventEnd
		_ = c.session.Apply(*e) // the Runner has applied it
	}
	switch e.Kind {
	case agent.EventText:
		c.answer.piece(e.Text, out)
	case agent.EventRetry:
		c.answer.retried = true
	case agent.EventWarning:
		if len(c.warnings) < 10 {
			c.warnings = append(c.warnings, e.Text)
		}
	case agent.EventClientCall:
		c.seen[e.Key] = true
		c.open--
		c.pending = append(c.pending, call{callID(e.Key), e.Key, e.CallID, e.Tool, e.Args, e.N})
	case agent.EventCallEnded:
		c.ended(e)
	case agent.EventAnswer:
		c.turns++
		c.finish, c.open = e.Finish, 0
		for _, k := range e.Message.Calls {
			if c.tools[k.Name] {
				c.open++
			}
		}
		c.answer.end(e.Message.Text(), out)
	}
}

// ended notes that a call has ended: one that was refused never reaches the client.
func (c *conversation) ended(e *agent.Event) {
	switch {
	case c.seen[e.Key]:
		c.pending = slices.DeleteFunc(c.pending, func(p call) bool { return p.key == e.Key })
	case c.tools[e.Tool]:
		c.open--
	}
}

// ask is the reply with the calls that the client has to answer next.
func (c *conversation) ask() *reply {
	slices.SortFunc(c.pending, func(a, b call) int { return a.n - b.n })
	n := len(c.pending)
	if c.single {
		n = 1
	}
	c.given, c.pending = slices.Clone(c.pending[:n]), c.pending[n:]
	r := c.reply(nil)
	r.calls = c.given
	r.extra.Status = "" // it has not ended
	return r
}

// reply is the end of the run, or with end nil, what there is before it.
func (c *conversation) reply(end *agent.Event) *reply {
	r := &reply{text: c.answer.last, end: end, usage: c.total.Usage.Add(negative(c.reported))}
	c.reported = c.total.Usage
	c.answer.last = ""
	r.extra = extension{Session: c.session.ID, Turns: c.turns, Unpriced: r.usage.Unpriced(), Rebuilt: c.rebuilt, Warnings: c.warnings}
	if r.usage.Priced > 0 {
		r.extra.Cost = &r.usage.Cost
	}
	if end != nil {
		r.extra.Status, r.extra.Reason = end.Status, end.Error
		if end.Status == agent.StatusOK {
			r.text = end.Text
		}
	}
	return r
}

func negative(u agent.Usage) agent.Usage {
	return agent.Usage{Requests: -u.Requests, InputTokens: -u.InputTokens, CachedTokens: -u.CachedTokens, OutputTokens: -u.OutputTokens,
		ReasoningTokens: -u.ReasoningTokens, Cost: -u.Cost, Priced: -u.Priced}
}

// messages is the conversation as it is now. Calls in it have the ids of the client, and
// each but those that the client has to answer has a result.
func (c *conversation) messages() []agent.Message {
	list := slices.Clone(c.session.Messages)
	if len(c.session.Calls) == 0 {
		return list
	}
	last := &list[len(list)-1]
	last.Calls = slices.Clone(last.Calls)
	results := agent.Message{Role: agent.RoleTool}
	for i := range last.Calls {
		k := &last.Calls[i]
		if g := slices.IndexFunc(c.given, func(g call) bool { return g.model == k.ID }); g >= 0 {
			k.ID = c.given[g].id
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
