package serve

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/agents-exe/agents/pkg/runner"
)

// places limits the number of runs in progress; further runs wait in a queue.
type places struct {
	queue int           // how many runs of one token may wait
	wait  time.Duration // how long

	mu      sync.Mutex
	free    int
	line    []*waiter // the first comes next
	taken   int
	runs    map[*runner.Channel]bool // in progress; false: it waits for its client, without a place
	refused int
	closed  bool
}

type waiter struct {
	client *client
	turn   chan struct{} // closed when it has a place, or never will
	err    error         // why it has none
}

// take waits for a place of c, and if it is patient, as long as it takes. give must follow
// unless there is an error.
func (p *places) take(ctx context.Context, c *client, patient bool) error {
	p.mu.Lock()
	w := &waiter{client: c, turn: make(chan struct{})}
	switch {
	case p.closed:
		p.mu.Unlock()
		return errDraining
	case c.waiting >= p.queue && !p.mayRun(c) && !patient:
		text := fmt.Sprintf("%d runs are in progress and %d of this token wait", p.taken, c.waiting)
		p.refused++
		p.mu.Unlock()
		return &Error{Status: http.StatusTooManyRequests, Text: text, Retry: 5 * time.Second}
	}
	p.line = append(p.line, w)
	c.waiting++
	p.next()
	p.mu.Unlock()
	late := time.NewTimer(p.wait)
	defer late.Stop()
	if patient {
		late.Stop()
	}
	var err error
	select {
	case <-w.turn:
		return w.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-late.C:
		err = &Error{Status: http.StatusTooManyRequests, Text: fmt.Sprintf("no run has ended within %s", p.wait), Retry: 5 * time.Second}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.line, w); i >= 0 {
		p.line = slices.Delete(p.line, i, i+1)
		c.waiting--
		if ctx.Err() == nil {
			p.refused++
		}
		return err
	}
	return w.err // its turn came at the last moment
}

// mayRun reports whether c may have a place now. p.mu is held.
func (p *places) mayRun(c *client) bool { return p.free > 0 && c.running < c.Runs }

// next gives free places to the next waiters. p.mu is held.
func (p *places) next() {
	for i := 0; i < len(p.line) && p.free > 0; {
		w := p.line[i]
		if !p.mayRun(w.client) {
			i++
			continue
		}
		p.line = slices.Delete(p.line, i, i+1)
		p.free--
		p.taken++
		w.client.waiting--
		w.client.running++
		close(w.turn)
	}
}

func (p *places) give(c *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.vacate(c)
}

// vacate is give. p.mu is held.
func (p *places) vacate(c *client) {
	p.free++
	p.taken--
	c.running--
	p.next()
}

// begun notes a run that has a place.
func (p *places) begun(run *runner.Channel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs[run] = true
}

// Pause gives back the place of a run that waits for its client.
func (c *client) Pause(run *runner.Channel) {
	p := &c.server.places
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs[run] {
		p.runs[run] = false
		p.vacate(c)
	}
}

// Unpause waits for a place for such a run. It returns at once if the run has ended, or
// another call has unpaused it.
func (c *client) Unpause(ctx context.Context, run *runner.Channel) error {
	p := &c.server.places
	if err := p.take(ctx, c, false); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if has, going := p.runs[run]; has || !going {
		p.vacate(c)
		return nil
	}
	p.runs[run] = true
	return nil
}

// ended gives back the place of a run, if it has one.
func (p *places) ended(c *client, run *runner.Channel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs[run] {
		p.vacate(c)
	}
	delete(p.runs, run)
}

func (p *places) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, w := range p.line {
		w.client.waiting--
		w.err = errDraining
		close(w.turn)
	}
	p.line = nil
}

// Agents implements runner.Starter: those of the token.
func (c *client) Agents() []agent.ToolSpec {
	var list []agent.ToolSpec
	for _, spec := range c.server.opts.Host.Agents() {
		if c.permits(spec.Name) {
			list = append(list, spec)
		}
	}
	return list
}

// known returns why c may not start an agent, nil if it may.
func (c *client) known(slug string) *Error {
	switch {
	case !c.permits(slug):
		return &Error{Status: http.StatusForbidden, Text: fmt.Sprintf("this token is not for the agent %.100q", slug)}
	case !slices.ContainsFunc(c.server.opts.Host.Agents(), func(a agent.ToolSpec) bool { return a.Name == slug }):
		return &Error{Status: http.StatusNotFound, Text: fmt.Sprintf("there is no agent %.100q", slug)}
	}
	return nil
}

// Start implements runner.Starter: it waits for a place. Errors of type *Error say how to answer.
func (c *client) Start(ctx context.Context, slug string, start agent.Start) (*runner.Channel, error) {
	return c.start(startCall{ctx, ctx, slug, start, false})
}

// A startCall is a run to start: it waits for a place as long as wait lasts, and ends with
// ctx.
type startCall struct {
	wait, ctx context.Context
	slug      string
	start     agent.Start
	patient   bool
}

func (c *client) start(q startCall) (*runner.Channel, error) {
	if err := c.known(q.slug); err != nil {
		return nil, err
	}
	s := c.server
	if err := s.places.take(q.wait, c, q.patient); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(c.own(q.ctx))
	if !s.begin(&cancel) {
		s.places.give(c)
		cancel(nil)
		return nil, errDraining
	}
	var ch *runner.Channel
	err := guard.Run(s.opts.Warn, func() (err error) {
		ch, err = s.opts.Host.Start(ctx, q.slug, q.start)
		return err
	})
	if err != nil {
		s.places.give(c)
		s.finish(&cancel)
		return nil, err
	}
	s.places.begun(ch)
	go func() {
		<-ch.Done()
		s.places.ended(c, ch)
		s.finish(&cancel)
	}()
	return ch, nil
}

// tokenKey is the key of the client in the context of a run.
type tokenKey struct{}

func (c *client) own(ctx context.Context) context.Context {
	return context.WithValue(ctx, tokenKey{}, c)
}

// Owner returns Token.Owner of the token of a run: ctx is that of Options.Host.Start or of
// Options.Journal.
func Owner(ctx context.Context) string {
	if c, ok := ctx.Value(tokenKey{}).(*client); ok {
		return c.Owner
	}
	return ""
}

// TokenName returns the name of the token that a run is started with: ctx is that of
// Options.Host.Start.
func TokenName(ctx context.Context) string {
	if c, ok := ctx.Value(tokenKey{}).(*client); ok {
		return c.Name
	}
	return ""
}

// begin counts a run; false means that the server is ending.
func (s *Server) begin(cancel *context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.runs[cancel] = true
	s.busy.Add(1)
	return true
}

func (s *Server) finish(cancel *context.CancelCauseFunc) {
	(*cancel)(nil)
	s.mu.Lock()
	delete(s.runs, cancel)
	s.mu.Unlock()
	s.busy.Done()
}
