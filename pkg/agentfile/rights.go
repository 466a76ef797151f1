package agentfile

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/agents-exe/agents/pkg/policy"
)

// Rights say what the root agent may do, beside its file: the cfg file and flags.
type Rights struct {
	Rules []*policy.Rule
	// Approval is that of the cfg file: the stricter of it and that of the root's file
	// counts. Chosen is that of a flag and replaces both. Default counts if none is set.
	Approval, Chosen, Default policy.Approval
	// Policies are the absolute paths of external policies.
	Policies []string
}

// rights reads what n may do. A rule that cannot be used makes the agent unusable.
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
		at := policy.Place{Source: fmt.Sprintf("%s: permissions[%d]", named(f.Path), i), Dir: dir, Home: lookup(l.opts.Environ, "HOME")}
		rule, err := policy.ParseRule(text, at)
		if wrong, isRule := errors.AsType[*policy.RuleError](err); isRule {
			report(fmt.Sprintf("%s/%d%s", f.at("permissions"), i, wrong.Pointer), "%s", wrong.Message)
			continue
		}
		set.Rules = append(set.Rules, rule)
	}
	for i, name := range s.Policy {
		pointer := fmt.Sprintf("%s/%d", f.at("policy"), i)
		if len(s.Policy) == 1 {
			pointer = f.at("policy")
		}
		path, found := l.resolve(n, pointer, name, n.unusable())
		if ok = ok && found; found {
			n.policies = append(n.policies, &externalPolicy{path: path})
		}
	}
	if len(n.stack) == 1 {
		r := &l.opts.Rights
		for _, path := range r.Policies {
			n.policies = append(n.policies, &externalPolicy{path: path})
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

// Policies are the paths of the external policies of n.
func (n *Node) Policies() []string {
	paths := make([]string, len(n.policies))
	for i, p := range n.policies {
		paths[i] = p.path
	}
	return paths
}

// grant gives n's agent its rights.
func (l *loader) grant(n *Node) {
	n.level.Policy = len(n.policies) > 0
	if n.level.Empty() {
		return
	}
	var policies []policy.Policy
	for _, p := range n.policies {
		policies = append(policies, p)
		if p.err != nil {
			l.report(Problem{Severity: LeftOut, Code: CodeRights, File: p.path, Message: "every call is denied: " + p.err.Error()})
		}
	}
	rights, err := policy.New(n.level, policies...)
	if err != nil {
		panic(err) // what was read from JSON can be written
	}
	n.Agent.Rights = rights
}
