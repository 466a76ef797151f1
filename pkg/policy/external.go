package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
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
