package agentfile

import (
	"context"
	"encoding/json"

	"golang.org/x/sync/errgroup"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/redact"
)

// A source brings an agent tools, text for its model, or programs that decide about its
// calls. All that is known about a kind of sources is in a file of its own, and in a line of
// kinds. A source may also be a fetcher, a describer or a closer.
//
// Sources are read, surveyed and compared with a lock before anything is executed. Then all
// are fetched, confined, described and opened, in this order.
type source interface {
	// survey adds what decides what the source executes to a lock.
	survey(s *surveyor, n *Node)
	// files returns the files and folders that decide what it executes, which no tool may
	// write. It is called at any time after reading, also concurrently.
	files() []string
	// open returns its tools, as experts if they are agents. What it has besides it adds to n:
	// sandboxes, live toolsets, and who must know the protected files.
	open(l *loader, n *Node) []agent.Tool
}

// A fetcher gets from elsewhere what decides which tools it has. fetch is called concurrently
// with those of other sources, fetched after all of them.
type fetcher interface {
	fetch(ctx context.Context, l *loader)
	fetched(l *loader, n *Node)
}

// A describer asks its tools what they do. describe is called concurrently with those of
// other sources.
type describer interface {
	describe(ctx context.Context, l *loader, n *Node)
	far() bool // another side answers, which may take long
}

// A closer ends the processes of a source.
type closer interface{ close() error }

// A kind reads its part of the file of n and adds sources to n.
type kind func(l *loader, n *Node)

// kinds returns the kinds of sources. The tools of an agent have this order, and of several
// kinds that a file has in a lock the first counts.
func kinds() []kind {
	return []kind{
		(*loader).steps,
		(*loader).expected,
		(*loader).executables,
		(*loader).extraAgents,
		(*loader).mcpServers,
		(*loader).webServices,
		(*loader).builtins, // their names must differ from those of MCP servers
		(*loader).skills,
	}
}

// passive has the methods of a source that does nothing.
type passive struct{}

func (passive) survey(*surveyor, *Node)          {}
func (passive) files() []string                  { return nil }
func (passive) open(*loader, *Node) []agent.Tool { return nil }

// add adds a source to n.
func (n *Node) add(s source) { n.sources = append(n.sources, s) }

// sourcesOf returns the sources of n that are a T.
func sourcesOf[T any](n *Node) (list []T) {
	for _, s := range n.sources {
		if s, ok := s.(T); ok {
			list = append(list, s)
		}
	}
	return list
}

// each calls do for every source of the tree that is a T.
func each[T any](t *Tree, do func(n *Node, s T)) {
	for _, n := range t.Nodes {
		for _, s := range n.sources {
			if s, ok := s.(T); ok {
				do(n, s)
			}
		}
	}
}

// Part reads a key of the contents of f into to, if it is there. The schema has checked the
// value, unless the file has other problems.
func (f *File) Part(key string, to any) {
	if value := f.keys[key]; value != nil {
		text, _ := json.Marshal(value) // it came from JSON
		_ = json.Unmarshal(text, to)
	}
}

// build opens what was read. All sources are described at the same time.
func (l *loader) build(ctx context.Context) {
	l.fetchKeys(ctx)
	l.redact = redact.New(l.tree.Secrets())
	var fetching errgroup.Group
	each(l.tree, func(_ *Node, f fetcher) { fetching.Go(func() error { f.fetch(ctx, l); return nil }) })
	fetching.Wait() // no function fails
	each(l.tree, func(n *Node, f fetcher) { f.fetched(l, n) })
	l.confine()
	var near, far errgroup.Group
	near.SetLimit(8)
	for _, group := range []*errgroup.Group{&far, &near} { // the calls of Go for near wait
		each(l.tree, func(n *Node, d describer) {
			if d.far() == (group == &far) {
				group.Go(func() error { d.describe(ctx, l, n); return nil })
			}
		})
	}
	near.Wait() // as above
	far.Wait()
	for _, n := range l.tree.Nodes {
		l.grant(n)
		l.equip(n)
		l.sandboxNames(n)
	}
	l.markWorkplaces()
	l.protect()
}

// Close ends every process that the tree's sources started, and those that keep the
// namespaces of its sandboxes.
func (t *Tree) Close() error {
	var g errgroup.Group
	each(t, func(_ *Node, c closer) { g.Go(c.close) })
	err := g.Wait()
	if t.ladder != nil {
		t.ladder.Close()
	}
	return err
}

// A protectable is a toolset whose tools must know which files decide what is executed.
type protectable interface{ Protect(paths []string) }

// protect tells all tools which files decide what is executed.
func (l *loader) protect() {
	var told []protectable
	for _, n := range l.tree.Nodes {
		told = append(told, n.protected...)
	}
	if len(told) == 0 && !l.confined() {
		return
	}
	paths := l.decisive()
	l.paths.Store(&paths)
	for _, s := range told {
		s.Protect(paths)
	}
}
