package runner

import (
	"context"
	"slices"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
)

// background is what the calls of a run have started beyond their end, and what they keep.
type background struct {
	mu      sync.Mutex
	cancel  context.CancelCauseFunc // nil while nothing was started
	ctx     context.Context
	tasks   sync.WaitGroup
	notices []agent.Directive
	arrived chan struct{} // closed when there is a notice; nil while nothing waits for that
	states  map[any]any

	agents   []*leftAgent // in the order of their calls, until the model has their answers
	reserved int          // how many places are reserved for calls that may leave their agents
}

// open returns the context of what runs in the background. b.mu is held.
func (b *background) open(ctx context.Context) context.Context {
	if b.cancel == nil {
		b.ctx, b.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	}
	return b.ctx
}

// arrive ends the waits for a notice. b.mu is held.
func (b *background) arrive() {
	if b.arrived != nil {
		close(b.arrived)
		b.arrived = nil
	}
}

// next is closed when the next notice is there. b.mu is held.
func (b *background) next() <-chan struct{} {
	if b.arrived == nil {
		b.arrived = make(chan struct{})
	}
	return b.arrived
}

// Background implements agent.CallingRun.
func (r *run) Background(ctx context.Context, f func(ctx context.Context) (notice string)) {
	b := &r.background
	b.mu.Lock()
	defer b.mu.Unlock()
	inside, t := b.open(ctx), r.tree
	b.tasks.Go(func() {
		notice := ""
		_ = t.guard(func() error { notice = f(inside); return nil }) // the run ends by itself
		b.mu.Lock()
		defer b.mu.Unlock()
		if notice != "" && inside.Err() == nil {
			m := agent.UserText(notice)
			b.notices = append(b.notices, agent.Directive{Message: &m, Notice: true})
			b.arrive()
		}
	})
}

// State implements agent.CallingRun.
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

// AwaitNotice implements agent.CallingRun.
func (r *run) AwaitNotice(ctx context.Context) {
	b := &r.background
	b.mu.Lock()
	if len(b.notices) > 0 {
		b.mu.Unlock()
		return
	}
	arrived := b.next()
	b.mu.Unlock()
	select {
	case <-arrived:
	case <-ctx.Done():
	}
}

// notice takes the next message of what runs in the background, if the model is about to be asked.
// The message of an agent is also taken before the end, which it puts off. If agents is false, the
// messages of agents are left, and if kept is true, those of agents that outlive the run: they are for
// its caller.
func (b *background) notice(step agent.Step, agents, kept bool) (agent.Directive, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.notices, func(d agent.Directive) bool {
		if d.Key != "" {
			return agents && !(kept && slices.ContainsFunc(b.agents, func(a *leftAgent) bool { return a.Key == d.Key && a.detach }))
		}
		return step.Kind == agent.StepModel
	})
	if i < 0 {
		return agent.Directive{}, false
	}
	d := b.notices[i]
	b.notices = slices.Delete(b.notices, i, i+1)
	if d.Key != "" {
		b.forget(d.Key)
	}
	return d, true
}

// of returns the agent of a call, nil if there is none.
func (b *background) of(key string) *leftAgent {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.IndexFunc(b.agents, func(a *leftAgent) bool { return a.Key == key }); i >= 0 {
		return b.agents[i]
	}
	return nil
}

// told waits until the agent of a call has ended, then drops the agent and its message: the model
// gets the one of Runner.Meanwhile instead.
func (b *background) told(ctx context.Context, key string) {
	a := b.of(key)
	if a == nil {
		return
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(key)
	b.notices = slices.DeleteFunc(b.notices, func(d agent.Directive) bool { return d.Key == key })
}

// settled waits until the agent of a call has ended, which the end of ctx stops, and returns its error.
func (b *background) settled(ctx context.Context, key string) error {
	a := b.of(key)
	if a == nil {
		return nil
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		a.stop(context.Cause(ctx))
		<-a.done
	}
	return a.err
}

var errCallerEnded = &agent.EndError{Status: agent.StatusInterrupted, Text: "its caller has ended"}

// settle ends what runs in the background before the end of the run is recorded; with wait,
// agents end by themselves before that.
func (b *background) settle(ctx context.Context, t *tree, wait bool) {
	b.mu.Lock()
	list := slices.Clone(b.agents)
	b.mu.Unlock()
	for _, a := range list {
		if wait {
			select {
			case <-a.done:
			case <-ctx.Done():
			}
		}
	}
	b.end(t)
}

// hooked waits for the hooks after agents that were stopped, which have a time limit of their own.
func (b *background) hooked(ctx context.Context) {
	b.mu.Lock()
	list := slices.Clone(b.agents)
	b.mu.Unlock()
	for _, a := range list {
		select {
		case <-a.over:
			select {
			case <-a.done:
			case <-ctx.Done():
			}
		default:
		}
	}
}

// end ends what runs in the background and waits for it. The next run has nothing of it.
func (b *background) end(t *tree) {
	b.mu.Lock()
	cancel, list := b.cancel, slices.Clone(b.agents)
	b.mu.Unlock()
	for _, a := range list { // those that could outlive the run are not of its context
		a.stop(errCallerEnded)
	}
	if cancel != nil {
		cancel(errCallerEnded)
		b.tasks.Wait()
	}
	for _, a := range list {
		if !a.elsewhere {
			<-a.done
		}
		t.mu.Lock()
		delete(t.collecting, a.Key) // nobody is told any more
		kept := t.detached[a.Key]
		delete(t.detached, a.Key)
		t.mu.Unlock()
		if kept != nil { // nobody takes over the agents that it left running
			kept.end(t)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancel, b.notices, b.states, b.agents = nil, nil, nil, nil
}
