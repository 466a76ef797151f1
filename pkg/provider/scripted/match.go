package scripted

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// A view is what rules see of a conversation. Line breaks at the end of its texts
// are removed: nearly all prompts and outputs of tools end with one.
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
			texts = append(texts, trim(r.Answer()))
		}
		v.text = strings.Join(texts, "\n")
	}
	return v
}

func trim(s string) string { return strings.TrimRight(s, "\r\n") }

func (v *view) result(r *ref) (string, error) {
	if r.tool == "" {
		if r.nth >= len(v.last) {
			return "", fmt.Errorf("the last message has %d results", len(v.last))
		}
		return trim(v.last[r.nth].Answer()), nil
	}
	found := slices.DeleteFunc(slices.Clone(v.since), func(res agent.ToolResult) bool { return res.Name != r.tool })
	nth := r.nth
	if nth < 0 {
		nth = len(found) - 1
	}
	switch {
	case len(found) == 0:
		return "", fmt.Errorf("there is no result of %s since the prompt; %s", r.tool, names(v.since))
	case nth >= len(found):
		return "", fmt.Errorf("there are %d results of %s since the prompt", len(found), r.tool)
	}
	return trim(found[nth].Answer()), nil
}

func names(results []agent.ToolResult) string {
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

type pattern struct {
	*regexp.Regexp
	source string
}

// String quotes the pattern for messages.
func (p *pattern) String() string { return short(p.source) }

// A when holds the keys of a rule's "when" that are set.
type when struct {
	*patterns
	agent, tool *pattern
	turn        int
	role        string
	failed      *bool
}

// A condition is one key of a rule's "when".
type condition struct {
	key   string
	holds func(*view) bool
	// found explains what the conversation has instead.
	found func(*view) string
}

func (w *when) conditions() (all []condition) {
	add := func(key string, holds func(*view) bool, found func(*view) string) {
		all = append(all, condition{key, holds, found})
	}
	if p := w.agent; p != nil {
		add("agent", func(v *view) bool { return p.MatchString(v.req.Agent) },
			func(v *view) string { return fmt.Sprintf("%s is not the agent, which is %q", p, v.req.Agent) })
	}
	if n := w.turn; n > 0 {
		add("turn", func(v *view) bool { return v.req.Turn == n },
			func(v *view) string { return fmt.Sprintf("it is turn %d, not %d", v.req.Turn, n) })
	}
	if role := agent.Role(w.role); role != "" {
		add("role", func(v *view) bool { return v.role == role },
			func(v *view) string { return fmt.Sprintf("the last message is of %q, not %q", v.role, role) })
	}
	if p := w.prompt; p != nil {
		add("prompt", func(v *view) bool { return p.MatchString(v.prompt) },
			func(v *view) string { return fmt.Sprintf("%s does not match the prompt, %s", p, short(v.prompt)) })
	}
	if p := w.last; p != nil {
		add("lastMessage", func(v *view) bool { return p.MatchString(v.text) },
			func(v *view) string { return fmt.Sprintf("%s does not match the last message, %s", p, short(v.text)) })
	}
	if p := w.tool; p != nil {
		add("tool", func(v *view) bool { return len(v.of(p)) > 0 },
			func(v *view) string { return fmt.Sprintf("%s has no result in the last message; %s", p, names(v.last)) })
	}
	if p, want := w.tool, w.failed; want != nil {
		add("failed", func(v *view) bool {
			results := v.of(p)
			return len(results) > 0 && *want == slices.ContainsFunc(results, func(r agent.ToolResult) bool { return r.Failed })
		}, func(v *view) string { return fmt.Sprintf("it must be %v; %s", *want, names(v.last)) })
	}
	return all
}

// of returns the last results of the tools that p matches, all if it is nil.
func (v *view) of(p *pattern) []agent.ToolResult {
	if p == nil {
		return v.last
	}
	return slices.DeleteFunc(slices.Clone(v.last), func(r agent.ToolResult) bool { return !p.MatchString(r.Name) })
}

func (r *rule) fits(v *view) bool {
	return !slices.ContainsFunc(r.conditions, func(c condition) bool { return !c.holds(v) })
}

func (p *Provider) unmatched(v *view) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var near *rule
	var misses []string
	held := 0
	for _, r := range p.Script.rules {
		m := r.misses(v, p.uses[use{v.req.Session, r}])
		h := len(r.conditions) - len(m)
		if near == nil || len(m) < len(misses) || len(m) == len(misses) && h > held {
			near, misses, held = r, m, h
		}
	}
	last := fmt.Sprintf("the last message, of %q, is %s", v.role, short(v.text))
	if len(v.last) > 0 {
		last += " (" + names(v.last) + ")"
	}
	return &agent.ModelError{Err: ErrNoRule, Message: fmt.Sprintf(
		"no rule of %s fits turn %d of agent %q: the nearest, %s, does not because of %s; %s",
		p.Script.name, v.req.Turn, v.req.Agent, near, strings.Join(misses, " and "), last)}
}

// misses explains which conditions do not hold.
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
