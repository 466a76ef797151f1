package agentfile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/workspace"
	"github.com/agents-exe/agents/pkg/sandbox"
)

// factsTime limits how long the runtime looks at a workspace after a call.
const factsTime = time.Minute

// A workplace is a sub-agent of which each call works in a workspace of its own. For each call,
// its tree is loaded again with the workspace as the working directory.
type workplace struct {
	*agent.Subagent
	l      *loader
	caller *Node
	node   *Node
	kept   workspace.Options // without the call
	lock   *Lock             // what its tree consists of
}

// workplace returns sub, with a workspace if the file of n or h says so.
func (l *loader) workplace(n, h *Node, sub *agent.Subagent) agent.Tool {
	kept, named := n.workspaces[h]
	if !named && h.File.Spec.Workspace == "" {
		return sub
	}
	if !named {
		kept = workspace.Options{Kind: h.File.Spec.Workspace, Bring: h.File.Spec.Bring}
	}
	w := &workplace{Subagent: sub, l: l, caller: n, node: h, kept: kept}
	l.workplaces = append(l.workplaces, w)
	return w
}

// unchanged is a toolset without tools that stands first in an agent with a workspace. It is not
// there, or wrapped, once a replay or a test has put stand-ins in place of the tools: these
// have no effects and need no workspace.
type unchanged struct{}

// Tools implements agent.Toolset.
func (unchanged) Tools(context.Context) ([]agent.Tool, error) { return nil, nil }

// markWorkplaces completes the workplaces, once all agents have their tools.
func (l *loader) markWorkplaces() {
	for _, w := range l.workplaces {
		_, w.lock = Survey(w.node.File.Path, w.options())
		if a := w.node.Agent; !isUnchanged(a) {
			a.Toolsets = slices.Concat([]agent.Toolset{unchanged{}}, a.Toolsets)
		}
	}
}

func isUnchanged(a *agent.Agent) bool {
	if len(a.Toolsets) == 0 {
		return false
	}
	_, ok := a.Toolsets[0].(unchanged)
	return ok
}

// options are those of the tree of w as a root: what the user says of the root of the whole tree
// does not count for it.
func (w *workplace) options() Options {
	opts := w.l.opts
	opts.Agent, opts.Rights, opts.Client.Servers = w.Agent.Slug, RootRights{}, nil
	opts.Same = Same{Pinned: w.l.opts.Same.Pinned}
	return opts
}

// load loads the tree of w in a folder of a workspace. It is what was loaded before, or an error.
func (w *workplace) load(ctx context.Context, work *workspace.Work, dir string) (*Tree, error) {
	opts := w.options()
	opts.WorkDir, opts.inside, opts.Same.Trusted = dir, true, w.lock
	opts.Protected = slices.Concat(opts.Protected, w.l.decisive())
	box := sandbox.Config{Write: work.Writable()}
	if own := w.node.File.Spec.Sandbox; own != nil {
		for _, path := range own.Write { // caches, for example
			if filepath.IsAbs(path) || strings.HasPrefix(path, "~") {
				box.Write = append(box.Write, path)
			}
		}
	}
	opts.Sandbox.above = append(slices.Clone(w.node.confinement.above), box)
	tree, err := Load(ctx, w.node.File.Path, opts)
	if tree != nil {
		tree.ladder = nil // it belongs to the whole tree
	}
	return tree, err
}

// Call implements agent.Tool.
func (w *workplace) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	if !isUnchanged(w.Agent) {
		return w.Subagent.Call(ctx, inv)
	}
	prompt, err := w.Agent.Prompt(ctx, inv.Call.Args)
	if err != nil {
		return agent.Result{}, err
	}
	return w.call(ctx, inv, prompt)
}

// place is where workspaces are made.
func (w *workplace) place() (workspace.Place, error) {
	from, err := filepath.Abs(w.caller.workDir)
	if err == nil {
		from, err = filepath.EvalSymlinks(from)
	}
	return workspace.Place{Dir: from, Environ: w.l.opts.Environ}, err
}

// Reopen implements agent.Workspaced.
func (w *workplace) Reopen(ctx context.Context, key string) (string, func(agent.Result, error) (agent.Result, error)) {
	place, err := w.place()
	if err != nil || !isUnchanged(w.Agent) {
		return "", nil
	}
	work, err := workspace.Find(ctx, place, key)
	if err != nil {
		return "", nil // somebody has removed it
	}
	dir, err := work.Dir(place.Dir)
	if err != nil {
		return "", nil
	}
	return dir, func(result agent.Result, err error) (agent.Result, error) {
		err = w.ended(ctx, work, &result, err)
		return result, err
	}
}

func (w *workplace) call(ctx context.Context, inv *agent.Invocation, prompt agent.Message) (result agent.Result, err error) {
	place, err := w.place()
	if err != nil {
		return result, fmt.Errorf("make a workspace: %w", err)
	}
	from := place.Dir
	opts := w.kept
	opts.Key, opts.Agent = inv.Key, w.Agent.Slug
	work, err := workspace.Open(ctx, place, opts)
	if err != nil {
		return result, fmt.Errorf("make a workspace: %w", err)
	}
	defer func() { err = w.ended(ctx, work, &result, err) }()
	dir, err := work.Dir(from)
	if err != nil {
		return result, fmt.Errorf("make a workspace: %w", err)
	}
	tree, err := w.load(ctx, work, dir)
	if err != nil {
		return result, fmt.Errorf("load agent %s for its workspace: %w", w.Agent.Slug, err)
	}
	defer func() { _ = tree.Close() }() // the tools have answered
	a := *tree.Root
	a.Provider, a.Here = w.Agent.Provider, true
	return agent.AnswerOf(inv.Run(ctx, &a, prompt))
}

// ended adds to the result what was done in work.
func (w *workplace) ended(ctx context.Context, work *workspace.Work, result *agent.Result, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), factsTime)
	defer cancel()
	result.Workspace = &agent.Workspace{Kind: work.Kind, Path: work.Path(), Base: work.Base}
	if work.Kind == workspace.Worktree {
		result.Workspace.Branch = work.Branch()
	}
	facts, wrong := work.Facts(ctx)
	if wrong != nil {
		result.Workspace.Stat = "the runtime cannot tell: " + wrong.Error()
	} else {
		result.Workspace.Commits, result.Workspace.Stat, result.Workspace.Uncommitted = facts.Commits, facts.Stat, facts.Uncommitted
	}
	result.Parts = append(slices.Clone(result.Parts), agent.Text("\n\n"+describe(result.Workspace)))
	if wrong := work.End(); wrong != nil && err == nil {
		return fmt.Errorf("end the workspace %s: %w", work.Name, wrong)
	}
	return err
}

// describe says what was done in a workspace, for the caller's model.
func describe(w *agent.Workspace) string {
	some := func(list []string) string {
		if n := len(list); n > 10 {
			list = append(slices.Clone(list[:10]), fmt.Sprintf("… %d more", n-10))
		}
		return strings.Join(list, "\n")
	}
	not := "changed and not committed:"
	lines := []string{fmt.Sprintf("[the runtime: this agent worked in %s on the branch %s, which begins with %.12s; nothing is merged]", w.Path, w.Branch, w.Base)}
	if w.Kind == workspace.Copy {
		not = "which differ:"
		lines[0] = fmt.Sprintf("[the runtime: this agent worked in %s, a copy of the folder of its caller; nothing is merged]", w.Path)
	}
	if len(w.Commits) == 0 && len(w.Uncommitted) == 0 {
		lines = append(lines, "it changed nothing")
	}
	if len(w.Commits) > 0 {
		lines = append(lines, "commits:", some(w.Commits))
	}
	if w.Stat != "" {
		lines = append(lines, w.Stat)
	}
	if len(w.Uncommitted) > 0 {
		lines = append(lines, not, some(w.Uncommitted))
	}
	return strings.Join(lines, "\n")
}

// findWorkDir sets the directory in which n's tools run.
func (l *loader) findWorkDir(n *Node) bool {
	n.workDir = l.opts.WorkDir
	name := n.File.Spec.ToolWorkingDirectory
	if name == "" {
		return true
	}
	if n.File.Spec.Workspace != "" || l.opts.inside {
		l.broken(n, CodePath, "toolWorkingDirectory", "an agent that works in a workspace, or is called by one that does, cannot have a working directory of its own")
		return false
	}
	dir, ok := l.resolve(n, n.File.at("toolWorkingDirectory"), name, n.unusable())
	if !ok {
		return false
	}
	n.workDir = dir
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		l.broken(n, CodePath, "toolWorkingDirectory", "%s is not a folder", dir)
		return false
	}
	return true
}
