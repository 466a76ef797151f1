package scripted

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// view is what rules see of a conversation. Its texts have no line breaks at
// their ends: prompts and the output of tools nearly always end with one that
// nobody means.
type view struct {
	req    *agent.Request
	role   agent.Role
	text   string // of the last message
	prompt string // the last user message
	last   []agent.ToolResult
	since  []agent.ToolResult // since the last user message
}

func newView(req *agent.Request) *view {
	v := &view{req: req}
	start := len(req.Messages)
	for start > 0 && req.Messages[start-1].Role != agent.RoleUser {
		start--
	}
	if start > 0 {
		v.prompt = trim(req.Messages[start-1].Text())
	}
	for _, m := range req.Messages[start:] {
		v.since = append(v.since, m.Results...)
	}
	if n := len(req.Messages); n > 0 {
		m := req.Messages[n-1]
		v.role, v.last, v.text = m.Role, m.Results, trim(m.Text())
	}
	if len(v.last) > 0 {
		var texts []string
		for _, r := range v.last {
			texts = append(texts, trim(r.Text()))
		}
		v.text = strings.Join(texts, "\n")
	}
	return v
}

func trim(s string) string { return strings.TrimRight(s, "\r\n") }

// tools names what the model may call.
func (v *view) tools() string {
	var names []string
	for _, t := range v.req.Tools {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

// result is the text of a result.
func (v *view) result(r *ref) (string, error) {
	if r.tool == "" {
		if r.nth >= len(v.last) {
			return "", fmt.Errorf("the last message has %d results", len(v.last))
		}
		return trim(v.last[r.nth].Text()), nil
	}
	var found []string
	for _, res := range v.since {
		if res.Name == r.tool {
			found = append(found, res.Text())
		}
	}
	switch {
	case len(found) == 0:
		return "", fmt.Errorf("there is no result of %s since the prompt; %s", r.tool, v.names(v.since))
	case r.nth < 0:
		return trim(found[len(found)-1]), nil
	case r.nth >= len(found):
		return "", fmt.Errorf("there are %d results of %s since the prompt", len(found), r.tool)
	}
	return trim(found[r.nth]), nil
}

// names says whose results there are, for messages.
func (v *view) names(results []agent.ToolResult) string {
	const limit = 5
	var names []string
	for i, r := range results {
		if i == limit {
			names = append(names, fmt.Sprintf("%d more", len(results)-limit))
			break
		}
		name := r.Name
		if r.Failed {
			name += " (failed)"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return "there are no results"
	}
	return "there are results of " + strings.Join(names, ", ")
}

// condition is one key of a rule's "when".
type condition struct {
	key   string
	holds func(*view) bool
	// found is what the conversation has instead.
	found func(*view) string
}

func agentCondition(re *regexp.Regexp, pattern string) condition {
	return condition{"agent",
		func(v *view) bool { return re.MatchString(v.req.Agent) },
		func(v *view) string {
			return fmt.Sprintf("%s is not the agent, which is %q", short(pattern), v.req.Agent)
		}}
}

func turnCondition(n int) condition {
	return condition{"turn",
		func(v *view) bool { return v.req.Turn == n },
		func(v *view) string { return fmt.Sprintf("it is turn %d, not %d", v.req.Turn, n) }}
}

func roleCondition(role agent.Role) condition {
	return condition{"role",
		func(v *view) bool { return v.role == role },
		func(v *view) string { return fmt.Sprintf("the last message is of %q, not %q", v.role, role) }}
}

func lastCondition(re *regexp.Regexp) condition {
	return condition{"lastMessage",
		func(v *view) bool { return re.MatchString(v.text) },
		func(v *view) string {
			return fmt.Sprintf("%s does not match the last message, %s", short(re.String()), short(v.text))
		}}
}

func promptCondition(re *regexp.Regexp) condition {
	return condition{"prompt",
		func(v *view) bool { return re.MatchString(v.prompt) },
		func(v *view) string {
			return fmt.Sprintf("%s does not match the prompt, %s", short(re.String()), short(v.prompt))
		}}
}

func toolCondition(re *regexp.Regexp, pattern string) condition {
	return condition{"tool",
		func(v *view) bool { return len(v.of(re)) > 0 },
		func(v *view) string {
			return fmt.Sprintf("%s has no result in the last message; %s", short(pattern), v.names(v.last))
		}}
}

// failedCondition looks at the results of the tools that re names, of all if it
// is nil.
func failedCondition(re *regexp.Regexp, want bool) condition {
	return condition{"failed",
		func(v *view) bool {
			results := v.of(re)
			failed := false
			for _, r := range results {
				failed = failed || r.Failed
			}
			return len(results) > 0 && failed == want
		},
		func(v *view) string {
			return fmt.Sprintf("it must be %v; %s", want, v.names(v.last))
		}}
}

// of returns those of the last results whose tool re names.
func (v *view) of(re *regexp.Regexp) []agent.ToolResult {
	if re == nil {
		return v.last
	}
	var found []agent.ToolResult
	for _, r := range v.last {
		if re.MatchString(r.Name) {
			found = append(found, r)
		}
	}
	return found
}

func (r *rule) fits(v *view) bool {
	for _, c := range r.conditions {
		if !c.holds(v) {
			return false
		}
	}
	return true
}

// unmatched is the error for a conversation that no rule fits. used tells how
// often a rule was used in this session.
func (s *Script) unmatched(v *view, used map[*rule]int) error {
	var near *rule
	var misses []string
	held := 0
	for _, r := range s.rules {
		m := r.misses(v, used[r])
		h := len(r.conditions) - len(m)
		if near == nil || len(m) < len(misses) || len(m) == len(misses) && h > held {
			near, misses, held = r, m, h
		}
	}
	last := fmt.Sprintf("the last message, of %q, is %s", v.role, short(v.text))
	if len(v.last) > 0 {
		last += " (" + v.names(v.last) + ")"
	}
	return &agent.ModelError{Err: ErrNoRule, Message: fmt.Sprintf(
		"no rule of %s fits turn %d of agent %q: the nearest, %s, does not because of %s; %s",
		s.name, v.req.Turn, v.req.Agent, near, strings.Join(misses, " and "), last)}
}

// misses says which conditions do not hold, and why.
func (r *rule) misses(v *view, used int) []string {
	var all []string
	for _, c := range r.conditions {
		if !c.holds(v) {
			all = append(all, c.key+": "+c.found(v))
		}
	}
	if r.times > 0 && used >= r.times {
		all = append(all, fmt.Sprintf("times: it was used %d times in this session", used))
	}
	return all
}
