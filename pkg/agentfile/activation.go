package agentfile

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/source/exectool"
	"github.com/agents-exe/agents/pkg/source/toolbox/activate"
)

// toolgroup reads the activation of the entry at pointer. It returns the name of the
// toolgroup, or "" if the tools are always active.
func (l *loader) toolgroup(n *Node, pointer string, activation json.RawMessage) string {
	var word string
	var group struct{ Tag, Toolgroup string }
	switch {
	case len(activation) == 0 || json.Unmarshal(activation, &word) == nil && (word == "" || word == "always"):
	case json.Unmarshal(activation, &group) == nil && group.Tag == "on-demand" && group.Toolgroup != "":
		return group.Toolgroup
	default:
		l.report(n.File.problem(Warning, CodeLater, pointer, `its activation %.100s is not valid, so its tools are always active: it must be "always" or {"tag": "on-demand", "toolgroup": "NAME"}`, activation))
	}
	return ""
}

// activation is that of a builtin toolbox.
func (b *BuiltinToolbox) activation() json.RawMessage {
	var c struct{ Activation json.RawMessage }
	_ = b.settings(&c) // open has reported what is wrong
	return c.Activation
}

// toolgroupOf is the toolgroup of a tool of n, "" if it is always active.
func (n *Node) toolgroupOf(t agent.Tool) string {
	if e, ok := agent.As[*exectool.Tool](t); ok {
		return e.Source().Toolgroup
	}
	return n.toolgroups[t.Spec().Name]
}

// hides reports whether rights hide a tool of n from its model.
func (n *Node) hides(spec agent.ToolSpec) bool {
	return n.Agent.Rights != nil && n.Agent.Rights.Hides(&agent.Invocation{Spec: spec, Agent: n.Agent.Slug, Path: n.path()})
}

// toolsets makes the toolsets of n: tools and those that activate toolgroups, then one for
// each group, then the live ones. watched, if it is not nil, has more tools.
func (l *loader) toolsets(n *Node, tools agent.ToolList, watched *watched) []agent.Toolset {
	var sets []agent.Toolset
	var groups []*activate.Group
	add := func(set agent.Toolset, group, prefix string) {
		if group != "" {
			g := &activate.Group{Toolset: set, Name: group, Prefix: prefix, Hides: n.hides}
			groups, set = append(groups, g), g
		}
		sets = append(sets, set)
	}
	lists := map[string]agent.ToolList{"": nil} // by toolgroup
	for _, p := range n.executables.programs {
		lists[p.Toolgroup] = nil // for watched
	}
	for _, t := range tools {
		group := n.toolgroupOf(t)
		lists[group] = append(lists[group], t)
	}
	for _, group := range slices.Sorted(maps.Keys(lists)) {
		if group != "" && len(lists[group]) > 0 {
			add(lists[group], group, "")
		}
		if watched != nil {
			add(agent.WrapToolset(watched, func(_ context.Context, list []agent.Tool, err error) ([]agent.Tool, error) {
				return slices.DeleteFunc(slices.Clone(list), func(t agent.Tool) bool { return n.toolgroupOf(t) != group }), err
			}), group, "")
		}
	}
	for _, s := range n.live {
		add(s.Toolset, s.toolgroup, s.prefix)
	}
	for _, t := range activate.Tools(groups) {
		lists[""] = append(lists[""], schema.Checked(t))
		n.Tools = append(n.Tools, t.Spec())
	}
	slices.SortStableFunc(n.Tools, func(a, b agent.ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	return append([]agent.Toolset{lists[""]}, sets...)
}
