package treetest

import (
	"cmp"
	"context"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
)

// A barrier lets the calls of an answer begin together: each waits until all others
// that the agent's limit permits have begun. So which calls overlap depends on the
// agent and the answers, and not on how fast a call ends.
type barrier struct {
	limits map[string]int // of calls at the same time, by the agent's slug

	mu      sync.Mutex
	changed *sync.Cond
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
}

func newBarrier() *barrier {
	b := &barrier{limits: map[string]int{}, batches: map[turn]*batch{}}
	b.changed = sync.NewCond(&b.mu)
	return b
}

func (b *barrier) observe(e *agent.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := turn{e.Session, e.Turn}
	batched := b.batches[at]
	switch {
	case e.Kind == agent.EventAnswer && len(e.Message.Calls) > 0:
		limit := cmp.Or(b.limits[e.Agent], agent.DefaultMaxParallelTools)
		b.batches[at] = &batch{calls: len(e.Message.Calls), limit: limit, started: map[string]bool{}}
	case batched == nil:
	case e.Kind == agent.EventCallStarted:
		batched.started[e.CallID] = true
		batched.begun++
		b.changed.Broadcast()
	case e.Kind == agent.EventCallEnded:
		if !batched.started[e.CallID] { // it was answered without running
			batched.begun++
		}
		batched.ended++
		b.changed.Broadcast()
	}
}

// wait waits until the other calls of inv's answer have begun, or until ctx ends.
func (b *barrier) wait(ctx context.Context, inv *agent.Invocation) error {
	stop := context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.changed.Broadcast()
	})
	defer stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	batch := b.batches[turn{inv.Session, inv.Turn}]
	for batch != nil && batch.begun < min(batch.calls, batch.limit+batch.ended) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b.changed.Wait()
	}
	return nil
}
