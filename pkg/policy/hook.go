package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// A Hook is an executable that runs at a moment of a run: see agent.Hook.
type Hook struct {
	Moment string // one of agent.HookMoments
	Name   string // for messages
	Tool   agent.Tool
	Err    error // why there is no Tool
}

// SetTool sets the Tool, unless its description lacks the argument of a hook.
func (h *Hook) SetTool(t agent.Tool) { h.Tool, h.Err = withArgument(t, "event") }

// AddHook adds a hook of an agent of this process, before r is used. Its moment is one of those of
// the Set.
func (r *Rights) AddHook(h Hook) { r.hooks = append(r.hooks, h) }

// Hooks implements agent.Hooked. Those of callers in other processes run there.
func (r *Rights) Hooks(moment string) (list []agent.Hook) {
	for i := range r.hooks {
		if h := &r.hooks[i]; h.Moment == moment {
			list = append(list, agent.Hook{Name: h.Name, Run: h.run})
		}
	}
	if len(r.hooks) == 0 && slices.ContainsFunc(r.sets, func(s Set) bool { return slices.Contains(s.Hooks, moment) }) {
		list = append(list, agent.Hook{Name: "of the caller"})
	}
	return list
}

func (h *Hook) run(ctx context.Context, c *agent.HookCall) (agent.HookAnswer, error) {
	if h.Err != nil {
		return agent.HookAnswer{}, h.Err
	}
	event := struct {
		*agent.HookCall
		Args json.RawMessage `json:"args,omitempty"`
	}{c, json.RawMessage(c.Args)}
	if c.Tool != "" && c.Args == "" {
		event.Args = json.RawMessage("{}")
	}
	var args bytes.Buffer
	enc := json.NewEncoder(&args)
	enc.SetEscapeHTML(false) // a hook reads the characters that the tool gets
	if err := enc.Encode(map[string]any{"event": event}); err != nil {
		return agent.HookAnswer{}, err
	}
	spec := h.Tool.Spec()
	result, err := h.Tool.Call(ctx, &agent.Invocation{Call: agent.ToolCall{ID: "hook", Name: spec.Name, Args: args.String()}, Spec: spec,
		Key: c.Key + ".hook", Session: c.Session, Agent: c.Agent})
	if err != nil {
		return agent.HookAnswer{}, err
	}
	return readHook(c.Hook, result.Text())
}

// readHook reads what a hook prints: one object, whose keys depend on the moment.
func readHook(moment, text string) (a agent.HookAnswer, err error) {
	doc, err := jsondoc.Parse([]byte(text), jsondoc.Options{MaxBytes: 1 << 20, MaxDepth: 1000, Strict: true})
	if err != nil {
		return a, fmt.Errorf("its output is not an answer: %w", err)
	}
	if doc.Root.Kind() != "object" {
		return a, fmt.Errorf("its output is a JSON %s; want an object", doc.Root.Kind())
	}
	want := map[string]string{}
	switch moment {
	case agent.HookBeforeCall:
		want = map[string]string{"deny": "string", "args": "object"}
	case agent.HookAfterCall:
		want = map[string]string{"result": "string"}
	case agent.HookBeforePrompt:
		want = map[string]string{"deny": "string", "context": "string"}
	case agent.HookSessionStart:
		want = map[string]string{"context": "string"}
	}
	for _, m := range doc.Root.Children {
		if want[m.Name] != m.Kind() {
			return agent.HookAnswer{}, fmt.Errorf("its output has the key %.50q with a JSON %s, which has no meaning at %s", m.Name, m.Kind(), moment)
		}
		switch m.Name {
		case "deny":
			if a.Deny = m.Text(); a.Deny == "" {
				a.Deny = "denied"
			}
		case "args":
			a.Args = string(doc.Raw(m))
		case "result":
			result := m.Text()
			a.Result = &result
		case "context":
			a.Context = m.Text()
		}
	}
	return a, nil
}
