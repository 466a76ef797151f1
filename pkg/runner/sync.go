package runner

import (
	"context"
	"fmt"

	"github.com/agents-exe/agents/pkg/agent"
)

// syncStart waits until the start of a call is stored. spec is nil if it is not known.
// The holder of a channel must acknowledge calls that must not run twice.
func (r *run) syncStart(ctx context.Context, key string, spec *agent.ToolSpec) error {
	holder, ok := r.tree.journal.(acks)
	switch {
	case !ok:
		return r.sync(ctx)
	case spec != nil && (spec.Effects == agent.EffectsNone || spec.Effects == agent.EffectsIdempotent):
		return nil
	}
	return r.syncBy(func() error { return holder.started(ctx, key) })
}

// sync makes what was recorded outlast a loss of power.
func (r *run) sync(ctx context.Context) error {
	t := r.tree
	if t.journal == nil {
		return nil
	}
	return r.syncBy(func() error { return t.journal.Sync(context.WithoutCancel(ctx)) })
}

// syncBy calls sync. After it has failed once, it returns that error.
func (r *run) syncBy(sync func() error) error {
	t := r.tree
	t.mu.Lock()
	broken := t.broken
	t.mu.Unlock()
	if broken != nil {
		return broken
	}
	err := sync()
	if err == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken == nil {
		t.broken = fmt.Errorf("%w: %w", agent.ErrJournal, err)
	}
	return t.broken
}

// syncMeanwhile syncs while the model thinks. The function that it returns must
// be called before the answer counts.
func (r *run) syncMeanwhile(ctx context.Context) (wait func() error) {
	if r.tree.journal == nil {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() { done <- r.tree.guard(func() error { return r.sync(ctx) }) }()
	return func() error { return <-done }
}
