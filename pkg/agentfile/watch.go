package agentfile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/source/exectool"
)

// A watched is the set of an agent's executables that are read again before a turn if they
// have changed since the previous turn. With a lock, or in a tree that had to be trusted,
// none is read again, and those that differ are reported.
type watched struct {
	l *loader
	n *Node

	mu    sync.Mutex
	stamp string
	tools []agent.Tool
	err   error // what is left out; nil until something has changed
}

// watch returns the executables of n, or nil if the file of n does not
// request to watch them.
func (l *loader) watch(n *Node) *watched {
	set := n.executables.set
	if !n.File.Spec.Watch || set == nil {
		return nil
	}
	w := &watched{l: l, n: n, stamp: n.executables.stamp}
	w.use(set)
	w.err = nil // the problems of the tree have it
	return w
}

// errExposed explains why changed executables are ignored.
var errExposed = errors.New(`executables have changed, and are not read again before the next start: on this machine a sandboxed tool could have changed them, although its "write" does not name them`)

func (w *watched) use(set *exectool.Toolset) {
	w.tools, w.err = nil, nil
	for _, t := range set.List() {
		if t.Agent() == "" {
			w.tools = append(w.tools, schema.Checked(w.l.locked(t)))
		}
	}
	for _, p := range set.Problems() {
		if !errors.Is(p.Err, exectool.ErrNotExecutable) {
			w.err = errors.Join(w.err, fmt.Errorf("left out: %w", p.Err))
		}
	}
}

// Tools returns the current tools. An executable that does not describe itself is tried again
// when something changes.
func (w *watched) Tools(ctx context.Context) ([]agent.Tool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stamp := exectool.Stamp(w.n.permitted())
	switch {
	case stamp == w.stamp:
	case len(w.l.against) > 0:
		w.stamp, w.err = stamp, w.refused()
	case w.l.exposed(w.n):
		w.stamp, w.err = stamp, errExposed
	default:
		set := w.l.openPrograms(ctx, w.n)
		if set == nil {
			return nil, context.Cause(ctx)
		}
		set.Protect(append(slices.Clip(*w.l.paths.Load()), set.Files()...))
		w.stamp = stamp
		w.use(set)
	}
	return w.tools, w.err
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
