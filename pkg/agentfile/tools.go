package agentfile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/exectool"
	"github.com/agents-exe/agents/pkg/redact"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/toolname"
	"github.com/agents-exe/agents/pkg/transcript"
)

// executables reads the descriptions of n's programs. The set is nil where
// there are none, or where ctx ended.
func (l *loader) executables(ctx context.Context, n *Node) *exectool.Toolset {
	if len(n.programs) == 0 {
		return nil
	}
	s := n.File.Spec
	opts := exectool.Options{Environ: l.environ(s.ToolEnv), SpoolDir: l.opts.OutputDir, LockDir: l.opts.LockDir,
		DescribeTimeout: l.opts.DescribeTimeout, Slow: l.opts.Slow, Redact: l.redact, Pinned: l.opts.Pinned || l.lock != nil,
		SessionJSON: sessionJSON}
	if l.opts.CacheDir != "" {
		opts.CacheDir = toolCache(l.opts.CacheDir)
	}
	set, err := exectool.Open(ctx, n.permitted(), opts)
	if err != nil {
		return nil // ctx has ended, which Load says
	}
	return set
}

// permitted are the sources of n that may be executed.
func (n *Node) permitted() []exectool.Source {
	var sources []exectool.Source
	for i, source := range n.sources() {
		if !n.programs[i].refused {
			sources = append(sources, source)
		}
	}
	return sources
}

// sessionJSON is the session of a call in agents-exe's form.
func sessionJSON(inv *agent.Invocation) ([]byte, error) {
	var b bytes.Buffer
	err := transcript.ToAgentsExe(&b, transcript.OfState(inv.SessionState()))
	return b.Bytes(), err
}

// sources says where n's programs are.
func (n *Node) sources() []exectool.Source {
	s := n.File.Spec
	sources := make([]exectool.Source, len(n.programs))
	for i, p := range n.programs {
		sources[i] = exectool.Source{Path: p.path, Filter: p.filter, Name: p.name, AllowDash: p.allowDash,
			Env: s.ToolEnv, Timeout: seconds(s.ToolTimeoutSeconds), Dir: n.workDir,
			Runner: p.runner, Kind: p.kind, Slug: p.slug, Toolgroup: p.toolgroup}
		if n.confinement != nil {
			sources[i].Sandbox = n.confined(p)
		}
	}
	return sources
}

func toolCache(cacheDir string) string { return filepath.Join(cacheDir, "tools") }

// KnownTools returns the tools of a folder that have described themselves before, with
// Options.CacheDir. Nothing is executed.
func KnownTools(cacheDir, folder string) []agent.ToolSpec {
	return exectool.Known(toolCache(cacheDir), folder)
}

// A protectable is a toolset whose tools must know which files decide what is executed.
type protectable interface{ Protect(paths []string) }

// protect tells all tools which files decide what is executed.
func (l *loader) protect(sets []*exectool.Toolset) {
	sets = slices.DeleteFunc(slices.Clone(sets), func(s *exectool.Toolset) bool { return s == nil })
	var told []protectable
	for _, n := range l.tree.Nodes {
		told = append(told, n.protected...)
	}
	for _, s := range sets {
		told = append(told, s)
	}
	if len(told) == 0 && !l.confined() {
		return
	}
	paths := l.decisive(sets)
	l.paths.Store(&paths)
	for _, s := range told {
		s.Protect(paths)
	}
}

// decisive returns the files and folders that decide what is executed, as absolute paths: those
// of the agents and their toolsets, those of this program, and those that the next Load would
// use.
func (l *loader) decisive(sets []*exectool.Toolset) (paths []string) {
	files := slices.Concat(l.opts.Protected, []string{l.opts.KeysFile, l.opts.SignInDir}, l.further)
	if len(l.tree.Nodes) > 0 {
		files = append(files, filepath.Join(filepath.Dir(l.tree.Nodes[0].File.Path), LockName))
	}
	for _, n := range l.tree.Nodes {
		paths = append(paths, n.File.Real)
		if path, err := filepath.Abs(n.File.Path); err == nil && path != n.File.Real {
			paths = append(paths, path) // if it is a link, that must not change either
		}
		for _, p := range n.programs {
			if sets == nil && p.runner == nil { // the toolsets are not open yet
				files = append(files, p.path)
			}
		}
		for _, p := range n.policies {
			files = append(files, p.path)
		}
		for _, s := range n.configured {
			files = append(files, s.client.Programs()...)
		}
	}
	for _, s := range sets {
		files = append(files, s.Programs()...)
	}
	for _, path := range files {
		if abs, err := filepath.Abs(path); path != "" && err == nil {
			paths = append(paths, withoutLinks(abs))
		}
	}
	for _, s := range sets {
		paths = append(paths, s.Files()...)
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

// equip gives n's agent its tools: executables, those of builtin toolboxes, then
// sub-agents.
func (l *loader) equip(n *Node, set *exectool.Toolset) {
	var tools agent.ToolList
	add := func(t agent.Tool) {
		tools = append(tools, schema.Checked(t))
		n.Tools = append(n.Tools, t.Spec())
	}
	far := append(l.farAgents(n), l.acpExperts(n)...)
	if set != nil {
		l.executableProblems(n, set)
		for _, t := range set.List() {
			for _, note := range t.Notes() {
				l.report(Problem{Severity: Note, Code: CodeToolHint, File: t.Spec().Source, Message: note})
			}
			switch {
			case t.Agent() != "":
				far = append(far, expert{t, t.Agent()})
			case n.File.Spec.Watch:
				n.Tools = append(n.Tools, t.Spec())
			default:
				add(l.locked(t))
			}
		}
	}
	if n.step != nil {
		if box := n.confinement.box(n.step.Path, nil, false); box != nil {
			n.step.Sandbox = box
		}
	}
	for _, t := range l.builtins(n) {
		add(t)
	}
	for _, t := range l.skills(n) {
		add(t)
	}
	experts := l.experts(n, far)
	for _, e := range experts {
		add(e.Tool)
	}
	slices.SortStableFunc(n.Tools, func(a, b agent.ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	if kept := l.distinct(n, slices.Clone(tools)); !n.File.Spec.Watch { // else the run does it
		tools = kept
	}
	l.required(n)
	n.Agent.Toolsets = l.toolsets(n, tools, l.watch(n, set))
	experts = slices.DeleteFunc(experts, func(e expert) bool { return n.hides(e.Spec()) }) // the model does not see these
	if p := paragraph(experts); p != "" {
		if n.Agent.System != "" {
			n.Agent.System += "\n\n"
		}
		n.Agent.System += p
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

func (l *loader) executableProblems(n *Node, set *exectool.Toolset) {
	for _, p := range set.Problems() {
		severity, code := LeftOut, CodeFile // it was not even executed
		switch {
		case errors.Is(p.Err, exectool.ErrNotExecutable):
			severity, code = Note, CodeExec
		case p.Offered:
			severity, code = Warning, CodeTool
		case p.Describe && slices.ContainsFunc(n.programs, func(q program) bool { return q.path == p.Path && q.name != "" }): // a script of a skill, for the shell
			severity, code = Note, CodeSkill
		case p.Describe:
			code = CodeTool
		case errors.Is(p.Err, exectool.ErrCollision):
			code = CodeCollision
		case errors.Is(p.Err, exectool.ErrWritable):
			code = CodeWritable
		}
		l.report(Problem{Severity: severity, Code: code, File: p.Path, Message: p.Text()})
	}
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
		list = append(list, expert{&agent.Subagent{Name: toolname.Join(prefix, h.Agent.Slug), Agent: h.Agent, Source: h.File.Path, Compat: compat}, h.Agent.Slug})
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
