package policy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// An External policy is an executable that decides about calls.
type External struct {
	Name string // for messages
	Tool agent.Tool
	Err  error // why there is no Tool
}

// SetTool sets the Tool, unless its description lacks the argument of a policy.
func (p *External) SetTool(t agent.Tool) { p.Tool, p.Err = withArgument(t, "call") }

// withArgument returns t, or an error if its description lacks an argument.
func withArgument(t agent.Tool, name string) (agent.Tool, error) {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(t.Spec().Schema, &schema) != nil || schema.Properties[name] == nil {
		return nil, fmt.Errorf("its description has no argument %q", name)
	}
	return t, nil
}

// An externalCall is what an external policy is asked about.
type externalCall struct {
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args"`
	Effects agent.Effects   `json:"effects"`
	Source  string          `json:"source,omitempty"`
	Agent   string          `json:"agent"`
	Path    []string        `json:"path"`
	Key     string          `json:"key"`
	Dir     string          `json:"dir,omitempty"`
}

// Decide implements Policy.
func (p *External) Decide(ctx context.Context, inv *agent.Invocation) (agent.Verdict, error) {
	v, err := p.ask(ctx, inv)
	if err != nil {
		return agent.Verdict{}, fmt.Errorf("policy %s: %w", p.Name, err)
	}
	v.Rule = "policy " + p.Name
	v.Reason = strings.TrimSpace(cmp.Or(v.Reason, string(v.Decision)) + " (" + v.Rule + ")")
	return v, nil
}

func (p *External) ask(ctx context.Context, inv *agent.Invocation) (v agent.Verdict, err error) {
	if p.Err != nil {
		return v, p.Err
	}
	args, err := inv.Args()
	if err != nil {
		return v, err
	}
	call := externalCall{Tool: inv.Spec.Name, Effects: cmp.Or(inv.Spec.Effects, agent.EffectsOnce), Source: inv.Spec.Source,
		Agent: inv.Agent, Path: inv.Path, Key: inv.Key, Dir: inv.Dir}
	if call.Args, err = json.Marshal(args); err != nil {
		return v, err
	}
	text, err := json.Marshal(map[string]any{"call": call})
	if err != nil {
		return v, err
	}
	result, err := p.Tool.Call(ctx, &agent.Invocation{Call: agent.ToolCall{ID: "policy", Name: p.Tool.Spec().Name, Args: string(text)}, Spec: p.Tool.Spec(),
		Key: inv.Key + ".policy", Session: inv.Session, Agent: inv.Agent, Turn: inv.Turn, Depth: inv.Depth, Level: inv.Level, Trace: inv.Trace})
	if err != nil {
		return v, err
	}
	return readVerdict(result.Text())
}

// readVerdict reads what a policy prints: one object with the keys verdict and reason, each once.
func readVerdict(text string) (v agent.Verdict, err error) {
	doc, err := jsondoc.Parse([]byte(text), jsondoc.Options{MaxBytes: 1 << 20, MaxDepth: 50, Strict: true})
	if err != nil {
		return v, fmt.Errorf("its output is not a verdict: %w", err)
	}
	for _, m := range doc.Root.Children {
		if m.Name != "verdict" && m.Name != "reason" || m.Kind() != "string" {
			return v, fmt.Errorf("its output is not a verdict: it has the key %.50q with a JSON %s; want verdict and reason, both strings", m.Name, m.Kind())
		}
	}
	v = agent.Verdict{Decision: agent.Decision(doc.Root.Member("verdict").Text()), Reason: doc.Root.Member("reason").Text()}
	switch v.Decision {
	case agent.Allow, agent.AskPerson, agent.Deny:
		return v, nil
	}
	return v, fmt.Errorf("its verdict is %.50q, not allow, ask or deny", v.Decision)
}

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
func (r *Sets) AddHook(h Hook) { r.hooks = append(r.hooks, h) }

// Hooks implements agent.Hooked. Those of callers in other processes run there.
func (r *Sets) Hooks(moment string) (list []agent.Hook) {
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
