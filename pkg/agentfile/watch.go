package agentfile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/exectool"
	"github.com/agents-exe/agents/pkg/schema"
)

// A watched is the executables of an agent that are read again before a turn if they have
// changed since the turn before. With a lock, or where the tree must be what was trusted,
// none is read again, and those that differ are reported.
type watched struct {
	l *loader
	n *Node

	mu       sync.Mutex
	stamp    string
	tools    map[string]agent.ToolList // by toolgroup
	err      error                     // what is left out since the agent was loaded
	reported map[string]bool           // what was left out then
}

// watch returns the executables of n, which are in set, if n's file says that they are
// watched, else nil.
func (l *loader) watch(n *Node, set *exectool.Toolset) *watched {
	if !n.File.Spec.Watch || set == nil {
		return nil
	}
	w := &watched{l: l, n: n, stamp: n.stamp, reported: map[string]bool{}}
	for _, p := range set.Problems() {
		w.reported[p.Err.Error()] = true
	}
	w.use(set)
	return w
}

func (w *watched) use(set *exectool.Toolset) {
	w.tools, w.err = map[string]agent.ToolList{}, nil
	for _, t := range set.List() {
		if group := t.Source().Toolgroup; t.Agent() == "" {
			w.tools[group] = append(w.tools[group], schema.Checked(w.l.locked(t)))
		}
	}
	for _, p := range set.Problems() {
		if !w.reported[p.Err.Error()] && !errors.Is(p.Err, exectool.ErrNotExecutable) {
			w.err = errors.Join(w.err, fmt.Errorf("left out: %w", p.Err))
		}
	}
}

// of returns the tools of a toolgroup as they are now. A tool that does not describe itself
// is described again when it changes.
func (w *watched) of(ctx context.Context, group string) ([]agent.Tool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stamp := exectool.Stamp(w.n.permitted())
	switch {
	case stamp == w.stamp:
	case len(w.l.against) > 0:
		w.stamp, w.err = stamp, w.refused()
	default:
		set := w.l.executables(ctx, w.n)
		if set == nil {
			return nil, context.Cause(ctx)
		}
		set.Protect(append(slices.Clip(w.l.paths), set.Files()...))
		w.stamp = stamp
		w.use(set)
	}
	return w.tools[group], w.err
}

// refused says which executables differ from a lock or from what was trusted.
func (w *watched) refused() (err error) {
	for _, file := range exectool.Executables(w.n.permitted()) {
		for _, b := range w.l.against {
			if was := b.lock.Files[relative(b.dir, file)].Digest; was == "" || exectool.Digest(file) != was {
				err = errors.Join(err, fmt.Errorf("%s differs from %s and is not loaded", named(file), b.name))
			}
		}
	}
	return err
}

// A watchedGroup is the tools of a toolgroup, or with "" those without one.
type watchedGroup struct {
	*watched
	group string
}

// Tools implements agent.Toolset.
func (g watchedGroup) Tools(ctx context.Context) ([]agent.Tool, error) { return g.of(ctx, g.group) }
