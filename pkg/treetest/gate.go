package treetest

import (
	"context"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
)

// A gate lets the calls of an answer begin together: each waits until all others
// that the agent's limit permits have begun as well. So which calls overlap
// follows from the agent and the answers, and not from how fast a call ends.
type gate struct {
	limits map[string]int // of calls at the same time, by the agent's slug

	mu      sync.Mutex
	batches map[turn]*batch
}

// A turn is an answer of a session.
type turn struct {
	session string
	n       int
}

// A batch is the calls of one answer.
type batch struct {
	calls, limit int
	begun, ended int
	started      map[string]bool // by call id
	changed      chan struct{}   // closed when begun or ended has changed
}

// note takes in an event of the run.
func (g *gate) note(e *agent.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := turn{e.Session, e.Turn}
	b := g.batches[at]
	switch {
	case e.Kind == agent.EventAnswer && len(e.Message.Calls) > 0:
		limit := g.limits[e.Agent]
		if limit == 0 {
			limit = agent.DefaultMaxParallelTools
		}
		if g.batches == nil {
			g.batches = map[turn]*batch{}
		}
		g.batches[at] = &batch{calls: len(e.Message.Calls), limit: limit, started: map[string]bool{}, changed: make(chan struct{})}
	case b == nil:
	case e.Kind == agent.EventCallStarted:
		b.started[e.CallID] = true
		b.begun++
		b.wake()
	case e.Kind == agent.EventCallEnded:
		if !b.started[e.CallID] { // it was answered without running
			b.begun++
		}
		b.ended++
		b.wake()
	}
}

func (b *batch) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// enter waits until the others of inv's answer have begun, or until ctx ends.
func (g *gate) enter(ctx context.Context, inv *agent.Invocation) error {
	for {
		g.mu.Lock()
		b := g.batches[turn{inv.Session, inv.Turn}]
		if b == nil || b.begun >= min(b.calls, b.limit+b.ended) {
			g.mu.Unlock()
			return nil
		}
		changed := b.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
