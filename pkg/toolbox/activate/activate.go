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
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

const (
	discoverName   = "meta_discover_tools"
	activateName   = "meta_activate_tool"
	deactivateName = "meta_deactivate_tool"
)

// A Group is a toolset that a session has while its toolgroup is active. Outside of a
// session, Tools returns all its tools. What else the toolset can do (see agent.As) it
// still can.
type Group struct {
	agent.Toolset
	// Name is that of the toolgroup. Several Groups may have the same.
	Name string
	// Names are those of the tools that the model may know of before the group is active.
	// Prefix begins the names of the others; "" if there are none.
	Names  []string
	Prefix string
	// On says that the toolgroup is active at the beginning of a session.
	On bool
}

// Unwrap returns the toolset: see agent.As.
func (g *Group) Unwrap() any { return g.Toolset }

func (g *Group) active(s *agent.State) bool {
	if on, changed := s.Toolgroups[g.Name]; changed {
		return on
	}
	return g.On
}

// SessionTools implements agent.SessionToolset.
func (g *Group) SessionTools(ctx context.Context, s *agent.State) ([]agent.Tool, error) {
	if !g.active(s) {
		return nil, nil
	}
	return g.Tools(ctx)
}

// Hidden implements agent.Hider.
func (g *Group) Hidden(s *agent.State, name string) error {
	if g.active(s) || !slices.Contains(g.Names, name) && (g.Prefix == "" || !strings.HasPrefix(name, g.Prefix)) {
		return nil
	}
	return fmt.Errorf("nothing ran: %.100s belongs to the toolgroup %q, which is not active; activate it with %s and call the tool in your next message", name, g.Name, activateName)
}

// Instructions implements agent.Instructor. The instructions of the toolset are in the
// result of the call that activates it, and before that it is not asked; those of a group
// that is active from the beginning are in the system prompt.
func (g *Group) Instructions(ctx context.Context) (string, error) {
	if in, ok := agent.As[agent.Instructor](g.Toolset); ok && g.On {
		return in.Instructions(ctx)
	}
	return "", nil
}

// Tools returns the tools with which the model activates groups. Their descriptions do not
// depend on what is active, so that the beginning of a request changes no more than it must.
// They are nil if there are none.
func Tools(groups []*Group) agent.ToolList {
	if len(groups) == 0 {
		return nil
	}
	var names []string
	for _, g := range groups {
		if !slices.Contains(names, g.Name) {
			names = append(names, g.Name)
		}
	}
	slices.Sort(names)
	enum, _ := json.Marshal(names) // strings
	named := json.RawMessage(`{"type":"object","properties":{"toolgroup":{"enum":` + string(enum) + `}},"required":["toolgroup"],"additionalProperties":false}`)
	tool := func(name, description string, schema json.RawMessage, call func(context.Context, *agent.Invocation) (agent.Result, error)) agent.Tool {
		return &meta{agent.ToolSpec{Name: name, Source: "toolgroups", Effects: agent.EffectsNone, Description: description, Schema: schema}, call}
	}
	set := groupSet(groups)
	return agent.ToolList{
		tool(discoverName, "Lists the toolgroups, the tools in them, and which are active.", json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
			func(_ context.Context, inv *agent.Invocation) (agent.Result, error) { return set.discover(names, inv) }),
		tool(activateName, "Activates a toolgroup: its tools are there from your next message on. Toolgroups: "+strings.Join(names, ", "), named, set.activate),
		tool(deactivateName, "Deactivates a toolgroup whose tools you no longer need.", named, set.deactivate),
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

func (set groupSet) discover(names []string, inv *agent.Invocation) (agent.Result, error) {
	state := inv.SessionState()
	out := struct {
		Toolgroups []string            `json:"toolgroups"`
		Active     []string            `json:"active"`
		Tools      map[string][]string `json:"tools"`
	}{names, []string{}, map[string][]string{}}
	for _, g := range set {
		if g.active(&state) && !slices.Contains(out.Active, g.Name) {
			out.Active = append(out.Active, g.Name)
		}
		list := g.Names
		if g.Prefix != "" {
			list = append(slices.Clip(list), g.Prefix+"*")
		}
		out.Tools[g.Name] = append(out.Tools[g.Name], list...)
	}
	text, err := json.Marshal(out)
	return agent.TextResult(string(text)), err
}

// activate asks the toolsets of a group for their tools, so that the model reads why a
// server does not start.
func (set groupSet) activate(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	name, err := toolgroup(inv)
	if err != nil {
		return agent.Result{}, err
	}
	text := fmt.Sprintf("Toolgroup '%s' activated", name)
	for _, g := range set {
		if g.Name != name {
			continue
		}
		if tools, err := g.Tools(ctx); err != nil && len(tools) == 0 {
			return agent.Result{}, fmt.Errorf("the toolgroup %q is not active: %w", name, err)
		}
		if in, ok := agent.As[agent.Instructor](g.Toolset); ok && !g.On {
			if more, err := in.Instructions(ctx); err == nil && strings.TrimSpace(more) != "" {
				text += "\n\n" + strings.TrimSpace(more)
			}
		}
	}
	r := agent.TextResult(text)
	r.Toolgroups = agent.Toolgroups{name: true}
	return r, nil
}

func (set groupSet) deactivate(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
	name, err := toolgroup(inv)
	if err != nil {
		return agent.Result{}, err
	}
	r := agent.TextResult(fmt.Sprintf("Toolgroup '%s' deactivated", name))
	r.Toolgroups = agent.Toolgroups{name: false}
	return r, nil
}

// toolgroup is the argument of the call, which fits its schema.
func toolgroup(inv *agent.Invocation) (string, error) {
	var args struct {
		Toolgroup string `json:"toolgroup"`
	}
	err := json.Unmarshal([]byte(inv.Call.Args), &args)
	return args.Toolgroup, err
}
