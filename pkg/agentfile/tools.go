package agentfile

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/source/exectool"
	"github.com/agents-exe/agents/pkg/source/toolbox/background"
)

func toolCache(cacheDir string) string { return filepath.Join(cacheDir, "tools") }

// KnownTools returns the tools of a folder that have described themselves before, with
// Options.Folders.Cache. Nothing is executed.
func KnownTools(cacheDir, folder string) []agent.ToolSpec {
	return exectool.Known(toolCache(cacheDir), folder)
}

// decisive returns the files and folders that decide what is executed, as absolute paths: those
// of the agents and their sources, those of this program, and those that the next Load would
// use.
func (l *loader) decisive() (paths []string) {
	files := slices.Concat(l.opts.Protected, []string{l.opts.KeysFile, l.opts.SignIn.Dir}, l.further)
	if len(l.tree.Nodes) > 0 {
		files = append(files, filepath.Join(filepath.Dir(l.tree.Nodes[0].File.Path), LockName))
	}
	for _, n := range l.tree.Nodes {
		paths = append(paths, n.File.Real)
		if path, err := filepath.Abs(n.File.Path); err == nil && path != n.File.Real {
			paths = append(paths, path) // if it is a link, that must not change either
		}
		for _, s := range n.sources {
			files = append(files, s.files()...)
		}
	}
	for _, path := range files {
		if abs, err := filepath.Abs(path); path != "" && err == nil {
			paths = append(paths, withoutLinks(abs))
		}
	}
	return paths
}

// withoutLinks resolves the links in an absolute path whose end may not exist.
func withoutLinks(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil || filepath.Dir(path) == path {
		return real
	}
	return filepath.Join(withoutLinks(filepath.Dir(path)), filepath.Base(path))
}

// An expert is an agent as a tool.
type expert struct {
	agent.Tool
	slug string
}

// expertOf returns an agent in another process as a tool, with what its caller expects.
func expertOf(t agent.Tool, slug string, expect agent.Expect) expert {
	expect.Receipt = cmp.Or(expect.Receipt, agent.ReceiptShort)
	return expert{&expecting{t, expect}, slug}
}

// equip gives n's agent what its sources have: tools, then sub-agents.
func (l *loader) equip(n *Node) {
	var tools agent.ToolList
	add := func(t agent.Tool) {
		tools = append(tools, schema.Checked(t))
		n.Tools = append(n.Tools, t.Spec())
	}
	var far []expert
	for _, s := range n.sources {
		for _, t := range s.open(l, n) {
			if e, ok := t.(expert); ok {
				far = append(far, e)
			} else {
				add(t)
			}
		}
	}
	experts := l.experts(n, far)
	for _, e := range experts {
		add(e.Tool)
	}
	if slices.ContainsFunc(experts, func(e expert) bool { return e.Spec().Background }) || n.leaves(map[*Node]bool{}) {
		for _, t := range background.Tools() {
			add(t)
		}
	}
	slices.SortStableFunc(n.Tools, func(a, b agent.ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	if kept := l.distinct(n, slices.Clone(tools)); !n.File.Spec.Watch { // else the run does it
		tools = kept
	}
	l.required(n)
	n.Agent.Toolsets = l.toolsets(n, tools, l.watch(n))
	experts = slices.DeleteFunc(experts, func(e expert) bool { return n.hides(e.Spec()) }) // the model does not see these
	if p := paragraph(experts); p != "" {
		n.Agent.System = joined(n.Agent.System, p)
	}
}

// distinct leaves out tools of n that have one name, of tools and of n.Tools, which is
// sorted.
func (l *loader) distinct(n *Node, tools agent.ToolList) agent.ToolList {
	for i := 1; i < len(n.Tools); {
		first, second := n.Tools[i-1], n.Tools[i]
		if first.Name != second.Name {
			i++
			continue
		}
		l.report(n.File.problem(LeftOut, CodeCollision, "", "two tools have one name, %s, and are left out: %s and %s", first.Name, first.Source, second.Source))
		n.Tools = slices.DeleteFunc(n.Tools, func(s agent.ToolSpec) bool { return s.Name == first.Name })
		tools = slices.DeleteFunc(tools, func(t agent.Tool) bool { return t.Spec().Name == first.Name })
	}
	return tools
}

// path are the slugs from the root to n, as it was found first.
func (n *Node) path() []string {
	slugs := make([]string, len(n.stack))
	for i, above := range n.stack {
		slugs[i] = above.Agent.Slug
	}
	return slugs
}

// environ is the environment of the processes that n starts, without variables that
// hold a key, also as in a URL or JSON, except those that allow names. Short keys do not
// count: other values contain them by chance.
func (l *loader) environ(allow []string) []string {
	secrets := redact.New(l.tree.Secrets())
	return slices.DeleteFunc(slices.Clone(l.opts.Environ), func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		return !slices.Contains(allow, name) && secrets.String(value) != value
	})
}

// compat reports whether tools of n have the names of agents-exe.
func (l *loader) compat(n *Node) bool {
	return l.opts.CompatNames || slices.ContainsFunc(n.stack, func(above *Node) bool { return above.File.Spec.CompatNames })
}

// experts are n's helpers and far, the agents behind runners and on servers, as tools, sorted by slug.
// Of several with one name none is offered: the model could not tell which it asks.
func (l *loader) experts(n *Node, far []expert) []expert {
	list := far
	prefix := agent.ExpertPrefix
	compat := l.compat(n)
	if compat {
		prefix = agent.CompatPrefix
	}
	for _, h := range n.Helpers {
		sub := &agent.Subagent{Name: toolname.Join(prefix, h.Agent.Slug), Agent: h.Agent, Source: h.File.Path, Compat: compat, Expect: n.expects[h]}
		list = append(list, expert{l.workplace(n, h, sub), h.Agent.Slug})
		if h.File.Spec.Background {
			n.background = append(n.background, h.Agent.Slug)
		}
		if h.File.Spec.Detach {
			n.detach = append(n.detach, h.Agent.Slug)
		}
	}
	for i := range list {
		if slices.Contains(n.background, list[i].slug) {
			list[i].Tool = backgroundTool{list[i].Tool, slices.Contains(n.detach, list[i].slug)}
		}
	}
	slices.SortStableFunc(list, func(a, b expert) int {
		return cmp.Or(strings.Compare(a.slug, b.slug), strings.Compare(a.Spec().Source, b.Spec().Source))
	})
	sources := map[string][]string{} // by name
	for _, t := range list {
		sources[t.Spec().Name] = append(sources[t.Spec().Name], t.Spec().Source)
	}
	var kept []expert
	for _, t := range list {
		name, source := t.Spec().Name, t.Spec().Source
		if len(sources[name]) == 1 {
			kept = append(kept, t)
			continue
		}
		others := slices.DeleteFunc(slices.Clone(sources[name]), func(s string) bool { return s == source })
		l.report(Problem{Severity: LeftOut, Code: CodeCollision, File: source,
			Message: fmt.Sprintf("two agents are both %s and are left out: this one and %s", name, strings.Join(others, ", "))})
	}
	n.Helpers = slices.DeleteFunc(n.Helpers, func(h *Node) bool { return len(sources[toolname.Join(prefix, h.Agent.Slug)]) > 1 })
	slices.SortStableFunc(n.Helpers, func(a, b *Node) int {
		return cmp.Or(strings.Compare(a.Agent.Slug, b.Agent.Slug), strings.Compare(a.File.Path, b.File.Path))
	})
	return kept
}
