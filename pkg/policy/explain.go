package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Line describes the decision about some calls of a tool.
type Line struct {
	Decision agent.Decision
	// Calls describes the calls: "command git status"; "" means all.
	Calls string
	// Source is the rule, or the file.
	Source string
}

// Explain returns what each set decides about the calls of the tool and agent in inv, the
// strictest first. inv has no arguments.
func (r *Rights) Explain(inv *agent.Invocation) []Line {
	var lines []Line
	for i, rules := range r.about(inv.Spec.Name) {
		lines = append(lines, r.sets[i].explain(inv, rules)...)
	}
	return lines
}

func (s *Set) explain(inv *agent.Invocation, rules []*Rule) []Line {
	var lines []Line
	named, whole := false, false
	for _, verdict := range []agent.Decision{agent.Deny, agent.AskPerson, agent.Allow} {
		for _, r := range rules {
			if r.Verdict != verdict {
				continue
			}
			named = named || verdict == agent.Allow
			if !r.concerns(inv) || whole {
				continue
			}
			calls := r.calls()
			lines = append(lines, Line{verdict, calls, r.Source})
			whole = calls == ""
		}
	}
	if whole {
		return lines
	}
	rest := s.approve(inv)
	if named {
		rest.Decision = agent.AskPerson
	}
	calls := "otherwise"
	if len(lines) == 0 {
		calls = "no rule"
	}
	if rest.Approval != "" {
		calls += ", approval " + rest.Approval
	}
	return append(lines, Line{rest.Decision, calls, s.Source})
}

// calls describes which calls of a tool match the rule, "" if all do.
func (r *Rule) calls() string {
	var parts []string
	if len(r.Command) > 0 {
		parts = append(parts, "command "+strings.Join(r.Command, " "))
	}
	for _, pointer := range slices.Sorted(maps.Keys(r.Args)) {
		condition, _ := json.Marshal(r.Args[pointer]) // it came from JSON
		parts = append(parts, fmt.Sprintf("%s %s", pointer, condition))
	}
	return strings.Join(parts, " and ")
}
