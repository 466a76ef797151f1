// Package activate hides tools until the model activates them. A [Group] is a toolset that
// is part of a toolgroup; [Tools] are meta_discover_tools, meta_activate_tool and
// meta_deactivate_tool, with which the model does it.
//
// Which toolgroups are active is part of the session: the result of a call says what it
// changes (see [agent.Result]), so a resumed, forked or replayed session has the same tools,
// and it outlasts a compaction. The toolsets keep nothing. A toolset in a group that is not
// active is not asked for anything: an MCP server does not start.
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

// A Group is a toolset that a session has while its toolgroup is active. Outside of a
// session, Tools returns all its tools. What else the toolset can do (see agent.As) it
// still can.
type Group struct {
	agent.Toolset
	// Name is that of the toolgroup. Several Groups may have the same.
	Name string
	// Prefix begins the names of tools of which the toolset must not be asked before the
	// group is active; "" if it may be asked.
	Prefix string
	// Hides, if it is not nil, says of which tools the model must not know at all.
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

// names are those of the tools, as far as they are known: a * stands for any text.
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

// Instructions implements agent.Instructor. Those of the toolset are in the result of the
// call that activates it.
func (g *Group) Instructions(context.Context) (string, error) { return "", nil }

// Tools returns the tools with which the model activates groups. Their descriptions do not
// depend on what is active, so that the beginning of a request changes no more than it must.
// They are nil if there are none.
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

// activate asks the toolsets of a group for their tools, so that the model reads why a
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

// changed is the result of a call whose toolgroup is active from then on, or is not.
func changed(inv *agent.Invocation, active bool) agent.Result {
	name, _ := inv.Values()["toolgroup"].(string) // its schema requires it
	r := agent.TextResult(fmt.Sprintf("Toolgroup '%s' %s", name, map[bool]string{true: "activated", false: "deactivated"}[active]))
	r.Toolgroups = agent.Toolgroups{name: active}
	return r
}
