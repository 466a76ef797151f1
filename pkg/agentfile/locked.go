package agentfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/source/exectool"
	"github.com/agents-exe/agents/pkg/source/mcpclient"
	"golang.org/x/sync/errgroup"
)

// readLock reads the lock file beside the root agent file at path, with which the tree
// is compared from now on.
func (l *loader) readLock(path string) {
	var err error
	if l.lock, err = ReadLock(path); err != nil {
		file := filepath.Join(filepath.Dir(path), LockName)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("the tree must be locked, but there is no lock of %s", named(path))
		}
		l.report(Problem{Severity: Fatal, Code: CodeLock, File: file, Message: plain(err)})
		l.lock = &Lock{} // nothing is executed
		return
	}
	b := baseline{lock: l.lock, dir: folderOf(path), name: LockName, path: true}
	for file, f := range l.taken { // before it was known that there is a lock
		l.refused = l.refused || l.lock.Files[relative(b.dir, file)].Digest != f.Digest
	}
	l.against = append(l.against, b)
}

// compare compares the files of the tree with every baseline, before anything is
// executed. If the tree is unusable for another reason, that reason is the error.
func (l *loader) compare(path string) error {
	if len(l.against) == 0 && l.lock == nil {
		return nil
	}
	if err := loadError(l.tree.Problems); err != nil && !l.refused {
		l.tree.sortProblems()
		l.tree.Root = nil
		return err
	}
	for _, b := range l.against {
		now := l.survey(b.dir)
		if l.refused || b.more {
			now.complete(b)
		}
		if changes := difference(b.lock.files(b.path), now.files(b.path), nil); len(changes) > 0 {
			l.tree.Root = nil
			return &DriftError{File: path, Against: b.name, Changes: changes}
		}
	}
	return nil
}

// complete adds what was not reached because a file was refused, as it is now.
func (l *Lock) complete(b baseline) {
	for path, f := range b.lock.Files {
		if _, known := l.Files[path]; known {
			continue
		}
		abs := path
		if !filepath.IsAbs(path) {
			abs = filepath.Join(b.dir, path)
		}
		if f.Digest = exectool.Digest(abs); f.Digest != "" {
			l.Files[path] = f
		}
	}
	for name, digest := range b.lock.Programs {
		l.Programs[name] = cmp.Or(l.Programs[name], digest)
	}
}

// compareTools compares what tools and MCP servers say of themselves with the lock. A
// server that does not answer, or that starts only when the model activates its toolgroup,
// is compared when it does.
func (l *loader) compareTools(ctx context.Context, path string) error {
	if l.lock == nil {
		return nil
	}
	dir := folderOf(path)
	now := l.survey(dir)
	for _, n := range l.tree.Nodes {
		n.describe(now, dir)
	}
	changes := difference(l.lock.files(true), now.files(true), nil) // it may have changed since compare
	changes = append(changes, difference(l.lock.descriptions(), now.descriptions(), nil)...)
	var mu sync.Mutex
	var g errgroup.Group
	for _, n := range l.tree.Nodes {
		for _, s := range n.servers() {
			g.Go(func() error {
				key := n.lockKey(dir, s.Name)
				var listed LockedServer
				if s.group != "" || listed.list(ctx, s.set) != nil {
					return nil
				}
				was := l.lock.Servers[key]
				mu.Lock()
				defer mu.Unlock()
				changes = append(changes, difference(was.parts(key), listed.parts(key), nil)...)
				return nil
			})
		}
	}
	g.Wait() // no function fails
	if len(changes) == 0 {
		return nil
	}
	slices.Sort(changes)
	l.tree.Root = nil
	return &DriftError{File: path, Against: LockName, Changes: changes}
}

// pin returns a check that the program at path, which is absolute, is still the one that was loaded.
// Whether that matters is known once all agent files are read: any of them can say "locked".
func (l *loader) pin(path string) func() error {
	digest := ""
	if l.opts.Same.Pinned || l.opts.Same.Locked || l.needLock {
		digest = exectool.Digest(path)
	}
	return func() error {
		was := digest
		if l.lock != nil {
			was = l.lockedDigest(path)
		} else if was == "" {
			return nil
		}
		if now := exectool.Digest(path); now == "" || now != was {
			return errors.New("it has changed since the agent was loaded")
		}
		return nil
	}
}

// lockedDigest returns the digest that the lock has for the file at an absolute path.
func (l *loader) lockedDigest(path string) string {
	return l.lock.Files[relative(folderOf(l.tree.Nodes[0].File.Path), path)].Digest
}

// locked returns t. If there is a lock, the returned tool refuses calls while the executable
// differs from it.
func (l *loader) locked(t *exectool.Tool) agent.Tool {
	if l.lock == nil || t.Source().Runner != nil {
		return t
	}
	return &lockedFile{Tool: t, digest: l.lockedDigest(t.File())}
}

// A lockedFile is a tool whose executable must not change.
type lockedFile struct {
	*exectool.Tool
	digest string
}

// Unwrap returns the tool: see agent.As.
func (t *lockedFile) Unwrap() any { return t.Tool }

// Call implements agent.Tool.
func (t *lockedFile) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	if now := exectool.Digest(t.File()); now == "" || now != t.digest {
		return agent.Result{}, fmt.Errorf("nothing ran: %s no longer matches %s", named(t.Path()), LockName)
	}
	return t.Tool.Call(ctx, inv)
}

// checked returns the toolset of an MCP server of n.
func (l *loader) checked(n *Node, s *server) agent.Toolset {
	if l.lock == nil {
		return &checked{serverTools: s.set, check: schema.Checked}
	}
	key := n.lockKey(folderOf(l.tree.Nodes[0].File.Path), s.Name)
	locked := &lockedServer{Toolset: s.set, key: key, lock: l.lock.Servers[key]}
	return &checked{serverTools: locked, check: func(t agent.Tool) agent.Tool { return schema.Checked(&lockedCall{t, locked}) }}
}

// A lockedServer offers the tools of an MCP server that match the lock.
type lockedServer struct {
	*mcpclient.Toolset
	key  string
	lock LockedServer
}

// Tools implements agent.Toolset. The error lists how the tools differ from the lock.
func (s *lockedServer) Tools(ctx context.Context) (kept []agent.Tool, err error) {
	tools, err := s.Toolset.Tools(ctx)
	now := LockedServer{Instructions: s.lock.Instructions, Tools: map[string]LockedTool{}}
	for _, t := range tools {
		name := t.Spec().Name
		now.Tools[name] = lockedTool(t.Spec())
		if s.same(name, now.Tools[name]) {
			kept = append(kept, t)
		}
	}
	if err != nil && len(tools) == 0 {
		return nil, err
	}
	if changes := difference(s.lock.parts(s.key), now.parts(s.key), nil); len(changes) > 0 {
		err = errors.Join(err, fmt.Errorf("refused because it differs from %s:\n  %s", LockName, strings.Join(changes, "\n  ")))
	}
	return kept, err
}

// same reports whether a tool matches the lock.
func (s *lockedServer) same(name string, t LockedTool) bool {
	one := func(t LockedTool) map[string]string {
		return (&LockedServer{Tools: map[string]LockedTool{name: t}}).parts("")
	}
	was, known := s.lock.Tools[name]
	return known && maps.Equal(one(was), one(t))
}

// Instructions implements agent.Instructor. Instructions that differ from the lock do
// not reach the model.
func (s *lockedServer) Instructions(ctx context.Context) (string, error) {
	text, err := s.Toolset.Instructions(ctx)
	if err == nil && text != s.lock.Instructions {
		return "", fmt.Errorf("the instructions of MCP server %s differ from %s", s.key, LockName)
	}
	return text, err
}

// A lockedCall is a tool of a lockedServer.
type lockedCall struct {
	agent.Tool
	server *lockedServer
}

// Unwrap returns the tool: see agent.As.
func (t *lockedCall) Unwrap() any { return t.Tool }

// Call implements agent.Tool. If the server was started again, or reports that its list
// has changed, its list is read first. The model does not see the difference, because
// the server wrote it.
func (t *lockedCall) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	tools, _ := t.server.Tools(ctx) // the next turn reports the error to the person
	same := func(o agent.Tool) bool { return o.Spec().Name == t.Spec().Name }
	if !slices.ContainsFunc(tools, same) {
		return agent.Result{}, fmt.Errorf("nothing was called: %s no longer matches %s", t.Spec().Name, LockName)
	}
	return t.Tool.Call(ctx, inv)
}
