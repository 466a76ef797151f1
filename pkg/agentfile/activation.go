package agentfile

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/toolbox/activate"
)

// toolgroup reads an activation: the toolgroup that the model activates, "" for tools that
// are always active. pointer is that of the entry that has it.
func (l *loader) toolgroup(n *Node, pointer string, activation json.RawMessage) string {
	var word string
	var group struct{ Tag, Toolgroup string }
	switch {
	case len(activation) == 0 || json.Unmarshal(activation, &word) == nil && (word == "" || word == "always"):
	case json.Unmarshal(activation, &group) == nil && group.Tag == "on-demand" && group.Toolgroup != "":
		return group.Toolgroup
	default:
		l.report(n.File.problem(Warning, CodeLater, pointer, `its activation %.100s is left out, and its tools are always active: it must be "always" or {"tag": "on-demand", "toolgroup": "NAME"}`, activation))
	}
	return ""
}

// activation is that of a builtin toolbox.
func (b *BuiltinToolbox) activation() json.RawMessage {
	var c struct{ Activation json.RawMessage }
	_ = b.read(&c) // builtin has reported what is wrong
	return c.Activation
}

// hide makes tools part of a toolgroup, if it is not "".
func (n *Node) hide(tools agent.ToolList, group string) {
	if group == "" {
		return
	}
	if n.toolgroups == nil {
		n.toolgroups = map[string]string{}
	}
	for _, t := range tools {
		n.toolgroups[t.Spec().Name] = group
	}
}

// groups are the toolsets of n that the model activates, the servers last. Only their
// names are known.
func (n *Node) groups() []*activate.Group {
	var groups []*activate.Group
	for _, name := range n.toolgroups {
		if !slices.ContainsFunc(groups, func(g *activate.Group) bool { return g.Name == name }) {
			groups = append(groups, &activate.Group{Name: name})
		}
	}
	slices.SortFunc(groups, func(a, b *activate.Group) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range n.servers {
		if s.toolgroup != "" {
			groups = append(groups, &activate.Group{Name: s.toolgroup, Prefix: s.prefix})
		}
	}
	return groups
}

// split returns tools as toolsets: those that are always active, then groups.
func (n *Node) split(tools agent.ToolList, groups []*activate.Group) []agent.Toolset {
	in := func(t agent.Tool, group string) bool { return n.toolgroups[t.Spec().Name] == group }
	sets := []agent.Toolset{tools}
	for _, g := range groups {
		if g.Prefix != "" {
			continue // a server
		}
		list := slices.DeleteFunc(slices.Clone(tools), func(t agent.Tool) bool { return !in(t, g.Name) })
		for _, t := range list {
			if spec := t.Spec(); n.Agent.Rights == nil || !n.Agent.Rights.Hides(&agent.Invocation{Spec: spec, Agent: n.Agent.Slug, Path: n.path()}) {
				g.Names = append(g.Names, spec.Name)
			}
		}
		g.Toolset = list
		sets = append(sets, g)
	}
	sets[0] = slices.DeleteFunc(tools, func(t agent.Tool) bool { return !in(t, "") })
	return sets
}
