package scripted

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// Parse reads a script. name stands for the file in messages. Parsing is
// strict: unknown and repeated keys, values of the wrong kind, patterns that do
// not compile and placeholders that can never have a value are errors. The
// error joins one *Problem for each mistake, in the order of the file.
func Parse(name string, data []byte) (*Script, error) {
	d := newDecoder(name, data)
	s := &Script{name: name}
	if v, ok := d.parse(); ok {
		s.rules = d.script(v)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) script(v value) []*rule {
	f := d.fields(v, "", "$schema", "description", "rules")
	if f == nil {
		return nil
	}
	for _, key := range []string{"$schema", "description"} {
		if v, ok := f[key]; ok {
			d.text(v, key)
		}
	}
	list, ok := f["rules"]
	if !ok {
		d.fail(v.off, "", "the key rules is missing: a script is a list of rules")
		return nil
	}
	if !d.is(list, "rules", '[') {
		return nil
	}
	switch n := len(list.items); {
	case n == 0:
		d.fail(list.off, "rules", "there is no rule; a script needs one at least")
	case n > MaxRules:
		d.fail(list.off, "rules", "there are %d rules; the limit is %d", n, MaxRules)
		return nil
	}
	var rules []*rule
	for i, item := range list.items {
		rules = append(rules, d.rule(item, fmt.Sprintf("rules[%d]", i)))
	}
	return rules
}

func (d *decoder) rule(v value, key string) *rule {
	r := &rule{key: key, place: fmt.Sprintf("%s:%d", d.file, d.line(v.off))}
	f := d.fields(v, key, "name", "when", "answer", "fault", "delayMillis", "deltaMillis", "times")
	if f == nil {
		return r
	}
	if v, ok := f["name"]; ok {
		r.name, _ = d.text(v, key+".name")
	}
	if v, ok := f["when"]; ok {
		d.when(v, key+".when", r)
	}
	if v, ok := f["answer"]; ok {
		r.answer = d.answer(v, key+".answer", r.patterns)
	}
	if v, ok := f["fault"]; ok {
		r.fault = d.fault(v, key+".fault")
	}
	r.delay = d.millis(f, key, "delayMillis")
	r.pace = d.millis(f, key, "deltaMillis")
	if v, ok := f["times"]; ok {
		r.times, _ = d.integer(v, key+".times", 1, 1_000_000)
	}
	switch {
	case r.answer == nil && r.fault == nil:
		d.fail(v.off, key, "the rule says nothing: it needs an answer or a fault")
	case r.fault != nil && r.fault.kind == brokenStream && r.answer == nil:
		d.fail(v.off, key, "a broken_stream needs an answer whose beginning is sent")
	case r.fault != nil && r.fault.kind != brokenStream && r.answer != nil:
		d.fail(v.off, key, "an answer and a fault together are possible with the kind broken_stream only")
	}
	return r
}

func (d *decoder) millis(f map[string]value, key, name string) time.Duration {
	v, ok := f[name]
	if !ok {
		return 0
	}
	n, _ := d.integer(v, key+"."+name, 0, int(MaxDelay/time.Millisecond))
	return time.Duration(n) * time.Millisecond
}

// when reads the conditions of a rule. They are kept in the order in which
// messages mention them.
func (d *decoder) when(v value, key string, r *rule) {
	f := d.fields(v, key, "agent", "turn", "role", "prompt", "lastMessage", "tool", "failed")
	add := func(c condition) { r.conditions = append(r.conditions, c) }
	if v, ok := f["agent"]; ok {
		if re, s := d.pattern(v, key+".agent", true); re != nil {
			add(agentCondition(re, s))
		}
	}
	if v, ok := f["turn"]; ok {
		if n, ok := d.integer(v, key+".turn", 1, 1_000_000); ok {
			add(turnCondition(n))
		}
	}
	if v, ok := f["role"]; ok {
		if s, ok := d.oneOf(v, key+".role", string(agent.RoleUser), string(agent.RoleTool)); ok {
			add(roleCondition(agent.Role(s)))
		}
	}
	var tool *regexp.Regexp
	if v, ok := f["tool"]; ok {
		re, s := d.pattern(v, key+".tool", true)
		if tool = re; re != nil {
			add(toolCondition(re, s))
		}
	}
	if v, ok := f["failed"]; ok {
		if want, ok := d.bool(v, key+".failed"); ok {
			add(failedCondition(tool, want))
		}
	}
	d.captures(f, key, r)
}

// captures reads the conditions whose groups are values.
func (d *decoder) captures(f map[string]value, key string, r *rule) {
	p := &r.patterns
	if v, ok := f["prompt"]; ok {
		if p.prompt, _ = d.pattern(v, key+".prompt", false); p.prompt != nil {
			r.conditions = append(r.conditions, promptCondition(p.prompt))
		}
		p.broken = p.broken || p.prompt == nil
	}
	if v, ok := f["lastMessage"]; ok {
		if p.last, _ = d.pattern(v, key+".lastMessage", false); p.last != nil {
			r.conditions = append(r.conditions, lastCondition(p.last))
		}
		p.broken = p.broken || p.last == nil
	}
	seen := map[string]bool{}
	for _, w := range words() {
		seen[w] = true
	}
	for _, name := range p.names() {
		if seen[name] {
			at := f["lastMessage"].off
			if p.last == nil {
				at = f["prompt"].off
			}
			d.fail(at, key, "the group name %q is taken: it would stand for two values", name)
		}
		seen[name] = true
	}
}

// pattern compiles a regular expression; whole ones must match the whole text.
func (d *decoder) pattern(v value, key string, whole bool) (*regexp.Regexp, string) {
	s, ok := d.text(v, key)
	if !ok {
		return nil, ""
	}
	if len(s) > MaxPattern {
		d.fail(v.off, key, "the pattern is %d bytes long; the limit is %d", len(s), MaxPattern)
		return nil, ""
	}
	if err := d.room(s); err != nil {
		d.badPattern(v.off, key, err)
		return nil, ""
	}
	re, err := regexp.Compile(s)
	if err == nil && whole {
		re, err = regexp.Compile(`^(?:` + s + `)$`)
	}
	if err != nil {
		d.badPattern(v.off, key, err)
		return nil, ""
	}
	return re, s
}

func (d *decoder) badPattern(off int, key string, err error) {
	if e := (*syntax.Error)(nil); errors.As(err, &e) {
		d.fail(off, key, "the pattern does not compile: %s: %s", e.Code, short(e.Expr))
		return
	}
	d.fail(off, key, "%s", err)
}

// room compiles a pattern for its size only: a few bytes like (a{30}){30} can
// become a large program, and a script may hold many of them.
func (d *decoder) room(pattern string) error {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return err
	}
	if d.program += len(prog.Inst); d.program > maxProgram {
		return fmt.Errorf("the patterns up to here are too large together: %d steps, the limit is %d", d.program, maxProgram)
	}
	return nil
}

func (d *decoder) answer(v value, key string, p patterns) *answer {
	a := &answer{finish: agent.FinishStop}
	f := d.fields(v, key, "text", "reasoning", "calls", "finish", "usage")
	if f == nil {
		return a
	}
	if len(f) == 0 {
		d.fail(v.off, key, "the answer is empty; write \"text\": \"\" if that is meant")
	}
	if v, ok := f["text"]; ok {
		a.text = d.template(v, key+".text", p)
	}
	if v, ok := f["reasoning"]; ok {
		a.reasoning = d.template(v, key+".reasoning", p)
	}
	if v, ok := f["calls"]; ok {
		a.calls = d.calls(v, key+".calls", p)
	}
	if v, ok := f["finish"]; ok {
		s, ok := d.oneOf(v, key+".finish", string(agent.FinishStop), string(agent.FinishLength), string(agent.FinishContentFilter))
		if ok {
			a.finish = agent.Finish(s)
		}
	}
	if v, ok := f["usage"]; ok {
		a.usage = d.usage(v, key+".usage")
	}
	return a
}

func (d *decoder) template(v value, key string, p patterns) template {
	s, ok := d.text(v, key)
	if !ok {
		return nil
	}
	t, err := p.compile(s)
	if err != nil {
		d.fail(v.off, key, "%s", err)
	}
	return t
}

func (d *decoder) calls(v value, key string, p patterns) []call {
	if !d.is(v, key, '[') {
		return nil
	}
	if n := len(v.items); n > MaxCalls {
		d.fail(v.off, key, "there are %d calls; the limit is %d", n, MaxCalls)
		return nil
	}
	var calls []call
	for i, item := range v.items {
		calls = append(calls, d.call(item, fmt.Sprintf("%s[%d]", key, i), p))
	}
	return calls
}

func (d *decoder) call(v value, key string, p patterns) call {
	var c call
	f := d.fields(v, key, "tool", "args", "rawArgs", "id")
	if f == nil {
		return c
	}
	if name, ok := f["tool"]; !ok {
		d.fail(v.off, key, "the key tool is missing: it names the tool, as in bash_ping")
	} else if s, ok := d.text(name, key+".tool"); ok {
		if c.tool = s; s == "" {
			d.fail(name.off, key+".tool", "must not be empty")
		}
	}
	args, hasArgs := f["args"]
	raw, hasRaw := f["rawArgs"]
	switch {
	case hasArgs && hasRaw:
		d.fail(raw.off, key+".rawArgs", "args and rawArgs exclude each other")
	case hasArgs:
		if d.is(args, key+".args", '{') {
			d.args(&c.args, args, key+".args", p)
		}
	case hasRaw:
		c.args = argsTemplate{{raw: d.template(raw, key+".rawArgs", p)}}
	default:
		c.args = argsTemplate{{text: "{}"}}
	}
	if v, ok := f["id"]; ok {
		if s, ok := d.text(v, key+".id"); ok {
			c.id = &s
		}
	}
	return c
}

// args turns a JSON value into a template: the order of keys and the spelling
// of numbers stay, strings are filled in, {"$json": "…"} becomes JSON.
func (d *decoder) args(t *argsTemplate, v value, key string, p patterns) {
	copied := func(s string) {
		if n := len(*t); n > 0 && (*t)[n-1].text != "" {
			(*t)[n-1].text += s
			return
		}
		*t = append(*t, argsPiece{text: s})
	}
	switch {
	case v.kind == '"' && strings.Contains(v.raw(d), "$"):
		*t = append(*t, argsPiece{quoted: d.template(v, key, p)})
	case v.kind == '[':
		copied("[")
		for i, item := range v.items {
			if i > 0 {
				copied(",")
			}
			d.args(t, item, fmt.Sprintf("%s[%d]", key, i), p)
		}
		copied("]")
	case len(v.members) == 1 && v.members[0].name == "$json":
		inside := d.template(v.members[0].value, key+".$json", p)
		if v.members[0].value.kind == '"' && inside == nil {
			d.fail(v.off, key, "$json must not be empty")
		}
		*t = append(*t, argsPiece{json: inside})
	case v.kind == '{':
		copied("{")
		seen := map[string]bool{}
		for i, m := range v.members {
			if i > 0 {
				copied(",")
			}
			if seen[m.name] {
				d.fail(m.off, key, "the key %q stands here twice; rawArgs can hold such arguments", m.name)
			}
			seen[m.name] = true
			copied(string(d.data[m.off:m.end]) + ":")
			d.args(t, m.value, key+"."+m.name, p)
		}
		copied("}")
	default:
		copied(v.raw(d))
	}
}

func (d *decoder) usage(v value, key string) usage {
	f := d.fields(v, key, "inputTokens", "cachedTokens", "outputTokens", "reasoningTokens", "cost")
	count := func(name string) *int {
		v, ok := f[name]
		if !ok {
			return nil
		}
		n, _ := d.integer(v, key+"."+name, 0, 1_000_000_000)
		return &n
	}
	u := usage{input: count("inputTokens"), cached: count("cachedTokens"),
		output: count("outputTokens"), reasoning: count("reasoningTokens")}
	if v, ok := f["cost"]; ok {
		n, _ := d.number(v, key+".cost", 0, 1_000_000)
		u.cost = &n
	}
	return u
}
