package agentfile

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/schema"
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

// hides reports whether rights hide a tool of n from its model.
func (n *Node) hides(spec agent.ToolSpec) bool {
	return n.Agent.Rights != nil && n.Agent.Rights.Hides(&agent.Invocation{Spec: spec, Agent: n.Agent.Slug, Path: n.path()})
}

// toolsets makes the toolsets of n: tools and those that activate toolgroups, then one for
// each group of tools, then the servers.
func (l *loader) toolsets(n *Node, tools agent.ToolList) []agent.Toolset {
	sets := []agent.Toolset{nil}
	var groups []*activate.Group
	add := func(set agent.Toolset, group, prefix string) {
		if group != "" {
			g := &activate.Group{Toolset: set, Name: group, Prefix: prefix, Hides: n.hides}
			groups, set = append(groups, g), g
		}
		sets = append(sets, set)
	}
	lists := map[string]agent.ToolList{}
	for _, t := range tools {
		group := n.toolgroups[t.Spec().Name]
		lists[group] = append(lists[group], t)
	}
	always := lists[""]
	delete(lists, "")
	for _, group := range slices.Sorted(maps.Keys(lists)) {
		add(lists[group], group, "")
	}
	for i, p := range n.programs {
		if same := func(o program) bool { return o.toolgroup == p.toolgroup }; n.watched != nil && slices.IndexFunc(n.programs, same) == i {
			add(watchedGroup{n.watched, p.toolgroup}, p.toolgroup, "")
		}
	}
	for _, s := range n.servers {
		add(l.checked(n, s), s.toolgroup, s.prefix)
	}
	for _, t := range activate.Tools(groups) {
		always = append(always, schema.Checked(t))
		n.Tools = append(n.Tools, t.Spec())
	}
	sets[0] = always
	slices.SortFunc(n.Tools, func(a, b agent.ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	return sets
}
