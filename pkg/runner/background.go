package runner

import (
	"context"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
)

// background is what the calls of a run have started beyond their end, and what they keep.
type background struct {
	mu      sync.Mutex
	cancel  context.CancelFunc // nil while nothing was started
	ctx     context.Context
	tasks   sync.WaitGroup
	notices []agent.Message
	arrived chan struct{} // closed when there is a notice; nil while nothing waits for that
	states  map[any]any
}

// Background implements agent.Host.
func (r *run) Background(ctx context.Context, f func(ctx context.Context) (notice string)) {
	b := &r.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancel == nil {
		b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	}
	inside, t := b.ctx, r.tree
	b.tasks.Go(func() {
		notice := ""
		_ = t.guard(func() error { notice = f(inside); return nil }) // the run ends by itself
		b.mu.Lock()
		defer b.mu.Unlock()
		if notice != "" && inside.Err() == nil {
			b.notices = append(b.notices, agent.UserText(notice))
			if b.arrived != nil {
				close(b.arrived)
				b.arrived = nil
			}
		}
	})
}

// State implements agent.Host.
func (r *run) State(key any, create func() any) any {
	b := &r.background
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

// AwaitNotice implements agent.Host.
func (r *run) AwaitNotice(ctx context.Context) {
	b := &r.background
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
func (b *background) notice(step agent.Step) (agent.Message, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if step.Kind != agent.StepModel || len(b.notices) == 0 {
		return agent.Message{}, false
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
