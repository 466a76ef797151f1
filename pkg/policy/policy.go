// Package policy decides which calls of tools may run.
//
// A [Rule] matches some calls and allows or denies them, or asks a person. A [Set] contains
// the rules of one level: an agent with its configuration. A call is denied if any matching
// rule denies; otherwise a person is asked if any asks; otherwise it is allowed if any
// allows. If no rule matches, a person is asked about a call of a tool that has allow rules,
// and Approval decides about any other call. All levels must permit a call: see
// [agent.Rights], which [Sets] implements. A rule that cannot be evaluated denies.
//
//	rule, err := policy.ParseRule([]byte(`{"verdict":"allow","tool":"shell","command":["git","status"]}`), policy.Place{Source: "agent.json: permissions[0]"})
//	…
//	a.Rights, err = policy.New(policy.Set{Source: "agent.json", Rules: []*policy.Rule{rule}})
//
// # Commands
//
// Command is compared with the argument command, cmd, argv or script: a shell command line, or a
// list of words, which is one command; with an argument args, command is the program. A line is
// parsed as bash parses it, or as a POSIX shell does if an argument shell names another shell.
//
// An allow rule matches if the line consists of simple commands with plain words, joined by &&,
// ||, |, ; and newlines, every one of which begins with the words of an allow rule of the set.
// What then runs is a line printed from these words, quoted where a shell could read something
// else: see [agent.Verdict].
//
// Rules that ask or deny match broadly: one simple command that could be the command is enough,
// in any folder, with other words in between, run by a program such as env, sudo, xargs or sh
// -c, or hidden in an expansion. They also match a line that cannot be fully analyzed. What a
// script or an interpreter does is not checked.
package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// An Approval decides about calls that no rule covers. Calls of sub-agents, and of tools
// that declare the effects "none", are always allowed.
type Approval string

// The approvals, the strictest last. The zero value leaves it to the callers.
const (
	Never    Approval = "never"    // they run
	Effects  Approval = "effects"  // a person is asked once for each tool with the same arguments
	Always   Approval = "always"   // a person is asked each time
	Required Approval = "required" // like Effects, but the run ends if nobody can be asked
)

var approvals = []Approval{"", Never, Effects, Always, Required}

// Stricter returns the stricter of two.
func (a Approval) Stricter(b Approval) Approval {
	if slices.Index(approvals, b) > slices.Index(approvals, a) {
		return b
	}
	return a
}

// Check returns an error if a is not a known approval.
func (a Approval) Check() error {
	if slices.Contains(approvals, a) {
		return nil
	}
	return fmt.Errorf("got %q, want always, effects, never or required", string(a))
}

// A Set contains the rules of one level.
type Set struct {
	// Source names the level in messages: its agent file.
	Source   string   `json:"source,omitempty"`
	Rules    []*Rule  `json:"rules,omitempty"`
	Approval Approval `json:"approval,omitempty"`
	// Policy says that external policies must allow each call too.
	Policy bool `json:"policy,omitempty"`
	// Hooks are the moments for which there are hooks.
	Hooks []string `json:"hooks,omitempty"`
}

// Empty reports whether s permits everything.
func (s *Set) Empty() bool {
	return len(s.Rules) == 0 && !s.Policy && len(s.Hooks) == 0 && (s.Approval == "" || s.Approval == Never)
}

// A Policy is an external program that decides about calls. An error denies.
type Policy interface {
	Decide(ctx context.Context, inv *agent.Invocation) (agent.Verdict, error)
}

// Sets are one or more sets, all of which must permit a call. They implement agent.Rights.
type Sets struct {
	sets     []Set
	policies []Policy // of the one set
	hooks    []Hook   // the same
	raw      []byte

	mu    sync.RWMutex
	tools map[string][][]*Rule // the rules of each set about a tool, by its name
}

// maxTools limits Sets.tools: agents in other processes can send any names.
const maxTools = 10_000

// about returns the rules of each set about a tool.
func (r *Sets) about(tool string) [][]*Rule {
	r.mu.RLock()
	rules, known := r.tools[tool]
	r.mu.RUnlock()
	if known {
		return rules
	}
	rules = make([][]*Rule, len(r.sets))
	for i := range r.sets {
		for _, rule := range r.sets[i].Rules {
			if rule.Names(tool) {
				rules[i] = append(rules[i], rule)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tools == nil || len(r.tools) >= maxTools {
		r.tools = map[string][][]*Rule{}
	}
	r.tools[tool] = rules
	return rules
}

var _ agent.Rights = (*Sets)(nil)

// New returns the rights of an agent of this process. s.Policy is set if there are
// policies.
func New(s Set, policies ...Policy) (*Sets, error) {
	s.Policy = len(policies) > 0
	s.Rules = slices.Clone(s.Rules)
	for i, r := range s.Rules {
		sent := *r
		sent.Match, sent.NotMatch = nil, nil
		s.Rules[i] = &sent
	}
	raw, err := json.Marshal([]Set{s})
	return &Sets{sets: []Set{s}, policies: policies, raw: raw}, err
}

// Read reads the rights of callers in other processes: what MarshalJSON returned, joined.
// Any part that this program does not know is an error, so that nothing runs.
func Read(raw json.RawMessage) (agent.Rights, error) {
	rights := &Sets{raw: raw}
	doc, err := jsondoc.Parse(raw, jsondoc.Options{Strict: true})
	if err != nil {
		return nil, err
	}
	for _, set := range doc.Root.Children {
		for _, m := range set.Children {
			if !slices.Contains([]string{"source", "rules", "approval", "policy", "hooks"}, m.Name) {
				return nil, fmt.Errorf("%s is not known", m.Path())
			}
		}
	}
	var sets []struct {
		Set
		Rules []json.RawMessage `json:"rules"`
	}
	if err := json.Unmarshal(raw, &sets); err != nil {
		return nil, err
	}
	for i, s := range sets {
		set := s.Set
		if err := set.Approval.Check(); err != nil {
			return nil, fmt.Errorf("set %d: approval: %w", i, err)
		}
		for _, moment := range set.Hooks {
			if !slices.Contains(agent.HookMoments(), moment) {
				return nil, fmt.Errorf("set %d: hooks at %.50q are not known", i, moment)
			}
		}
		for j, text := range s.Rules {
			var source struct {
				Source string `json:"source"`
			}
			_ = json.Unmarshal(text, &source) // ParseRule says what is wrong
			rule, err := ParseRule(text, Place{Source: cmp.Or(source.Source, fmt.Sprintf("%s: rule %d", set.Source, j))})
			if err != nil {
				return nil, err
			}
			set.Rules = append(set.Rules, rule)
		}
		rights.sets = append(rights.sets, set)
	}
	return rights, nil
}

// MarshalJSON returns the list of sets.
func (r *Sets) MarshalJSON() ([]byte, error) { return r.raw, nil }

// Decide implements agent.Rights.
func (r *Sets) Decide(inv *agent.Invocation) agent.Verdict {
	v := agent.Verdict{Decision: agent.Allow}
	for i, rules := range r.about(inv.Spec.Name) {
		own := r.sets[i].decide(inv, rules)
		own.External = r.sets[i].Policy
		v = v.And(own)
	}
	if v.Decision == agent.Deny || inv.Remote {
		return v
	}
	args, found, err := judgedPaths(inv, r.about(inv.Spec.Name), cmp.Or(v.Args, inv.Call.Args))
	if err != nil {
		return agent.Verdict{Decision: agent.Deny, Reason: err.Error()}
	}
	v.NoLinks, v.Args = found, cmp.Or(args, v.Args)
	return v
}

// Consult implements agent.Rights. Policies of callers in other processes are asked there.
func (r *Sets) Consult(ctx context.Context, inv *agent.Invocation) agent.Verdict {
	v := agent.Verdict{Decision: agent.Allow}
	for _, p := range r.policies {
		own, err := p.Decide(ctx, inv)
		if err != nil {
			own = agent.Verdict{Decision: agent.Deny, Reason: err.Error()}
		}
		if v = v.And(own); v.Decision == agent.Deny {
			return v
		}
	}
	if len(r.policies) == 0 && slices.ContainsFunc(r.sets, func(s Set) bool { return s.Policy }) {
		v = v.And(inv.Consult(ctx))
	}
	return v
}

// Hides implements agent.Rights.
func (r *Sets) Hides(inv *agent.Invocation) bool {
	for _, rules := range r.about(inv.Spec.Name) {
		for _, rule := range rules {
			if rule.Verdict == agent.Deny && len(rule.conditions) == 0 && len(rule.Command) == 0 && rule.concerns(inv) {
				return true
			}
		}
	}
	return false
}

// Names reports whether the rule is about the tool with a name.
func (r *Rule) Names(name string) bool {
	if r.tool.Match(name) {
		return true
	}
	other := agent.OtherName(name) // of a sub-agent
	if other != "" && r.tool.Match(other) {
		return true
	}
	for _, prefix := range [...]string{"bash_", agent.ExpertPrefix + "_", agent.CompatPrefix + "_"} {
		if bare, ok := strings.CutPrefix(name, prefix); ok {
			return r.tool.Match(bare)
		}
	}
	return false
}

// concerns reports whether the rule is about the effects of the tool and the agent that
// makes the call.
func (r *Rule) concerns(inv *agent.Invocation) bool {
	return (len(r.Effects) == 0 || slices.Contains(r.Effects, cmp.Or(inv.Spec.Effects, agent.EffectsOnce))) &&
		(r.Agent == "" || r.agent.Match(inv.Agent)) && (r.Path == "" || r.path.Match(strings.Join(inv.Path, "/")))
}

func (s *Set) decide(inv *agent.Invocation, rules []*Rule) agent.Verdict {
	var allows, asks, covers *Rule // the first that fits; covers needs commands too
	named := false
	for _, r := range rules {
		named = named || r.Verdict == agent.Allow
		if !r.concerns(inv) {
			continue
		}
		f, err := r.fits(inv)
		if inv.Remote && f != no {
			f = map[bool]fit{true: yes, false: no}[f == yes || r.Verdict == agent.Allow]
		}
		switch {
		case f == no:
		case f == failed:
			return r.verdict(agent.Deny, fmt.Sprintf("%s cannot be evaluated: %s", r.Source, err))
		case r.Verdict == agent.Deny && err != nil:
			return r.verdict(agent.Deny, "denied, since "+err.Error())
		case r.Verdict == agent.Deny:
			return r.verdict(agent.Deny, "denied")
		case r.Verdict == agent.AskPerson:
			if asks == nil || asks.Reviewer == "" {
				asks = r
			}
		case len(r.Command) > 0:
			covers = cmp.Or(covers, r)
		default:
			allows = cmp.Or(allows, r)
		}
	}
	why := ""
	args := ""
	if allows == nil && covers != nil {
		if args, why = uncovered(inv, rules); why == "" {
			allows = covers
		}
	}
	switch {
	case asks != nil:
		return s.required(asks.verdict(agent.AskPerson, "a rule asks about such calls"))
	case allows != nil:
		return agent.Verdict{Decision: agent.Allow, Rule: allows.Source, Args: args}
	case named:
		return s.required(agent.Verdict{Decision: agent.AskPerson, Rule: s.Source, Reason: strings.TrimSuffix(s.Source+" allows only some calls of this tool, and not this one: "+why, ": ")})
	}
	return s.approve(inv)
}

// verdict is a verdict of r. A rule without a reason gives the word.
func (r *Rule) verdict(d agent.Decision, word string) agent.Verdict {
	reason := cmp.Or(r.Reason, word)
	if !strings.Contains(reason, r.Source) {
		reason += " (" + r.Source + ")"
	}
	return agent.Verdict{Decision: d, Reason: reason, Rule: r.Source, Reviewer: r.Reviewer}
}

// required marks a verdict with which the run ends if nobody can be asked.
func (s *Set) required(v agent.Verdict) agent.Verdict {
	if s.Approval == Required {
		v.Approval = string(Required)
	}
	return v
}

// whyAsked is what a person reads about a call that no rule covers, and the model if nobody
// can be asked.
var whyAsked = map[Approval]string{
	Effects:  "the tool may change something, so a person is asked first",
	Always:   "a person is asked before each call",
	Required: "the tool may change something, so it needs the consent of a person",
}

// approve decides about a call that no rule covers.
func (s *Set) approve(inv *agent.Invocation) agent.Verdict {
	switch {
	case s.Approval == "" || s.Approval == Never, inv.Spec.Effects == agent.EffectsNone, inv.Spec.IsAgent():
		return agent.Verdict{Decision: agent.Allow}
	}
	return agent.Verdict{Decision: agent.AskPerson, Approval: string(s.Approval), Rule: s.Source,
		Reason: whyAsked[s.Approval]}
}

// fits compares the arguments of a call with the rule. The commands of an allow rule are
// compared by uncovered. The error says why the fit is failed.
func (r *Rule) fits(inv *agent.Invocation) (fit, error) {
	strict := r.Verdict == agent.Allow
	all, why := yes, error(nil)
	for i := range r.conditions {
		f, err := r.conditions[i].fits(inv, strict)
		switch {
		case f == no:
			return no, nil
		case f == failed:
			all, why = failed, err
		case all != failed:
			all = min(all, f)
		}
	}
	if len(r.Command) == 0 || all != yes {
		return all, why
	}
	c := commandsOf(inv)
	switch {
	case c == nil:
		return no, nil
	case strict:
		return yes, nil
	case c.err != nil:
		return maybe, fmt.Errorf("the command cannot be read: %w", c.err)
	}
	f, err := no, error(nil)
	if c.unread {
		f, err = maybe, errors.New("a part of the command cannot be read")
	}
	for _, list := range [...][]simpleCommand{c.simple, c.inner} {
		for _, simple := range list {
			f = max(f, simple.couldBe(r.Command))
		}
	}
	return f, err
}

// uncovered returns why the allow rules among rules do not match all commands of a call; "" if
// they do. args are the arguments with the commands in printed form; "" if they have this form
// already.
func uncovered(inv *agent.Invocation, rules []*Rule) (args, why string) {
	c := commandsOf(inv)
	switch {
	case c.err != nil:
		return "", c.err.Error()
	case c.unsafe != "":
		return "", c.unsafe
	}
	for _, simple := range c.simple {
		if !slices.ContainsFunc(rules, func(r *Rule) bool { return r.covers(inv, simple) }) {
			if slices.ContainsFunc(rules, func(r *Rule) bool {
				return r.Verdict == agent.Allow && len(r.Command) > 0 && simple.begins(r.Command) && !simple.contained(len(r.Command))
			}) {
				return "", fmt.Sprintf("the shell may do more with these words of %.100q than pass them on", simple[0].text)
			}
			return "", fmt.Sprintf("the command %.100q", simple[0].text)
		}
	}
	if len(c.simple) == 0 {
		return "", "there is no command"
	}
	switch args, err := c.printed(inv.Call.Args); {
	case err != nil:
		return "", err.Error()
	case args != "" && inv.Remote:
		return "", "it did not run in the form that was judged"
	default:
		return args, ""
	}
}

// covers reports whether r is an allow rule for one command of a call.
func (r *Rule) covers(inv *agent.Invocation, simple simpleCommand) bool {
	if r.Verdict != agent.Allow || len(r.Command) == 0 || !r.concerns(inv) || !simple.begins(r.Command) || !simple.contained(len(r.Command)) {
		return false
	}
	f, _ := r.fits(inv)
	return f == yes || f != no && inv.Remote
}

// checkExamples compares r with its examples: a text is a command, or the name of a tool if
// the rule has no command; an object has the arguments.
func (r *Rule) checkExamples() (pointer string, err error) {
	for _, list := range []struct {
		key      string
		examples []json.RawMessage
		want     bool
	}{{"match", r.Match, true}, {"not_match", r.NotMatch, false}} {
		for i, example := range list.examples {
			fits, err := r.fitsExample(example)
			if err == nil && fits != list.want {
				err = fmt.Errorf("the rule %s %.200s", map[bool]string{true: "matches", false: "does not match"}[fits], example)
			}
			if err != nil {
				return fmt.Sprintf("/%s/%d", list.key, i), err
			}
		}
	}
	return "", nil
}

func (r *Rule) fitsExample(example json.RawMessage) (bool, error) {
	inv := &agent.Invocation{Call: agent.ToolCall{Args: string(example)}, Dir: "/"}
	var text string
	switch {
	case json.Unmarshal(example, &text) == nil && len(r.Command) == 0:
		return r.Names(text), nil
	case len(example) > 0 && example[0] != '{':
		inv.Call.Args = `{"command":` + string(example) + `}`
	}
	if _, err := inv.Args(); err != nil {
		return false, errors.New("want a command, the name of a tool, or an object with arguments")
	}
	f, err := r.fits(inv)
	if f == failed && r.Verdict == agent.Allow {
		return false, err
	}
	if f == no || r.Verdict != agent.Allow || len(r.Command) == 0 {
		return f != no, nil
	}
	c := commandsOf(inv)
	return c.err == nil && c.unsafe == "" && !slices.ContainsFunc(c.simple, func(s simpleCommand) bool { return !s.begins(r.Command) || !s.contained(len(r.Command)) }), nil
}
