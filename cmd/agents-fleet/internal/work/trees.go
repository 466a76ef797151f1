package work

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/archive"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/sandbox"
)

type trees struct {
	ctx context.Context // of the worker
	w   *Worker

	mu      sync.Mutex
	kept    map[string]*tree
	sweeper sync.WaitGroup
	stop    context.CancelFunc
}

// A tree is a loaded agent. Its folder has the same path for the same content, so that
// prompts with paths stay the same from worker to worker.
type tree struct {
	*agentfile.Tree
	key    string
	err    error
	loaded chan struct{} // closed when Tree or err is set
	users  int           // guarded by trees.mu, like used
	used   time.Time
}

// How many loaded agents are kept, and how long the servers of an unused one may run.
const (
	keptTrees = 32
	idleTime  = 5 * time.Minute
)

func newTrees(ctx context.Context, w *Worker) *trees {
	t := &trees{w: w, kept: map[string]*tree{}}
	t.ctx, t.stop = context.WithCancel(ctx)
	t.sweeper.Go(func() {
		tick := time.NewTicker(idleTime / 5)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				t.sweep(false)
			case <-t.ctx.Done():
				return
			}
		}
	})
	return t
}

// open returns the tree of a task, which must be released. Its tools run in dir; "" is the
// agent's own folder.
func (t *trees) open(ctx context.Context, task *flow.Task, dir string) (*tree, error) {
	key := treeKey(task)
	t.mu.Lock()
	n := t.kept[key]
	if n == nil {
		n = &tree{key: key, loaded: make(chan struct{})}
		t.kept[key] = n
		t.sweeper.Go(func() {
			defer close(n.loaded)
			n.err = t.w.guard(func() error { return t.load(n, task, dir) })
		})
	}
	n.users++
	t.mu.Unlock()
	select {
	case <-n.loaded:
	case <-ctx.Done():
		t.release(n)
		return nil, context.Cause(ctx)
	}
	if n.err != nil {
		t.mu.Lock()
		if t.kept[key] == n {
			delete(t.kept, key) // the next task tries again
		}
		t.mu.Unlock()
		t.release(n)
		return nil, n.err
	}
	return n, nil
}

// treeKey names all on which a tree depends.
func treeKey(task *flow.Task) string {
	text, _ := json.Marshal([]any{task.Folder, task.File, task.Options.Agent}) // cannot fail
	if task.Options.Workspace != "" {
		text = append(text, task.Record...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func (t *trees) load(n *tree, task *flow.Task, dir string) error {
	folder, err := archive.Shared(t.ctx, t.w.store, task.Folder, filepath.Join(t.w.o.Dir, "agents"))
	if err != nil {
		return fmt.Errorf("unpack the agent's folder: %w", err)
	}
	if !filepath.IsLocal(filepath.FromSlash(task.File)) {
		return &permanentError{fmt.Errorf("the agent file %q is not in its folder", task.File)}
	}
	file := filepath.Join(folder, filepath.FromSlash(task.File))
	o := t.w.o.Load
	o.WorkDir = folder
	if dir != "" {
		o.WorkDir = dir
	}
	o.Sandbox = agentfile.Sandboxing{Note: t.w.o.Note, Ladder: &sandbox.Ladder{Helper: []string{"/proc/self/exe", load.SandboxFlag}}}
	if o.Folders.Cache != "" {
		o.Sandbox.Ladder.CacheDir = filepath.Join(o.Folders.Cache, "sandbox")
	}
	if agentfile.Sibling(file, task.Options.Agent) {
		o.Agent = task.Options.Agent
	}
	loaded, err := agentfile.Load(t.ctx, file, o)
	if err != nil && t.ctx.Err() == nil {
		err = &permanentError{fmt.Errorf("load agent: %w%s", err, withoutKey(err))}
	}
	n.Tree = loaded
	return err
}

// withoutKey returns the advice to append to an error about a key that this worker lacks, or "".
func withoutKey(err error) string {
	failed, ok := errors.AsType[*agentfile.LoadError](err)
	if !ok || !slices.ContainsFunc(failed.Problems, func(p agentfile.Problem) bool { return p.Code == agentfile.CodeKey || p.Code == agentfile.CodeKeyEnv }) {
		return ""
	}
	host, _ := os.Hostname()
	return fmt.Sprintf("; the worker on %s does not have this key, and workers do not borrow models from each other: give every worker the key, in its environment or with --api-keys", cmp.Or(host, "this host"))
}

func (t *trees) release(n *tree) {
	t.mu.Lock()
	n.users--
	n.used = time.Now()
	gone, many := n.users == 0 && t.kept[n.key] != n, len(t.kept) > keptTrees
	t.mu.Unlock()
	if gone {
		t.end(n)
	}
	if many {
		t.sweep(false)
	}
}

// sweep ends the trees that nobody uses: those that were not used for a while, the oldest
// ones if there are too many, or all.
func (t *trees) sweep(all bool) {
	t.mu.Lock()
	var unused []*tree
	for _, n := range t.kept {
		if n.users == 0 {
			unused = append(unused, n)
		}
	}
	slices.SortFunc(unused, func(a, b *tree) int { return a.used.Compare(b.used) })
	var out []*tree
	for _, n := range unused {
		if all || len(t.kept) > keptTrees || time.Since(n.used) > idleTime {
			delete(t.kept, n.key)
			out = append(out, n)
		}
	}
	t.mu.Unlock()
	for _, n := range out {
		t.end(n)
	}
}

func (t *trees) end(n *tree) {
	<-n.loaded
	if n.Tree == nil {
		return
	}
	if err := n.Close(); err != nil {
		t.w.o.Note(fmt.Sprintf("close an agent: %s", err))
	}
}

func (t *trees) close() {
	t.stop()
	t.sweeper.Wait()
	t.sweep(true)
}

// find returns the agent at the end of a path of slugs from below the root, and the agents
// above it.
func (n *tree) find(path []string) (node *agentfile.Node, above []*agent.Agent, err error) {
	node = n.Nodes[0]
	for _, slug := range path {
		i := slices.IndexFunc(node.Helpers, func(h *agentfile.Node) bool { return h.Agent.Slug == slug })
		if i < 0 {
			return nil, nil, fmt.Errorf("agent %s has no sub-agent %s", node.Agent.Slug, slug)
		}
		above = append(above, node.Agent)
		node = node.Helpers[i]
	}
	return node, above, nil
}
