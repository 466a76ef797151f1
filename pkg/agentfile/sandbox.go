package agentfile

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/sandbox"
)

// A confinement makes the sandboxes of an agent's processes.
type confinement struct {
	place sandbox.Place
	above []sandbox.Config // of the agents that may call this one
	own   sandbox.Config

	mu    sync.Mutex
	boxes map[string]*sandbox.Box
}

// confine determines the sandboxes of each agent: its own, and those of all agents above
// it, regardless of which one calls.
func (l *loader) confine() {
	unopened := sync.OnceValue(l.decisive)
	for _, n := range l.tree.Nodes {
		dir, err := filepath.Abs(n.workDir)
		if err != nil {
			dir = n.workDir // and every path in it is missing
		}
		n.confinement.place = sandbox.Place{Dir: dir, Home: toolenv.Lookup(l.opts.Environ, "HOME"), Environ: l.opts.Environ,
			Ladder: l.opts.Sandbox.Ladder, Log: l.note}
		n.confinement.place.Secrets = l.secretFiles(dir)
		n.confinement.place.Protected = func() []string {
			if paths := l.paths.Load(); paths != nil {
				return *paths
			}
			return unopened()
		}
		n.confinement.above = append(n.confinement.above, l.opts.Sandbox.above...)
		if n.File.Spec.Sandbox == nil {
			continue
		}
		n.confinement.own = *n.File.Spec.Sandbox
		above := n.confinement.own.At(dir)
		if n.confinement.own.Read != nil {
			n.confinement.own.Read = slices.Concat(n.confinement.own.Read, n.readable)
		}
		seen := map[*Node]bool{n: true}
		var below func(n *Node)
		below = func(n *Node) {
			for _, h := range n.Helpers {
				if seen[h] {
					continue
				}
				seen[h] = true
				h.confinement.above = append(h.confinement.above, above)
				below(h)
			}
		}
		below(n)
	}
	for _, n := range l.tree.Nodes {
		l.sandboxRunners(n)
	}
}

// sandboxRunners refuses entries to which a required sandbox does not apply, because a
// runner executes them elsewhere.
func (l *loader) sandboxRunners(n *Node) {
	c := n.confinement
	required := c.own.Required || slices.ContainsFunc(c.above, func(above sandbox.Config) bool { return above.Required })
	for i := range n.executables.programs {
		p := &n.executables.programs[i]
		if p.Runner == nil || p.sandbox != nil || !required && n.File.Spec.Sandbox == nil {
			continue
		}
		p.refused = required
		severity, why := Note, "the agent's sandbox does not hold for it"
		if required {
			severity, why = LeftOut, `it is left out, because the sandbox of the agent or of a caller is required and does not hold for it; an entry of bashToolboxes can have a "sandbox" of its own`
		}
		l.report(n.File.problem(severity, CodeSandbox, n.File.at("sandbox"), "%s runs elsewhere, by its runner: %s", p.Path, why))
	}
}

// sandboxNames reports names in a sandbox that no executable of the agent has: with a
// misspelled name, a restriction would have no effect.
func (l *loader) sandboxNames(n *Node) {
	var known []string
	add := func(file string) {
		base := filepath.Base(file)
		known = append(known, base, strings.TrimSuffix(base, filepath.Ext(base)))
	}
	for _, t := range n.executables.list() {
		add(t.File())
	}
	if n.executables.set != nil {
		for _, p := range n.executables.set.Problems() { // which say what else is wrong
			add(p.Path)
		}
	}
	for _, b := range n.boxes {
		add(b.of)
	}
	check := func(pointer string, c *sandbox.Config) {
		if c == nil {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
			if !slices.Contains(known, name) {
				l.report(n.File.problem(Warning, CodeSandbox, pointer+"/tools", "no executable of this agent has the file name %q%s", name, closest.Hint(name, known)))
			}
		}
	}
	spec := n.File.Spec
	check(n.File.at("sandbox"), spec.Sandbox)
	for i, box := range spec.BashToolboxes {
		check(fmt.Sprintf("%s/%d/sandbox", n.File.at("bashToolboxes"), i), box.Sandbox)
	}
}

// note passes a line about sandboxes to the person, once.
func (l *loader) note(line string) {
	if l.opts.Sandbox.Note == nil {
		return
	}
	if _, said := l.noted.LoadOrStore(line, true); !said {
		l.opts.Sandbox.Note(line)
	}
}

// box is the sandbox of the executable in file, "" for what is none; extra is that of its
// entry in the agent file. It is nil if nothing is restricted.
func (c *confinement) box(file string, extra *sandbox.Config, outside bool) *sandbox.Box {
	var configs []sandbox.Config
	if !outside { // a runner's processes are elsewhere
		configs = append(slices.Clone(c.above), c.own.Tool(file)...)
	}
	if extra != nil {
		configs = append(configs, extra.Tool(file)...)
	}
	var key strings.Builder
	for _, config := range configs {
		key.WriteString(config.Key())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	box, ok := c.boxes[key.String()]
	if !ok {
		box = sandbox.New(c.place, configs...)
		c.boxes[key.String()] = box
	}
	return box
}

// confined is the sandbox of p's executables, for their toolset.
func (n *Node) confined(p program) func(file string) process.Box {
	return func(file string) process.Box {
		if box := n.confinement.box(file, p.sandbox, p.Runner != nil); box != nil {
			return box
		}
		return nil
	}
}

// confined reports whether an agent or one of its programs has a sandbox.
func (l *loader) confined() bool {
	return slices.ContainsFunc(l.tree.Nodes, func(n *Node) bool { return len(n.confinement.all()) > 0 })
}

// all returns the sandboxes in use.
func (c *confinement) all() []*sandbox.Box {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Values(c.boxes)), func(b *sandbox.Box) bool { return b == nil })
}

// exposed reports whether a sandboxed process of the tree can change a program of n on this
// machine, although its sandbox does not name it.
func (l *loader) exposed(n *Node) bool {
	for _, of := range l.tree.Nodes {
		for _, box := range of.confinement.all() {
			for _, p := range n.executables.programs {
				if path, err := filepath.Abs(p.Path); err != nil || p.Runner == nil && box.Unprotected(withoutLinks(path)) {
					return true
				}
			}
		}
	}
	return false
}

// A namedBox is the sandbox of a tool that is not an executable, nil for none.
type namedBox struct {
	of  string
	box *sandbox.Box
}

// box returns the sandbox of a tool that is not an executable, nil for none. extra is that of
// its entry in the agent file.
func (n *Node) box(tool string, extra *sandbox.Config) *sandbox.Box {
	box := n.confinement.box(tool, extra, false)
	n.boxes = append(n.boxes, namedBox{tool, box})
	return box
}

// A Sandbox describes the sandbox of some processes of an agent.
type Sandbox struct {
	// Of are the names of the tools, and of the MCP servers.
	Of []string
	// Permits describes what the sandbox permits, Enforced what enforces it here.
	Permits, Enforced string
}

// Sandboxes returns the sandboxes of n's processes. The last entry, if any, is for
// processes without a sandbox.
func (n *Node) Sandboxes() []Sandbox {
	of := map[*sandbox.Box][]string{}
	for _, t := range n.executables.list() {
		box, _ := t.Confinement().(*sandbox.Box)
		of[box] = append(of[box], t.Spec().Name)
	}
	for _, b := range n.boxes {
		if !slices.Contains(of[b.box], b.of) { // a SystemToolbox has files and a shell
			of[b.box] = append(of[b.box], b.of)
		}
	}
	for _, s := range sourcesOf[*server](n) {
		if s.Tag != tagHTTP {
			box, _ := s.client.Sandbox.(*sandbox.Box)
			what := "server "
			if s.settings != nil {
				what = "toolbox "
			}
			of[box] = append(of[box], what+s.Name)
		}
	}
	var list []Sandbox
	for box, names := range of {
		s := Sandbox{Of: names, Permits: "everything"}
		if box != nil {
			s.Permits, s.Enforced = box.String(), box.Summary()
		}
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b Sandbox) int {
		if (a.Enforced == "") != (b.Enforced == "") {
			return cmp.Compare(len(b.Enforced), len(a.Enforced))
		}
		return strings.Compare(a.Of[0], b.Of[0])
	})
	return list
}
