// Package activate hides tools until the model activates them. A [Group] is a toolset that
// belongs to a toolgroup. [Tools] returns meta_discover_tools, meta_activate_tool and
// meta_deactivate_tool, with which the model lists, activates and deactivates toolgroups.
//
// The active toolgroups are part of the session: the result of a call says which groups it
// activates or deactivates (see [agent.Result]). So a resumed, forked or replayed session has
// the same tools, also after a compaction. The toolsets themselves have no state. A toolset
// in an inactive group is not used at all: for example, an MCP server is not started.
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
}

// Unwrap returns the toolset: see agent.As.
func (g *Group) Unwrap() any { return g.Toolset }

// SessionTools implements agent.SessionToolset.
func (g *Group) SessionTools(ctx context.Context, s *agent.State) ([]agent.Tool, error) {
	if !s.Toolgroups[g.Name] {
		return nil, nil
	}
	return g.Tools(ctx)
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

// Hidden implements agent.Hider.
func (g *Group) Hidden(ctx context.Context, s *agent.State, name string) error {
	matches := func(known string) bool { ok, _ := path.Match(known, name); return ok }
	if s.Toolgroups[g.Name] || !slices.ContainsFunc(g.names(ctx), matches) {
		return nil
	}
	return fmt.Errorf("nothing ran: %.100s belongs to the toolgroup %q, which is not active: activate it with %s, then call the tool in your next message", name, g.Name, activateName)
}

// Instructions implements agent.Instructor. It returns none: the instructions of the toolset
// are in the result of the call that activates it.
func (g *Group) Instructions(context.Context) (string, error) { return "", nil }

// Tools returns the tools with which the model activates groups, or nil if there are no
// groups. Their descriptions do not depend on which groups are active, so that the beginning
// of a request changes as little as possible.
func Tools(groups []*Group) agent.ToolList {
	if len(groups) == 0 {
		return nil
	}
	set := groupSet(groups)
	known := map[string]bool{}
	for _, g := range set {
		known[g.Name] = true
	}
	names := slices.Sorted(maps.Keys(known))
	enum, _ := json.Marshal(names) // strings
	named := json.RawMessage(`{"type":"object","properties":{"toolgroup":{"enum":` + string(enum) + `}},"required":["toolgroup"],"additionalProperties":false}`)
	tool := func(name, description string, schema json.RawMessage, call func(context.Context, *agent.Invocation) (agent.Result, error)) agent.Tool {
		return &meta{agent.ToolSpec{Name: name, Source: "toolgroups", Effects: agent.EffectsNone, Description: description, Schema: schema}, call}
	}
	return agent.ToolList{
		tool("meta_discover_tools", "Lists the toolgroups, the tools in them, and which are active.", json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`), set.discover),
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

func (set groupSet) discover(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	state := inv.SessionState()
	tools, active := map[string][]string{}, map[string]bool{}
	for _, g := range set {
		tools[g.Name] = append(tools[g.Name], g.names(ctx)...)
		active[g.Name] = state.Toolgroups[g.Name]
	}
	text, err := json.Marshal(map[string]any{"toolgroups": slices.Sorted(maps.Keys(tools)), "active": active, "tools": tools})
	return agent.TextResult(string(text)), err
}

// activate asks the toolsets of a group for their tools, so that the model learns why a
// server does not start.
func (set groupSet) activate(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	r := changed(inv, true)
	for _, g := range set {
		if !r.Toolgroups[g.Name] {
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

func (set groupSet) deactivate(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
	return changed(inv, false), nil
}

// changed returns the result of a call that activates or deactivates its toolgroup.
func changed(inv *agent.Invocation, active bool) agent.Result {
	name, _ := inv.Values()["toolgroup"].(string) // its schema requires it
	r := agent.TextResult(fmt.Sprintf("Toolgroup '%s' %s", name, map[bool]string{true: "activated", false: "deactivated"}[active]))
	r.Toolgroups = agent.Toolgroups{name: active}
	return r
}
