package agentfile

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/source/exectool"
	"github.com/agents-exe/agents/pkg/source/toolbox/activate"
)

// toolgroup reads the activation of the entry at pointer. It returns the name of the
// toolgroup, or "" if there is none.
func (l *loader) toolgroup(n *Node, pointer string, activation json.RawMessage) string {
	var word string
	var group struct{ Tag, Toolgroup string }
	switch {
	case len(activation) == 0 || json.Unmarshal(activation, &word) == nil && (word == "" || word == "always"):
	case json.Unmarshal(activation, &group) == nil && group.Tag == "on-demand" && group.Toolgroup != "":
		return group.Toolgroup
	default:
		l.report(n.File.problem(Warning, CodeLater, pointer, `its activation %.100s is not valid, so it is ignored: it must be "always" or {"tag": "on-demand", "toolgroup": "NAME"}`, activation))
	}
	return ""
}

// activation is that of a builtin toolbox.
func (b *BuiltinToolbox) activation() json.RawMessage {
	var c struct{ Activation json.RawMessage }
	_ = b.settings(&c) // open has reported what is wrong
	return c.Activation
}

// toolgroupOf returns the toolgroup of a tool of n, "" if it is in none.
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

// An Activation says when an agent has too many tools: see activate.Limit. In a file it is
// "auto", the default, or "all", or an object with the limits.
type Activation struct {
	All           bool
	Tools, Tokens int // 0: the default
}

// UnmarshalJSON reads each of the forms.
func (a *Activation) UnmarshalJSON(data []byte) error {
	var word string
	if json.Unmarshal(data, &word) == nil {
		*a = Activation{All: word == "all"}
		return nil
	}
	type plain Activation
	return json.Unmarshal(data, (*plain)(a))
}

// The default limits: a number of tools, and the fraction 1/manyToolsContext of the context.
const (
	manyTools        = 60
	manyToolsContext = 10
)

// limit returns the limit that decides whether tools of n are hidden, or nil if none are. settled
// means that all its tools are known now, without asking a server.
func (n *Node) limit(tools agent.ToolList, watches bool) (limit *activate.Limit, settled bool) {
	s := n.File.Spec
	if s.Activation.All {
		return nil, true
	}
	context := cmp.Or(n.Agent.ContextTokens, agent.DefaultContextTokens)
	limit = &activate.Limit{Tools: cmp.Or(s.Activation.Tools, manyTools), Tokens: cmp.Or(s.Activation.Tokens, context/manyToolsContext)}
	settled = !watches && !slices.ContainsFunc(n.live, func(s liveSet) bool { return s.toolgroup == "" && s.many })
	if watches {
		tools = slices.Clone(tools)
		for _, t := range n.executables.list() {
			if t.Agent() == "" && n.folderOf(t) == "" {
				tools = append(tools, t)
			}
		}
	}
	var specs []agent.ToolSpec
	for _, t := range tools {
		spec := t.Spec()
		if n.toolgroupOf(t) != "" || n.hides(spec) {
			continue
		}
		specs = append(specs, spec)
		if n.folderOf(t) == "" {
			limit.Others = append(limit.Others, spec)
		}
	}
	if settled && !limit.Exceeds(specs) {
		return nil, true
	}
	return limit, settled
}

// folderOf returns the name of the folder that a tool comes from, or "" if the tool is a sub-agent or
// n's file has an entry for the tool itself.
func (n *Node) folderOf(t agent.Tool) string {
	e, ok := agent.As[*exectool.Tool](t)
	if !ok || e.Spec().Channel > 0 || e.Source().Kind != exectool.Folder || e.Source().Toolgroup != "" {
		return ""
	}
	return folderName(e.Source().Path)
}

func folderName(path string) string { return filepath.Base(absolute(".", path)) }

// A part is the tools of a toolgroup, or of a folder whose tools may be hidden; the zero part
// those that are always offered.
type part struct{ group, folder string }

func (n *Node) partOf(t agent.Tool) part {
	p := part{group: n.toolgroupOf(t)}
	if n.activation != nil {
		p.folder = n.folderOf(t)
	}
	return p
}

// parts returns tools by their parts, and the parts whose tools are watched.
func (n *Node) parts(tools agent.ToolList, watching bool) (lists map[part]agent.ToolList, watches map[part]bool) {
	lists, watches = map[part]agent.ToolList{{}: nil}, map[part]bool{}
	for _, p := range n.executables.programs {
		own := part{group: p.Toolgroup}
		if n.activation != nil && p.Kind == exectool.Folder && p.Toolgroup == "" {
			own.folder = folderName(p.Path)
		}
		lists[own], watches[own] = nil, watching
	}
	if watching {
		watches[part{}] = true // sub-agents; and what is wrong is reported although no group is active
	}
	for _, t := range tools {
		p := n.partOf(t)
		lists[p] = append(lists[p], t)
	}
	return lists, watches
}

// toolsets makes the toolsets of n: tools and those that activate toolgroups, then one for
// each group, then the live ones. watched, if it is not nil, has more tools.
func (l *loader) toolsets(n *Node, tools agent.ToolList, watched *watched) []agent.Toolset {
	limit, settled := n.limit(tools, watched != nil)
	n.activation = limit
	var sets []agent.Toolset
	var always, groups []*activate.Group // always: those of the file's toolgroups, which no limit decides
	add := func(set agent.Toolset, g activate.Group) {
		if g.Name != "" {
			own := &g
			own.Toolset, own.Hides, groups = set, n.hides, append(groups, own)
			if own.Limit == nil {
				always = append(always, own)
			} else {
				limit.Groups = append(limit.Groups, own)
			}
			set = own
		}
		sets = append(sets, set)
	}
	lists, watches := n.parts(tools, watched != nil)
	required := func(name string) bool { return slices.Contains(n.File.Spec.RequiredTools, name) }
	for _, p := range slices.SortedFunc(maps.Keys(lists), func(a, b part) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.folder, b.folder))
	}) {
		group := activate.Group{Name: p.group}
		if p.folder != "" {
			group = activate.Group{Name: p.folder, Limit: limit, Named: required}
		}
		if group.Name != "" && len(lists[p]) > 0 {
			add(lists[p], group)
		}
		if watches[p] {
			first := len(sets) == 0
			add(agent.WrapToolset(watched, func(_ context.Context, list []agent.Tool, err error) ([]agent.Tool, error) {
				if !first {
					err = nil // the first one reports it
				}
				return slices.DeleteFunc(slices.Clone(list), func(t agent.Tool) bool { return n.partOf(t) != p }), err
			}), group)
		}
	}
	for _, s := range n.live {
		group := activate.Group{Name: s.toolgroup, Prefix: s.prefix}
		if limit != nil && s.toolgroup == "" && s.many {
			group = activate.Group{Name: s.name, Limit: limit, Named: func(name string) bool { return required(name) || slices.Contains(s.named, name) }}
		}
		add(s.Toolset, group)
	}
	own := lists[part{}]
	meta := l.meta(always)
	switch {
	case limit == nil:
		own = append(own, meta...)
	case settled && limit.Hides(context.Background()):
		meta = l.meta(groups)
		own = append(own, meta...)
	default:
		sets = append([]agent.Toolset{limit.Toolset(l.meta(groups), meta)}, sets...)
	}
	for _, t := range meta {
		n.Tools = append(n.Tools, t.Spec())
	}
	slices.SortStableFunc(n.Tools, func(a, b agent.ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	return append([]agent.Toolset{own}, sets...)
}

// meta returns the tools with which the model activates groups.
func (l *loader) meta(groups []*activate.Group) (list agent.ToolList) {
	for _, t := range activate.Tools(groups) {
		list = append(list, schema.Checked(t))
	}
	return list
}

// HiddenTools returns how many of n's tools are hidden, until its model activates them, because n
// has too many. The tools of MCP servers count once the servers have been asked.
func (n *Node) HiddenTools() int {
	if n.activation == nil {
		return 0
	}
	return n.activation.Hidden()
}

// HideTools decides, for a test that may activate tools, whether tools of n are hidden if n may have
// too many, so that no server has to be asked for its tools. A test that was written for few tools,
// or for toolgroups of the agent file, stays valid.
func (n *Node) HideTools(activates bool) {
	if n.activation == nil {
		return
	}
	grouped := slices.ContainsFunc(n.Agent.Toolsets, func(set agent.Toolset) bool {
		g, ok := set.(*activate.Group)
		return ok && g.Limit == nil
	})
	n.activation.Set(activates && !grouped)
}

// settleTools decides whether tools of n are hidden. If they are, it lists the tools that find them
// in n.Tools.
func (n *Node) settleTools(ctx context.Context) {
	if n.activation == nil || !n.activation.Hides(ctx) {
		return
	}
	n.Tools = slices.DeleteFunc(n.Tools, func(s agent.ToolSpec) bool { return s.Source == activate.Source })
	for _, set := range n.Agent.Toolsets {
		list, _ := agent.ToolsOf(ctx, set, &agent.State{})
		for _, t := range list {
			if s := t.Spec(); s.Source == activate.Source {
				n.Tools = append(n.Tools, s)
			}
		}
	}
}
