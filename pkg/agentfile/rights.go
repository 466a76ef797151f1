package agentfile

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/policy"
)

// RootRights are the rights of the root agent from the cfg file and flags.
type RootRights struct {
	Rules []*policy.Rule
	// Approval is the one in the cfg file; the stricter of it and the one in the root's
	// file applies. Chosen comes from a flag and replaces both. Default applies if none
	// is set.
	Approval, Chosen, Default policy.Approval
	// Policies are the absolute paths of external policies.
	Policies []string
}

// rights reads the rights of n. A rule that is not valid makes the agent unusable.
func (l *loader) rights(n *Node) bool {
	s, f := n.File.Spec, n.File
	set := policy.Set{Source: named(f.Path), Approval: s.Approval}
	ok := true
	report := func(pointer, format string, args ...any) {
		l.report(f.problem(n.unusable(), CodeRights, pointer, format, args...))
		ok = false
	}
	dir, err := filepath.Abs(n.workDir)
	if err != nil {
		report(f.at("permissions"), "%s", err)
	}
	for i, text := range s.Permissions {
		at := policy.Place{Source: fmt.Sprintf("%s: permissions[%d]", named(f.Path), i), Dir: dir, Home: toolenv.Lookup(l.opts.Environ, "HOME")}
		rule, err := policy.ParseRule(text, at)
		if wrong, isRule := errors.AsType[*policy.RuleError](err); isRule {
			report(fmt.Sprintf("%s/%d%s", f.at("permissions"), i, wrong.Pointer), "%s", wrong.Message)
			continue
		}
		set.Rules = append(set.Rules, rule)
	}
	var external Paths
	f.Part("policy", &external)
	for i, name := range external {
		pointer := f.at("policy")
		if len(external) > 1 {
			pointer = fmt.Sprintf("%s/%d", pointer, i)
		}
		path, found := l.resolve(n, pointer, name, n.unusable())
		if ok = ok && found; found {
			n.add(newPolicy(path, KindPolicy))
		}
	}
	ok = l.hooks(n) && ok
	if len(n.stack) == 1 {
		r := &l.opts.Rights
		for _, path := range r.Policies {
			n.add(newPolicy(path, KindProgram))
		}
		set.Rules = append(set.Rules, r.Rules...)
		if set.Approval = set.Approval.Stricter(r.Approval); r.Chosen != "" {
			set.Approval = r.Chosen
		}
		if set.Approval == "" {
			set.Approval = r.Default
		}
	}
	n.level = set
	return ok
}

// Approval returns when a person is asked about calls of n that no rule covers.
func (n *Node) Approval() policy.Approval { return n.level.Approval }

// Policies are the paths of the external policies of n.
func (n *Node) Policies() []string {
	var paths []string
	for _, p := range sourcesOf[*externalPolicy](n) {
		paths = append(paths, p.path)
	}
	return paths
}

// nameTools warns about rules in agent files for tools that neither the agent nor any
// below it has. It must know the tools of all of them: those of agents in other processes
// and of servers that did not start are unknown.
func (t *Tree) nameTools() {
	if slices.ContainsFunc(t.Problems, func(p Problem) bool { return p.Code == CodeStart }) {
		return
	}
	for _, n := range t.Nodes {
		var names []string
		below := map[*Node]bool{}
		var walk func(*Node)
		walk = func(n *Node) {
			below[n] = true
			for _, spec := range n.Tools {
				_, bare, _ := strings.Cut(spec.Name, "_")
				names = append(names, spec.Name, bare)
			}
			for _, h := range n.Helpers {
				if !below[h] {
					walk(h)
				}
			}
		}
		walk(n)
		if slices.ContainsFunc(t.Nodes, func(n *Node) bool {
			return below[n] && slices.ContainsFunc(n.Tools, func(s agent.ToolSpec) bool { return s.Channel > 0 })
		}) {
			continue
		}
		for i, r := range n.level.Rules[:min(len(n.File.Spec.Permissions), len(n.level.Rules))] { // flags and the cfg file follow
			if r.Tool != "" && !strings.ContainsAny(r.Tool, "*?") && !slices.ContainsFunc(names, r.Names) {
				pointer := fmt.Sprintf("%s/%d/tool", n.File.at("permissions"), i)
				t.Problems = append(t.Problems, n.File.problem(Warning, CodeRights, pointer, "%s and the agents below it have no tool %q%s", n.Agent.Slug, r.Tool, closest.Hint(r.Tool, names)))
			}
		}
	}
}

// grant gives n's agent its rights.
func (l *loader) grant(n *Node) {
	external := sourcesOf[*externalPolicy](n)
	n.level.Policy = len(external) > 0
	hooks := sourcesOf[*hook](n)
	for _, h := range hooks {
		if !slices.Contains(n.level.Hooks, h.Moment) {
			n.level.Hooks = append(n.level.Hooks, h.Moment)
		}
	}
	if n.level.Empty() {
		return
	}
	var policies []policy.Policy
	for _, p := range external {
		policies = append(policies, p)
		if p.Err != nil {
			l.report(Problem{Severity: LeftOut, Code: CodeRights, File: p.path, Message: "every call is denied: " + p.Err.Error()})
		}
	}
	rights, err := policy.New(n.level, policies...)
	if err != nil {
		panic(err) // what was read from JSON can be written
	}
	for _, h := range hooks {
		rights.AddHook(h.Hook)
		if h.Err != nil {
			l.report(Problem{Severity: LeftOut, Code: CodeRights, File: h.path, Message: "the hook fails each time: " + h.Err.Error()})
		}
	}
	n.Agent.Rights = rights
}
