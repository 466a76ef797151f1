package openaiapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/guard"
)

// waitTime is how long a run waits for the results of the client's tools. It is less than
// the time limit of such a call.
const waitTime = 4 * time.Minute

// options are what a request asks of its run.
type options struct {
	tools  []agent.ToolSpec // of the client
	forced []agent.ToolSpec // the answer is a call of one of them
	shape  json.RawMessage  // the schema of the answer
	stops  []string
	single bool // one call per response

	compact bool // the run only shortens the conversation
}

// open continues the run that waits for the results in t, or starts one.
func (h *Handler) open(r *http.Request, t *thread, spec agent.ToolSpec, o options) (*heldRun, error) {
	s, err := t.start(spec, o)
	if err != nil {
		return nil, err
	}
	s.OutputSchema = o.shape
	s.Lease.Traceparent = r.Header.Get("Traceparent")
	c, err := h.resume(r.Context(), t, spec.Name, o)
	if c != nil {
		c.single, c.stops = o.single, o.stops
	}
	if c != nil || err != nil {
		return c, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	id := h.newID()
	for i := range s.History {
		s.History[i].Session = id
	}
	c = &heldRun{cancel: cancel, events: make(chan agent.Event), gone: make(chan struct{}), slug: spec.Name,
		rebuilt: s.Args == nil && !o.compact, tools: map[string]bool{}, single: o.single, shape: o.shape, forced: o.forced, stops: o.stops, seen: map[string]bool{}}
	for _, spec := range o.tools {
		c.tools[spec.Name] = true
	}
	err = guard.Run(h.Warn, func() (err error) {
		for _, e := range s.History {
			_ = c.session.Apply(e) // what is wrong with it is the end of the run
		}
		started := context.AfterFunc(r.Context(), cancel) // it may wait in a queue
		defer started()
		c.channel, err = h.Host.Start(ctx, spec.Name, s)
		return err
	})
	if err != nil {
		cancel()
		h.runs.Done()
		return nil, err
	}
	go c.read()
	return c, nil
}

// resume passes the results in t to the run that waits for them. Without such a run it
// returns nil, and counts one that begins. A run that waits ends if its answers have another
// shape.
func (h *Handler) resume(ctx context.Context, t *thread, slug string, o options) (*heldRun, error) {
	results, said := t.answers()
	if o.compact {
		results = nil // the run that waits for them gets them in a request of its own
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c, parts, err := h.waitsFor(results, slug)
	if c != nil && !bytes.Equal(c.shape, o.shape) {
		func() {
			h.mu.Unlock()
			defer h.mu.Lock()
			h.expire(c)
		}()
		c, parts, err = h.waitsFor(results, slug)
	}
	if p, ok := h.Host.(Pauser); ok && c != nil && err == nil {
		func() {
			h.mu.Unlock()
			defer h.mu.Lock() // also for a panic: to unlock it twice would end the program
			err = p.Unpause(ctx, c.channel)
		}()
		if was := c; err == nil { // meanwhile the run may have ended, or got other results
			if c, parts, err = h.waitsFor(results, slug); err != nil && was.given != nil {
				p.Pause(was.channel)
			}
		}
	}
	switch {
	case err != nil:
		return nil, err
	case h.closed:
		return nil, stopping()
	case c == nil:
		h.runs.Add(1)
		return nil, nil
	}
	if said != nil {
		c.channel.Input(*said)
	}
	for _, g := range c.given {
		c.channel.Result(g.key, parts[g.id], false)
	}
	h.forget(c)
	return c, nil
}

// waitsFor returns the run that waits for results, nil if there is none, and their parts by
// the ids of the calls. h.mu is held.
func (h *Handler) waitsFor(results []agent.ToolResult, slug string) (c *heldRun, parts map[string][]agent.Part, err error) {
	parts = map[string][]agent.Part{}
	for _, r := range results {
		if found := h.calls[r.CallID]; found != nil && found.slug == slug {
			c, parts[r.CallID] = found, r.Parts
		}
	}
	if c == nil {
		return nil, nil, nil
	}
	for _, g := range c.given {
		if _, ok := parts[g.id]; !ok {
			return nil, nil, invalid("", "invalid_value", "the run waits for the result of the tool call %s too", g.id)
		}
	}
	if len(parts) > len(c.given) {
		return nil, nil, invalid("", "call_answered", "a result of these tool calls arrived before, and the run continues with that").as(http.StatusConflict)
	}
	return c, parts, nil
}

// wait keeps c until the results of calls arrive. The run that has waited for the longest
// time makes room.
func (h *Handler) wait(c *heldRun, calls []call) {
	h.mu.Lock()
	if h.calls == nil {
		h.calls = map[string]*heldRun{}
	}
	for _, g := range calls {
		h.calls[g.id] = c
	}
	c.given = calls
	c.late = time.AfterFunc(waitTime, func() { h.expire(c) })
	h.waiting = append(h.waiting, c)
	var over *heldRun
	if h.closed {
		over = c
	} else if len(h.waiting) > cmp.Or(h.MaxWaiting, DefaultMaxWaiting) {
		over = h.waiting[0]
	}
	h.mu.Unlock()
	if p, ok := h.Host.(Pauser); ok {
		p.Pause(c.channel)
	}
	if over != nil {
		h.expire(over)
	}
}

// expire ends a run that still waits.
func (h *Handler) expire(c *heldRun) {
	h.mu.Lock()
	waits := c.given != nil
	if waits {
		h.forget(c)
	}
	h.mu.Unlock()
	if waits {
		h.end(c, "nobody sent the results of the tools of the client")
	}
}

// forget takes c from those that wait. h.mu is held.
func (h *Handler) forget(c *heldRun) {
	c.late.Stop()
	c.given = nil
	h.waiting = slices.DeleteFunc(h.waiting, func(other *heldRun) bool { return other == c })
}

// end ends the run if it has not ended, and returns when nothing of it is left.
func (h *Handler) end(c *heldRun, reason string) {
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

func (h *Handler) newID() string {
	if h.NewID == nil {
		return rand.Text()
	}
	return h.NewID()
}
