package replay

import (
	"context"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
)

// A step is a session, a setup, an answer, the start or the end of a call, or an end,
// in the order of the record. What else happens follows from one of them at once.
type step struct {
	path string
	kind agent.EventKind
	at   place // of a call; of a session nothing, of others only the turn
}

// order is in which order the events of a record happened.
type order struct {
	steps []step
	index map[step]int
	of    map[string][]int // by session
}

func (o *order) add(s step) {
	if o.index == nil {
		o.index, o.of = map[step]int{}, map[string][]int{}
	}
	if _, again := o.index[s]; again {
		return // a call that another process started again
	}
	o.index[s] = len(o.steps)
	o.of[s.path] = append(o.of[s.path], len(o.steps))
	o.steps = append(o.steps, s)
}

// A conductor makes calls and sub-agents that run at the same time do so in the
// order in which they did: whatever comes next waits until all that came before it
// has happened. What a session did itself counts as happened when it gets to the
// next point: a replay that differs must not wait for what does not come.
type conductor struct {
	rec *Record

	mu    sync.Mutex
	done  []bool
	next  int                   // all before it are done
	begun map[string]int        // how much of order.of is done
	wake  map[int]chan struct{} // of those that wait for next to get there
}

func newConductor(rec *Record) *conductor {
	return &conductor{rec: rec, done: make([]bool, len(rec.order.steps)), begun: map[string]int{}, wake: map[int]chan struct{}{}}
}

// wait returns when s may happen, or ctx ends.
func (c *conductor) wait(ctx context.Context, s step) {
	if n, ok := c.rec.order.index[s]; ok {
		c.mu.Lock()
		c.arrived(s, n)
		c.mu.Unlock()
		c.until(ctx, n, nil)
	}
}

// until returns when the first n steps are done, when ctx ends or when over is
// closed.
func (c *conductor) until(ctx context.Context, n int, over <-chan struct{}) {
	c.mu.Lock()
	if c.next >= n {
		c.mu.Unlock()
		return
	}
	if c.wake[n] == nil {
		c.wake[n] = make(chan struct{})
	}
	wake := c.wake[n]
	c.mu.Unlock()
	select {
	case <-wake:
	case <-over:
	case <-ctx.Done():
	}
}

// rest returns when everything that was recorded of a session is done.
func (c *conductor) rest(ctx context.Context, path string) {
	n := 0
	for _, i := range c.rec.order.of[path] {
		n = max(n, i+1)
		if s := c.rec.order.steps[i]; s.kind == agent.EventCallStarted {
			for _, nested := range c.rec.sessions[path].calls[s.at].nested {
				for _, i := range c.rec.order.of[nested.path] {
					n = max(n, i+1)
				}
			}
		}
	}
	c.until(ctx, n, nil)
}

// happened notes that s did.
func (c *conductor) happened(s step) {
	n, ok := c.rec.order.index[s]
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrived(s, n)
	c.done[n] = true
	c.advance()
}

// arrived notes that all is done which must be done before s. c.mu is held.
func (c *conductor) arrived(s step, n int) {
	switch s.kind {
	case agent.EventCallStarted:
		return
	case agent.EventCallEnded:
		if i, ok := c.rec.order.index[step{s.path, agent.EventCallStarted, s.at}]; ok {
			c.done[i] = true
		}
		c.over(c.rec.sessions[s.path].calls[s.at])
	default:
		c.through(s.path, n)
	}
	c.advance()
}

// through notes that all events of a session before the nth step are done.
func (c *conductor) through(path string, n int) {
	list := c.rec.order.of[path]
	for c.begun[path] < len(list) && list[c.begun[path]] < n {
		i := list[c.begun[path]]
		c.begun[path]++
		c.done[i] = true
		if s := c.rec.order.steps[i]; s.kind == agent.EventCallEnded {
			c.over(c.rec.sessions[path].calls[s.at])
		}
	}
}

// over notes that the sessions of a call are over.
func (c *conductor) over(call *call) {
	if call == nil {
		return
	}
	for _, s := range call.nested {
		c.through(s.path, len(c.done))
	}
}

func (c *conductor) advance() {
	for c.next < len(c.done) && c.done[c.next] {
		c.next++
		if wake := c.wake[c.next]; wake != nil {
			close(wake)
			delete(c.wake, c.next)
		}
	}
}
