package agent

import (
	"context"
	"errors"
	"sync"
)

// background is what the calls of a run have started beyond their end, and what they keep.
type background struct {
	mu      sync.Mutex
	cancel  context.CancelFunc // nil while nothing was started
	ctx     context.Context
	tasks   sync.WaitGroup
	notices []Message
	arrived chan struct{} // closed when there is a notice; nil while nothing waits for that
	states  map[any]any
}

// Background runs f beyond the end of the call: until f returns, or until the run of the
// agent that makes the call ends. Then the ctx of f ends, and the run waits for f. A text
// that f returns is a message for the model, which it sees with its next request; ""
// is none. ctx is that of the call. Outside a run nothing is started, which is an error.
func (inv *Invocation) Background(ctx context.Context, f func(ctx context.Context) (notice string)) error {
	if inv.run == nil {
		return errors.New("this call is not part of a run")
	}
	b := &inv.run.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancel == nil {
		b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	}
	inside, t := b.ctx, inv.run.tree
	b.tasks.Go(func() {
		notice := ""
		_ = t.guard(func() error { notice = f(inside); return nil }) // the run ends by itself
		b.mu.Lock()
		defer b.mu.Unlock()
		if notice != "" && inside.Err() == nil {
			b.notices = append(b.notices, UserText(notice))
			if b.arrived != nil {
				close(b.arrived)
				b.arrived = nil
			}
		}
	})
	return nil
}

// State returns what the run of the agent that makes the call keeps under key: what create
// returned for the first call. It is gone when the run ends. Outside a run it is new each
// time.
func (inv *Invocation) State(key any, create func() any) any {
	if inv.run == nil {
		return create()
	}
	b := &inv.run.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.states == nil {
		b.states = map[any]any{}
	}
	if b.states[key] == nil {
		b.states[key] = create()
	}
	return b.states[key]
}

// AwaitNotice waits until a text of Background waits for the model, or ctx ends.
func (inv *Invocation) AwaitNotice(ctx context.Context) {
	if inv.run == nil {
		return
	}
	b := &inv.run.background
	b.mu.Lock()
	if len(b.notices) > 0 {
		b.mu.Unlock()
		return
	}
	if b.arrived == nil {
		b.arrived = make(chan struct{})
	}
	arrived := b.arrived
	b.mu.Unlock()
	select {
	case <-arrived:
	case <-ctx.Done():
	}
}

// notice takes the next message of what runs in the background, if the model is about to
// be asked.
func (b *background) notice(step Step) (Message, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if step.Kind != StepModel || len(b.notices) == 0 {
		return Message{}, false
	}
	m := b.notices[0]
	b.notices = b.notices[1:]
	return m, true
}

// end ends what runs in the background and waits for it. The next run has nothing of it.
func (b *background) end() {
	b.mu.Lock()
	cancel := b.cancel
	b.mu.Unlock()
	if cancel != nil {
		cancel()
		b.tasks.Wait()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancel, b.notices, b.states = nil, nil, nil
}
