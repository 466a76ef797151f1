package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/guard"
)

// A Starter starts runs of agents, as host.Host does. Its methods are safe for concurrent use.
type Starter interface {
	// Agents are the agents by name: each a tool whose arguments are the Args of Start.
	Agents() []agent.ToolSpec
	// Start begins a run of an agent, which ends with ctx. With s.Session it continues that
	// session.
	Start(ctx context.Context, slug string, s agent.Start) (*Channel, error)
}

// A Channel is a run that its holder watches and directs. Its methods are safe for
// concurrent use.
type Channel struct {
	cancel context.CancelCauseFunc
	runner *Runner
	done   chan struct{}
	out    *agent.Outcome
	err    error

	mu       sync.Mutex
	changed  *sync.Cond // the queue or acked
	queue    []agent.Event
	seq      int64 // of the last event
	acked    int64
	patience time.Duration    // for an acknowledgement
	starts   map[string]int64 // Seq of EventCallStarted of the calls without a result, by Key
	over     bool             // the last event is in the queue
	drop     bool             // events are no longer read
	stopped  bool             // the run must end: nothing waits for the holder any longer
	replies  map[string]*reply
	results  map[string]chan clientResult
}

// A reply is what a question waits for.
type reply struct {
	answer chan json.RawMessage
	deltas []agent.Delta // of a lent model, not shown yet; nil unless the question is for one
	more   chan struct{} // has a value if there are some
}

type clientResult struct {
	agent.Result
	failed bool
}

// maxQueued is how many events are queued for the reader before the run waits.
const maxQueued = 1000

// ackTime is how long the run waits for an acknowledgement, and as long as it may continue
// without a connection to its holder.
const ackTime = 60 * time.Second

// defaultClientTime is the time limit of a call of a holder's tool.
const defaultClientTime = 300 * time.Second

// Start begins a run and returns at once. r must not have been used. s takes precedence
// over its fields: the lease shrinks r.Lease, the history replaces
// r.From, and with s.Journal the holder keeps the events instead of r.Journal. The
// caller reads Events until they end; the last is the end event of the root.
func (r *Runner) Start(ctx context.Context, s agent.Start) *Channel {
	c := &Channel{runner: r, done: make(chan struct{}), starts: map[string]int64{}, replies: map[string]*reply{}, results: map[string]chan clientResult{}}
	c.changed = sync.NewCond(&c.mu)
	ctx, c.cancel = context.WithCancelCause(ctx)
	prompt, err := c.prepare(ctx, s)
	observe := r.Observe
	r.Observe = func(e agent.Event) {
		if observe != nil {
			observe(e)
		}
		c.put(e)
	}
	ctx, late := leaseTime(ctx, &s.Lease)
	stop := context.AfterFunc(ctx, c.stop)
	go func() {
		defer close(c.done)
		defer c.cancel(nil)
		defer late()
		defer stop()
		c.err = err
		if err == nil {
			c.err = guard.Run(r.Panicked, func() (err error) {
				switch {
				case prompt != nil:
					c.out, err = r.Run(ctx, *prompt)
				case alone(&s):
					c.out, err = r.Compact(ctx)
				default:
					c.out, err = r.Resume(ctx)
				}
				return err
			})
		}
		if c.out == nil {
			c.out = &agent.Outcome{Status: agent.StatusOf(c.err), Agent: c.runner.root().agent.Slug}
		}
		c.finish()
	}()
	return c
}

// prepare applies s to the runner.
func (c *Channel) prepare(ctx context.Context, s agent.Start) (prompt *agent.Message, err error) {
	r := c.runner
	if r.Agent == nil {
		return nil, errNoAgent
	}
	if s.Channel != 0 && s.Channel != agent.ChannelVersion {
		return nil, fmt.Errorf("version %d of the channel is not supported; %d is", s.Channel, agent.ChannelVersion)
	}
	above := 0
	if r.From != nil {
		above = r.From.Depth
	}
	if len(s.History) > 0 {
		b, err := rebuild(s.History)
		if err != nil {
			return nil, fmt.Errorf("read the history: %w", err)
		}
		r.From, _ = b.Resume()
		r.From.spent(s.Spent)
	}
	if s.Session != "" && (r.From == nil || r.From.Session == nil || r.From.Session.ID != s.Session) {
		return nil, fmt.Errorf("there is no session %.100q to continue", s.Session)
	}
	if n := s.Lease.Processes; n != nil && *n < 1 {
		return nil, fmt.Errorf("lease: processes is %d; at least 1 is needed", *n)
	}
	own := r.Lease.Seconds
	r.Lease = r.Lease.Shrink(s.Lease)
	r.Lease.Seconds = own // those of the holder end the context
	if r.From == nil {
		r.From = &Resume{}
	}
	r.From.Depth = above
	r.From.Traceparent = cmp.Or(s.Lease.Traceparent, r.From.Traceparent)
	if hasContext(s.Context) {
		r.Context = s.Context
	}
	if err := r.Shape(s.OutputSchema); err != nil {
		return nil, err
	}
	if s.Journal {
		c.patience = ackTime
		detached, _ := seconds(s.Lease.DetachedSeconds)
		c.patience += detached
		r.Journal = acks{c}
	}
	r.caller = c.ask
	if s.Accept {
		r.Accept = c.askAccept
	}
	if s.Person == nil || *s.Person {
		r.Person = func(ctx context.Context, question agent.Event) (json.RawMessage, error) {
			return c.ask(ctx, question, nil)
		}
	}
	if err := c.addTools(s.Tools); err != nil {
		return nil, err
	}
	return c.prompt(ctx, s)
}

// rebuild applies the events of a history, whose sessions must be at their places: the first
// at the top, and each other one below a session before it.
func rebuild(history []agent.Event) (*Rebuilder, error) {
	var b Rebuilder
	depths := map[string]int{"": -1}
	for _, e := range history {
		if _, begun := depths[e.Session]; e.Kind.Lasting() && (!begun || e.Session == "") {
			above, ok := depths[agent.CallSession(e.Parent)]
			if e.Session == "" || !ok || e.Depth != above+1 || (len(depths) == 1) != (e.Parent == "") {
				return nil, fmt.Errorf("session %.100q is neither at the top nor below one that has begun", e.Session)
			}
			depths[e.Session] = e.Depth
		}
		if err := b.Apply(e); err != nil {
			return nil, err
		}
	}
	return &b, nil
}

// Shape sets the schema that the answer must satisfy, unless schema is empty or null.
func (r *Runner) Shape(schema json.RawMessage) error {
	switch {
	case !hasContext(schema):
		return nil
	case r.Output == nil:
		return errors.New("outputSchema: this program cannot check answers")
	}
	out, err := r.Output(schema)
	if err != nil {
		return fmt.Errorf("outputSchema: %w", err)
	}
	a := *r.Agent
	a.OutputSchema, r.Agent = out, &a
	return nil
}

// alone reports whether the run only shortens the conversation.
func alone(s *agent.Start) bool { return s.Compact && !prompts(s) }

func prompts(s *agent.Start) bool { return len(s.Args)+len(s.Media) > 0 || s.Message != nil }

// spent replaces what sessions have consumed.
func (r *Resume) spent(spent map[string]agent.TotalUsage) {
	if total, ok := spent[r.Session.ID]; ok && r.Session.Unfinished() {
		r.Total = total
	}
	for key, p := range r.Pending {
		if total, ok := spent[p.Session.ID]; ok {
			p.Total = total
			r.Pending[key] = p
		}
	}
}

// prompt returns the message that begins the run, nil if the session's last run is
// resumed. A prompt with a History is one that the holder has sent before.
func (c *Channel) prompt(ctx context.Context, s agent.Start) (*agent.Message, error) {
	switch {
	case alone(&s):
		return nil, nil
	case s.Compact:
		c.Direct(agent.Directive{Compact: true})
	}
	again := !prompts(&s) || len(s.History) > 0 || s.Finish != nil
	if from := c.runner.From; again && from != nil && from.Session != nil && from.Session.Unfinished() {
		if s.Finish != nil && len(s.Finish.Parts) > 0 {
			c.Input(*s.Finish)
		}
		return nil, nil
	}
	m, err := s.Prompt(ctx, c.runner.Agent)
	if err != nil {
		return nil, err
	}
	return &m, nil
}

// put adds an event to the queue. It waits while the queue is full.
func (c *Channel) put(e agent.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) >= maxQueued && !c.drop && !c.stopped {
		c.changed.Wait()
	}
	c.add(e)
}

// add numbers an event and adds it. c.mu is held.
func (c *Channel) add(e agent.Event) {
	if c.over {
		return
	}
	c.seq++
	e.Seq = c.seq
	switch e.Kind {
	case agent.EventCallStarted:
		c.starts[e.Key] = e.Seq
	case agent.EventCallEnded:
		delete(c.starts, e.Key)
	}
	c.over = e.Kind == agent.EventEnd && e.Depth == 0
	if !c.drop {
		c.queue = append(c.queue, e)
	}
	c.changed.Broadcast()
}

// stop ends all waits for the holder.
func (c *Channel) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.changed.Broadcast()
}

// finish adds the end event if the run ended without one.
func (c *Channel) finish() {
	c.stop()
	c.mu.Lock()
	over := c.over
	c.mu.Unlock()
	if over {
		return
	}
	e := agent.Event{Kind: agent.EventEnd, Time: time.Now(), Session: c.out.Session, Agent: c.out.Agent, Status: c.out.Status, Total: &c.out.Total}
	if c.err != nil {
		e.Status, e.Error = agent.StatusOf(c.err), c.err.Error()
	}
	if redact := RedactEvent(c.runner.Secrets); redact != nil {
		e = redact(e)
	}
	c.put(e)
}

// Events yields the events of the run and its sub-agents, with Seq from 1. The last one has
// Kind EventEnd and Depth 0. Only one goroutine may read at a time; it may
// stop and continue later. The run waits for a slow reader.
func (c *Channel) Events() iter.Seq[agent.Event] {
	return func(yield func(agent.Event) bool) {
		for {
			c.mu.Lock()
			for len(c.queue) == 0 && !c.over {
				c.changed.Wait()
			}
			if len(c.queue) == 0 {
				c.mu.Unlock()
				return
			}
			e := c.queue[0]
			c.queue = c.queue[1:]
			c.changed.Broadcast()
			c.mu.Unlock()
			if !yield(e) {
				return
			}
		}
	}
}

// Wait waits until the run ends and returns what Run would return. Events that were not
// read are dropped.
func (c *Channel) Wait() (*agent.Outcome, error) {
	c.mu.Lock()
	c.drop, c.queue = true, nil
	c.changed.Broadcast()
	c.mu.Unlock()
	<-c.done
	return c.out, c.err
}

// Session is the conversation. It must not be used before the run has ended.
func (c *Channel) Session() *agent.Session { return c.runner.Session() }

// Done is closed when the run has ended. Events may still be in the queue.
func (c *Channel) Done() <-chan struct{} { return c.done }

// Input sends a message of the user during the run. The model sees it with the next
// request. After the run has ended, it does nothing.
func (c *Channel) Input(m agent.Message) { c.runner.Input(m) }

// Reply answers the question with the given id; see EventQuestion. With an empty answer,
// the question counts as not answered.
func (c *Channel) Reply(question string, answer json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.replies[question]; r != nil {
		r.answer <- answer
		delete(c.replies, question)
	}
}

// Delta sends a piece of the answer to a question "model". It never waits.
func (c *Channel) Delta(question string, d agent.Delta) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.replies[question]
	if r == nil || r.more == nil {
		return
	}
	r.deltas = append(r.deltas, d)
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// Result sends the result of a call of one of the holder's tools; see EventClientCall.
func (c *Channel) Result(key string, parts []agent.Part, failed bool) {
	if !c.result(key, clientResult{agent.Result{Parts: parts}, failed}) {
		c.Warn(fmt.Sprintf("a result is ignored: no call with the key %.100q waits for one", key))
	}
}

// result reports whether a call waits for r.
func (c *Channel) result(key string, r clientResult) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := c.results[key]
	if ch != nil {
		ch <- r
		delete(c.results, key)
	}
	return ch != nil
}

// Ack acknowledges that the holder has stored all events up to seq.
func (c *Channel) Ack(seq int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked = max(c.acked, min(seq, c.seq))
	c.changed.Broadcast()
}

// Warn adds a warning to the events. It never waits: while the queue is full, the
// warning is dropped.
func (c *Channel) Warn(text string) {
	e := agent.Event{Kind: agent.EventWarning, Time: time.Now(), Agent: c.runner.root().agent.Slug, Text: text}
	if redact := RedactEvent(c.runner.Secrets); redact != nil {
		e = redact(e)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) < maxQueued {
		c.add(e)
	}
}

// Cancel ends the run; its status is interrupted.
func (c *Channel) Cancel(reason string) {
	if reason == "" {
		reason = "cancelled"
	}
	c.cancel(&agent.EndError{Status: agent.StatusInterrupted, Text: fmt.Sprintf("%.500s", reason)})
}

// ask is the Runner's caller, and answers its Person too.
func (c *Channel) ask(ctx context.Context, question agent.Event, delta func(agent.Delta)) (json.RawMessage, error) {
	r := &reply{answer: make(chan json.RawMessage, 1)}
	if delta != nil {
		r.more = make(chan struct{}, 1)
	}
	pieces := func() {
		c.mu.Lock()
		list := r.deltas
		r.deltas = nil
		c.mu.Unlock()
		for _, d := range list {
			delta(d)
		}
	}
	c.mu.Lock()
	c.replies[question.Question] = r
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.replies, question.Question)
	}()
	c.runner.root().observe(question)
	for {
		select {
		case <-r.more:
			pieces()
		case answer := <-r.answer:
			pieces()
			if len(answer) == 0 || string(answer) == "null" {
				return nil, agent.ErrNobody
			}
			return answer, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
