package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/pkg/leaf/glob"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
)

// A Rule is one of the permissions. An empty field matches every call.
type Rule struct {
	// Verdict is what happens to a call that matches all other fields.
	Verdict agent.Decision `json:"verdict"`
	// Tool is a glob for the tool's name, with or without "bash_", "expert_" or "io_prompt_agent_" in front.
	Tool string `json:"tool,omitempty"`
	// Args are conditions for arguments, by JSON pointer.
	Args map[string]Condition `json:"args,omitempty"`
	// Command holds the first words of the command that the tool runs: see the package
	// comment.
	Command []string `json:"command,omitempty"`
	// Effects are effects of which the tool must declare one.
	Effects []agent.Effects `json:"effects,omitempty"`
	// Agent is a glob for the slug of the agent that makes the call, and Path one for the
	// slugs from the root to it, with slashes between them.
	Agent string `json:"agent,omitempty"`
	Path  string `json:"path,omitempty"`
	// Reviewer "human" means that only a person can answer, in a rule that asks.
	Reviewer string `json:"reviewer,omitempty"`
	// Reason is for the person and the model.
	Reason string `json:"reason,omitempty"`
	// Match and NotMatch are examples, which were checked when the rule was read.
	Match    []json.RawMessage `json:"match,omitempty"`
	NotMatch []json.RawMessage `json:"not_match,omitempty"`
	// Source is where the rule is defined: "agent.json: permissions[2]". The reader of
	// the file sets it.
	Source string `json:"source,omitempty"`

	tool, agent, path glob.Pattern
	conditions        []condition
}

// A Condition restricts an argument. All fields that are set must match. In a list, every
// item must match for an allow rule; for other rules, one item is enough.
type Condition struct {
	Glob string `json:"glob,omitempty"`
	// Regexp must match the whole value in an allow rule, and any part of it in others.
	Regexp string `json:"regexp,omitempty"`
	// Inside is a folder in which the path must be, after all links are followed.
	Inside string       `json:"inside,omitempty"`
	Min    *json.Number `json:"min,omitempty"`
	Max    *json.Number `json:"max,omitempty"`
	OneOf  []any        `json:"oneOf,omitempty"`
}

// A Place is where a rule is defined.
type Place struct {
	// Source is the text for Rule.Source.
	Source string
	// Dir is the absolute working directory of the tools, where a relative Inside starts.
	// Home is the folder that ~ means; "" if it is not known.
	Dir, Home string
}

// A RuleError is a rule that cannot be used.
type RuleError struct {
	Source  string
	Pointer string // in the rule
	Message string
}

// Error is "SOURCE: /args/~1path/regexp: MESSAGE".
func (e *RuleError) Error() string {
	s := e.Source
	if e.Pointer != "" {
		s += ": " + e.Pointer
	}
	return strings.TrimPrefix(s+": "+e.Message, ": ")
}

var (
	ruleKeys      = []string{"verdict", "tool", "args", "command", "effects", "agent", "path", "reviewer", "reason", "match", "not_match", "source"}
	conditionKeys = []string{"glob", "regexp", "inside", "min", "max", "oneOf"}
)

// ParseRule reads a rule and checks its examples. The error is a *RuleError.
func ParseRule(text []byte, at Place) (*Rule, error) {
	r := &Rule{}
	fail := func(pointer, format string, args ...any) (*Rule, error) {
		return nil, &RuleError{at.Source, pointer, fmt.Sprintf(format, args...)}
	}
	doc, err := jsondoc.Parse(text, jsondoc.Options{MaxBytes: 1 << 20, MaxDepth: 50, Strict: true})
	if err != nil {
		return fail("", "%s", err)
	}
	if doc.Root.Kind() != "object" {
		return fail("", "got a JSON %s, want an object with the key verdict", doc.Root.Kind())
	}
	if pointer, err := unknownKey(doc.Root); err != nil {
		return fail(pointer, "%s", err)
	}
	exact := json.NewDecoder(bytes.NewReader(text))
	exact.UseNumber() // in oneOf
	if err := exact.Decode(r); err != nil {
		if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fail("/"+strings.ReplaceAll(t.Field, ".", "/"), "got a JSON %s, which is not valid here", t.Value)
		}
		return fail("", "%s", err)
	}
	r.Source = at.Source
	if pointer, err := r.compile(at); err != nil {
		return fail(pointer, "%s", err)
	}
	if pointer, err := r.checkExamples(); err != nil {
		return fail(pointer, "%s", err)
	}
	return r, nil
}

// unknownKey finds a key that a rule does not have.
func unknownKey(rule *jsondoc.Node) (pointer string, err error) {
	check := func(n *jsondoc.Node, known []string, pointer string) (string, error) {
		for _, m := range n.Children {
			if !slices.Contains(known, m.Name) {
				return pointer + jsondoc.JoinPointer(m.Name), fmt.Errorf("a rule has no such key%s", closest.Hint(m.Name, known))
			}
		}
		return "", nil
	}
	if pointer, err := check(rule, ruleKeys, ""); err != nil {
		return pointer, err
	}
	if args := rule.Member("args"); args != nil && args.Kind() == "object" {
		for _, m := range args.Children {
			if pointer, err := check(m, conditionKeys, jsondoc.JoinPointer("args", m.Name)); err != nil {
				return pointer, err
			}
		}
	}
	return "", nil
}

func (r *Rule) compile(at Place) (pointer string, err error) {
	switch r.Verdict {
	case agent.Allow, agent.Deny, agent.AskPerson:
	case "":
		return "", errors.New("the key verdict is missing: allow, ask or deny")
	default:
		return "/verdict", fmt.Errorf("got %q, want allow, ask or deny", r.Verdict)
	}
	if bare := strings.NewReplacer("*", "", "?", "").Replace(r.Tool); bare != "" && !toolname.Valid(bare) {
		return "/tool", fmt.Errorf("%q matches no name: names consist of letters, digits, _ and -", r.Tool)
	}
	for i, e := range r.Effects {
		if e != agent.EffectsNone && e != agent.EffectsIdempotent && e != agent.EffectsOnce {
			return fmt.Sprintf("/effects/%d", i), fmt.Errorf("got %q, want none, idempotent or once", e)
		}
	}
	if r.Reviewer != "" && (r.Reviewer != "human" || r.Verdict != agent.AskPerson) {
		return "/reviewer", errors.New(`it can only be "human", in a rule whose verdict is ask`)
	}
	if r.Command != nil && (len(r.Command) == 0 || r.Command[0] == "") {
		return "/command", errors.New("it is empty; want the first words of a command")
	}
	r.tool, r.agent, r.path = glob.New(cmp.Or(r.Tool, "**")), glob.New(r.Agent), glob.New(r.Path)
	for _, key := range slices.Sorted(maps.Keys(r.Args)) {
		c := r.Args[key]
		if c.Inside, err = absolute(c.Inside, at); err != nil {
			return jsondoc.JoinPointer("args", key, "inside"), err
		}
		r.Args[key] = c
		compiled, field, err := c.compile(key, r.Verdict == agent.Allow)
		if err != nil {
			return jsondoc.JoinPointer("args", key) + field, err
		}
		compiled.home = at.Home
		r.conditions = append(r.conditions, compiled)
	}
	return "", nil
}

// absolute returns the folder that an Inside means.
func absolute(path string, at Place) (string, error) {
	rest, home := strings.CutPrefix(path, "~")
	switch {
	case path == "":
		return "", nil
	case home && rest != "" && !strings.HasPrefix(rest, "/"), home && at.Home == "":
		return "", errors.New("~ can only mean your own home folder, which must be known")
	case home:
		path = at.Home + rest
	case !filepath.IsAbs(path) && at.Dir == "":
		return "", errors.New("the path must be absolute here")
	case !filepath.IsAbs(path):
		path = filepath.Join(at.Dir, path)
	}
	return filepath.Clean(path), nil
}

// compile checks c, the condition for the argument at a pointer.
func (c Condition) compile(pointer string, strict bool) (out condition, field string, err error) {
	if pointer != "" && !strings.HasPrefix(pointer, "/") {
		return out, "", fmt.Errorf("a JSON pointer begins with a slash: /%s", pointer)
	}
	out = condition{Condition: c, pointer: pointer, tokens: jsondoc.SplitPointer(pointer), glob: glob.New(c.Glob)}
	for _, bound := range []struct {
		field string
		text  *json.Number
		to    **big.Rat
	}{{"/min", c.Min, &out.min}, {"/max", c.Max, &out.max}} {
		if bound.text == nil {
			continue
		}
		if *bound.to = number(*bound.text); *bound.to == nil {
			return out, bound.field, fmt.Errorf("%.50s is not a number that can be compared", *bound.text)
		}
	}
	for i, v := range c.OneOf {
		at := fmt.Sprintf("/oneOf/%d", i)
		switch v := v.(type) {
		case map[string]any, []any:
			return out, at, errors.New("want a string, a number, true, false or null")
		case json.Number:
			n := number(v)
			if n == nil {
				return out, at, fmt.Errorf("%.50s is not a number that can be compared", v)
			}
			out.numbers = append(out.numbers, n)
		}
	}
	if c.Regexp != "" {
		if _, err := regexp.Compile(c.Regexp); err != nil {
			return out, "/regexp", err
		}
		whole := "(?s:" + c.Regexp + ")"
		if strict {
			whole = `\A(?:` + c.Regexp + `)\z`
		}
		if out.regexp, err = regexp.Compile(whole); err != nil {
			return out, "/regexp", err
		}
	}
	if c.Glob == "" && c.Regexp == "" && c.Inside == "" && c.Min == nil && c.Max == nil && len(c.OneOf) == 0 {
		return out, "", errors.New("want one of glob, regexp, inside, min, max, oneOf")
	}
	return out, "", nil
}

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
func (r *Sets) Explain(inv *agent.Invocation) []Line {
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
