package agentfile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/exectool"
	"github.com/agents-exe/agents/pkg/jsondoc"
)

// policyTimeout is how long an external policy may take, if it declares no limit.
const policyTimeout = 10 * time.Second

// An externalPolicy is an executable that decides about calls.
type externalPolicy struct {
	passive
	path string
	kind string // of the file in a lock
	tool agent.Tool
	err  error // why there is no tool
}

func (p *externalPolicy) survey(s *surveyor, n *Node) {
	s.executed(p.kind, p.path, s.environ(n.File.Spec.ToolEnv), n.workDir)
}

func (p *externalPolicy) files() []string { return []string{p.path} }

func (p *externalPolicy) far() bool { return false }

func (p *externalPolicy) describe(ctx context.Context, l *loader, _ *Node) {
	opts := exectool.Options{Environ: l.environ(nil), DescribeTimeout: l.opts.Describe.Timeout, Slow: l.opts.Describe.Slow, Redact: l.redact}
	if l.opts.Folders.Cache != "" {
		opts.CacheDir = toolCache(l.opts.Folders.Cache)
	}
	set, err := exectool.Open(ctx, []exectool.Source{{Path: p.path, Timeout: policyTimeout}}, opts)
	switch {
	case err != nil:
		p.err = err
	case len(set.Problems()) > 0:
		p.err = errors.New(set.Problems()[0].Text())
	case len(set.List()) != 1:
		p.err = errors.New("it is not an executable")
	case !takesCall(set.List()[0].Spec()):
		p.err = errors.New(`its description has no argument "call"`)
	default:
		p.tool = l.locked(set.List()[0])
	}
}

// takesCall reports whether a tool has the argument of a policy.
func takesCall(spec agent.ToolSpec) bool {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	return json.Unmarshal(spec.Schema, &schema) == nil && schema.Properties["call"] != nil
}

// A policyCall is what an external policy is asked about.
type policyCall struct {
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args"`
	Effects agent.Effects   `json:"effects"`
	Source  string          `json:"source,omitempty"`
	Agent   string          `json:"agent"`
	Path    []string        `json:"path"`
	Key     string          `json:"key"`
	Dir     string          `json:"dir,omitempty"`
}

// Decide implements policy.Policy.
func (p *externalPolicy) Decide(ctx context.Context, inv *agent.Invocation) (agent.Verdict, error) {
	v, err := p.ask(ctx, inv)
	if err != nil {
		return agent.Verdict{}, fmt.Errorf("policy %s: %w", named(p.path), err)
	}
	v.Rule = "policy " + named(p.path)
	v.Reason = strings.TrimSpace(cmp.Or(v.Reason, string(v.Decision)) + " (" + v.Rule + ")")
	return v, nil
}

func (p *externalPolicy) ask(ctx context.Context, inv *agent.Invocation) (v agent.Verdict, err error) {
	if p.err != nil {
		return v, p.err
	}
	args, err := inv.Args()
	if err != nil {
		return v, err
	}
	call := policyCall{Tool: inv.Spec.Name, Effects: cmp.Or(inv.Spec.Effects, agent.EffectsOnce), Source: inv.Spec.Source,
		Agent: inv.Agent, Path: inv.Path, Key: inv.Key, Dir: inv.Dir}
	if call.Args, err = json.Marshal(args); err != nil {
		return v, err
	}
	text, err := json.Marshal(map[string]any{"call": call})
	if err != nil {
		return v, err
	}
	result, err := p.tool.Call(ctx, &agent.Invocation{Call: agent.ToolCall{ID: "policy", Name: p.tool.Spec().Name, Args: string(text)}, Spec: p.tool.Spec(),
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
