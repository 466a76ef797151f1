// Package activate hides tools until the model activates them. A [Group] is a toolset that
// belongs to a toolgroup. [Tools] returns meta_discover_tools, meta_activate_tool and
// meta_deactivate_tool, with which the model lists, activates and deactivates toolgroups.
//
// The active toolgroups are part of the session: the result of a call says which groups it
// activates or deactivates (see [agent.Result]). So a resumed, forked or replayed session has
// the same tools, also after a compaction. The toolsets themselves have no state. A toolset
// in an inactive group is not used at all: for example, an MCP server is not started.
//
// A Group with a [Limit] is different: it hides its tools only if the agent has too many. The model
// then searches them, and can activate single tools by name, as if each were a toolgroup.
package activate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

const activateName = "meta_activate_tool"

// Source is the Source in the specs of the tools that Tools returns.
const Source = "toolgroups"

// A Group is a toolset that is available in a session while its toolgroup is active. Outside
// a session, Tools returns all its tools. The other interfaces of the toolset remain
// available through agent.As.
type Group struct {
	agent.Toolset
	// Name is the name of the toolgroup. Several Groups may have the same name.
	Name string
	// Prefix, if it is not empty, is the prefix of the names of the toolset's tools. The
	// toolset is then not asked for its tools before the group is active.
	Prefix string
	// Hides, if it is not nil, reports whether the model must not know about a tool at all.
	Hides func(agent.ToolSpec) bool
	// Limit, if it is not nil, decides whether the tools are hidden. Tools for which Named returns
	// true are never hidden; a nil Named means none. Prefix must be empty.
	Limit *Limit
	Named func(tool string) bool
}

// Unwrap returns the toolset: see agent.As.
func (g *Group) Unwrap() any { return g.Toolset }

// SessionTools implements agent.SessionToolset.
func (g *Group) SessionTools(ctx context.Context, s *agent.State) ([]agent.Tool, error) {
	if g.Limit == nil && !s.Toolgroups[g.Name] {
		return nil, nil
	}
	tools, err := g.Tools(ctx)
	if g.Limit == nil || !g.Limit.Hides(ctx) {
		return tools, err
	}
	return slices.DeleteFunc(slices.Clone(tools), func(t agent.Tool) bool { return !g.offers(s, t.Spec().Name) }), err
}

// names returns the names of the tools, or PREFIX* if they are not known yet.
func (g *Group) names(ctx context.Context) (names []string) {
	if g.Prefix != "" {
		return []string{g.Prefix + "*"}
	}
	tools, _ := g.Tools(ctx) // the run reports what is wrong once the group is active
	for _, t := range tools {
		if spec := t.Spec(); g.Hides == nil || !g.Hides(spec) {
			names = append(names, spec.Name)
		}
	}
	return names
}

// has reports whether a tool has the name, as far as they are known.
func (g *Group) has(ctx context.Context, name string) bool {
	return slices.ContainsFunc(g.names(ctx), func(known string) bool { ok, _ := path.Match(known, name); return ok })
}

// Hidden implements agent.Hider.
func (g *Group) Hidden(ctx context.Context, s *agent.State, name string) error {
	if g.Limit != nil {
		return g.unoffered(ctx, s, name)
	}
	if s.Toolgroups[g.Name] || !g.has(ctx, name) {
		return nil
	}
	return fmt.Errorf("nothing ran: %.100s belongs to the toolgroup %q, which is not active: activate it with %s, then call the tool in your next message", name, g.Name, activateName)
}

// Instructions implements agent.Instructor. It returns none while tools may be hidden: the
// instructions are in the result of the call that activates the group.
func (g *Group) Instructions(ctx context.Context) (string, error) {
	if in, ok := agent.As[agent.Instructor](g.Toolset); ok && g.Limit != nil && !g.Limit.Hides(ctx) {
		return in.Instructions(ctx)
	}
	return "", nil
}

// Tools returns the tools with which the model activates groups, or nil if there are no
// groups. Their descriptions do not depend on which groups are active, so that the beginning
// of a request changes as little as possible.
func Tools(groups []*Group) agent.ToolList {
	if len(groups) == 0 {
		return nil
	}
	set := groupSet(groups)
	names := set.groupNames()
	enum, _ := json.Marshal(names) // strings
	named := json.RawMessage(`{"type":"object","properties":{"toolgroup":{"enum":` + string(enum) + `}},"required":["toolgroup"],"additionalProperties":false}`)
	tool := func(name, description string, schema json.RawMessage, call func(context.Context, *agent.Invocation) (agent.Result, error)) agent.Tool {
		return &meta{agent.ToolSpec{Name: name, Source: Source, Effects: agent.EffectsNone, Description: description, Schema: schema}, call}
	}
	if set.limited() {
		named = json.RawMessage(`{"type":"object","properties":{"toolgroup":{"type":"string","description":"the name of a tool or of a toolgroup"}},"required":["toolgroup"],"additionalProperties":false}`)
		return agent.ToolList{
			tool(discoverName, "Finds tools that you are not offered yet, by words in their names and descriptions. Without a query, lists the toolgroups and their tools. Toolgroups: "+strings.Join(names, ", "),
				json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","maxLength":1000,"description":"words, such as: create issue"}},"additionalProperties":false}`), set.discover),
			tool(activateName, "Activates a tool that "+discoverName+" finds, or all tools of a toolgroup. You can call them from your next message on.", named, set.activate),
			tool("meta_deactivate_tool", "Deactivates a tool or a toolgroup that you no longer need.", named, set.deactivate),
		}
	}
	return agent.ToolList{
		tool(discoverName, "Lists the toolgroups, the tools in them, and which are active.", json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`), set.discover),
		tool(activateName, "Activates a toolgroup. You can call its tools from your next message on. Toolgroups: "+strings.Join(names, ", "), named, set.activate),
		tool("meta_deactivate_tool", "Deactivates a toolgroup whose tools you no longer need.", named, set.deactivate),
	}
}

// A meta tool is one of Tools.
type meta struct {
	spec agent.ToolSpec
	call func(ctx context.Context, inv *agent.Invocation) (agent.Result, error)
}

// Spec implements agent.Tool.
func (t *meta) Spec() agent.ToolSpec { return t.spec }

// Call implements agent.Tool.
func (t *meta) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	return t.call(ctx, inv)
}

type groupSet []*Group

// groupNames returns the names of the groups, sorted.
func (set groupSet) groupNames() []string {
	known := map[string]bool{}
	for _, g := range set {
		known[g.Name] = true
	}
	return slices.Sorted(maps.Keys(known))
}

func (set groupSet) discover(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	state := inv.SessionState()
	if query, _ := inv.Values()["query"].(string); strings.TrimSpace(query) != "" {
		return set.search(ctx, &state, query)
	}
	return set.list(ctx, &state)
}

// activate asks the toolsets of a group for their tools, so that the model learns why a
// server does not start.
func (set groupSet) activate(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	name, _ := inv.Values()["toolgroup"].(string) // its schema requires it
	if set.limited() {
		if err := set.check(ctx, name); err != nil {
			return agent.Result{}, err
		}
	}
	r := changed(name, true)
	for _, g := range set {
		if g.Name != name && (g.Limit == nil || !slices.Contains(g.names(ctx), name)) {
			continue
		}
		if tools, err := g.Tools(ctx); err != nil && len(tools) == 0 {
			return agent.Result{}, fmt.Errorf("the toolgroup %q is not active: %w", g.Name, err)
		}
		if in, ok := agent.As[agent.Instructor](g.Toolset); ok {
			if text, err := in.Instructions(ctx); err == nil && text != "" {
				r.Parts = append(r.Parts, agent.Text("\n\n"+text))
			}
		}
	}
	return r, nil
}

// deactivate also deactivates the tools of a group that were activated one by one.
func (set groupSet) deactivate(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	name, _ := inv.Values()["toolgroup"].(string)
	state, r := inv.SessionState(), changed(name, false)
	for _, g := range set {
		if g.Limit == nil {
			continue
		}
		names := g.names(ctx)
		if g.Name != name && state.Toolgroups[g.Name] && slices.Contains(names, name) {
			return agent.Result{}, fmt.Errorf("%s belongs to the toolgroup %q, which is active: deactivate that", name, g.Name)
		}
		for _, tool := range names {
			if g.Name == name && state.Toolgroups[tool] {
				r.Toolgroups[tool] = false
			}
		}
	}
	return r, nil
}

// changed returns the result of a call that activates or deactivates a toolgroup, or a tool of a
// Group with a Limit.
func changed(name string, active bool) agent.Result {
	r := agent.TextResult(fmt.Sprintf("Toolgroup '%s' %s", name, map[bool]string{true: "activated", false: "deactivated"}[active]))
	r.Toolgroups = agent.Toolgroups{name: active}
	return r
}
