package scripted

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// maxProgram limits the instructions of all patterns together.
const maxProgram = 1_000_000

// Parse reads a script. name stands for the file in messages. Parsing is
// strict: unknown and repeated keys, values of the wrong kind, patterns that do
// not compile and placeholders that can never have a value are errors. The
// error joins one *Problem for each mistake, in the order of the file.
func Parse(name string, data []byte) (*Script, error) {
	d := newDecoder(name, string(data))
	s := &Script{name: name}
	if v, ok := d.parse(); ok {
		s.rules = d.script(v)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) script(v value) (rules []*rule) {
	var unused string
	f := d.object(v, "",
		field{"$schema", d.text(&unused)},
		field{"description", d.text(&unused)},
		field{"rules", d.array(MaxRules, "rules", func(v value, key string) { rules = append(rules, d.rule(v, key)) })})
	switch list, ok := f["rules"]; {
	case f == nil:
	case !ok:
		d.fail(v.off, "", "the key rules is missing: a script is a list of rules")
	case list.kind() == array && len(list.list) == 0:
		d.fail(list.off, "rules", "there is no rule; a script needs at least one")
	}
	return rules
}

func (d *decoder) rule(v value, key string) *rule {
	r := &rule{key: key, place: fmt.Sprintf("%s:%d", d.file, d.line(v.off))}
	f := d.object(v, key,
		field{"name", d.text(&r.name)},
		field{"when", func(v value, key string) { d.when(v, key, r) }},
		field{"answer", func(v value, key string) { r.answer = d.answer(v, key, r.patterns) }},
		field{"fault", func(v value, key string) { r.fault = d.fault(v, key) }},
		field{"delayMillis", d.millis(&r.delay)},
		field{"deltaMillis", d.millis(&r.pace)},
		field{"times", d.integer(&r.times, 1, 1_000_000)})
	switch {
	case f == nil:
	case r.answer == nil && r.fault == nil:
		d.fail(v.off, key, "the rule does nothing: it needs an answer or a fault")
	case r.fault != nil && r.fault.kind == brokenStream && r.answer == nil:
		d.fail(v.off, key, "a broken_stream needs an answer whose beginning is sent")
	case r.fault != nil && r.fault.kind != brokenStream && r.answer != nil:
		d.fail(v.off, key, "an answer and a fault together are possible with the kind broken_stream only")
	}
	return r
}

func (d *decoder) millis(to *time.Duration) reader {
	return func(v value, key string) {
		n := 0
		d.integer(&n, 0, int(MaxDelay/time.Millisecond))(v, key)
		*to = time.Duration(n) * time.Millisecond
	}
}

// when reads the conditions of a rule.
func (d *decoder) when(v value, key string, r *rule) {
	var role string
	var turn int
	var tool *pattern
	add := func(c condition) { r.conditions = append(r.conditions, c) }
	p := &r.patterns
	f := d.object(v, key,
		field{"agent", d.pattern(true, func(p *pattern) { add(agentCondition(p)) })},
		field{"turn", func(v value, key string) {
			if d.integer(&turn, 1, 1_000_000)(v, key); turn > 0 {
				add(turnCondition(turn))
			}
		}},
		field{"role", func(v value, key string) {
			if d.oneOf(&role, string(agent.RoleUser), string(agent.RoleTool))(v, key); role != "" {
				add(roleCondition(agent.Role(role)))
			}
		}},
		field{"prompt", d.pattern(false, func(re *pattern) { p.prompt = re; add(promptCondition(re)) })},
		field{"lastMessage", d.pattern(false, func(re *pattern) { p.last = re; add(lastCondition(re)) })},
		field{"tool", d.pattern(true, func(p *pattern) { tool = p; add(toolCondition(p)) })},
		field{"failed", func(v value, key string) {
			if d.is(v, key, truth) {
				add(failedCondition(tool, v.raw == "true"))
			}
		}})
	prompt, hasPrompt := f["prompt"]
	last, hasLast := f["lastMessage"]
	p.broken = hasPrompt && p.prompt == nil || hasLast && p.last == nil
	at := last.off
	if p.last == nil {
		at = prompt.off
	}
	seen := words()
	for _, name := range p.names() {
		if slices.Contains(seen, name) {
			d.fail(at, key, "the group name %q is taken: it would stand for two values", name)
		}
		seen = append(seen, name)
	}
}

// pattern reads a regular expression, which is used if it is valid; whole ones
// must match the whole text.
func (d *decoder) pattern(whole bool, use func(*pattern)) reader {
	return func(v value, key string) {
		if !d.is(v, key, text) {
			return
		}
		s := unquote(v.raw)
		if len(s) > MaxPattern {
			d.fail(v.off, key, "the pattern is %d bytes long; the limit is %d", len(s), MaxPattern)
			return
		}
		err := d.checkSize(s)
		p := &pattern{source: s}
		if err == nil && whole {
			s = `^(?:` + s + `)$`
		}
		if err == nil {
			p.Regexp, err = regexp.Compile(s)
		}
		if e, ok := errors.AsType[*syntax.Error](err); ok {
			d.fail(v.off, key, "the pattern does not compile: %s: %s", e.Code, short(e.Expr))
		} else if err != nil {
			d.fail(v.off, key, "%s", err)
		} else {
			use(p)
		}
	}
}

// checkSize compiles a pattern to learn its size: a few bytes like (a{30}){30} can
// become a large program, and a script may hold many of them.
func (d *decoder) checkSize(pattern string) error {
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
	a := &answer{finish: string(agent.FinishStop)}
	f := d.object(v, key,
		field{"text", d.template(&a.text, p)},
		field{"reasoning", d.template(&a.reasoning, p)},
		field{"calls", d.array(MaxCalls, "calls", func(v value, key string) { a.calls = append(a.calls, d.call(v, key, p)) })},
		field{"finish", d.oneOf(&a.finish, string(agent.FinishStop), string(agent.FinishLength), string(agent.FinishContentFilter))},
		field{"usage", func(v value, key string) { a.usage = d.usage(v, key) }})
	if f != nil && len(f) == 0 {
		d.fail(v.off, key, "the answer is empty; write \"text\": \"\" if that is meant")
	}
	return a
}

func (d *decoder) template(to *template, p patterns) reader {
	return func(v value, key string) {
		if !d.is(v, key, text) {
			return
		}
		t, err := p.compile(unquote(v.raw))
		if err != nil {
			d.fail(v.off, key, "%s", err)
		}
		*to = t
	}
}

func (d *decoder) call(v value, key string, p patterns) call {
	c := call{args: argsTemplate{{template: template{{text: "{}"}}}}}
	raw := template{}
	f := d.object(v, key,
		field{"tool", func(v value, key string) {
			if d.text(&c.tool)(v, key); v.raw == `""` {
				d.fail(v.off, key, "must not be empty")
			}
		}},
		field{"args", func(v value, key string) {
			if c.args = nil; d.is(v, key, object) {
				d.args(&c.args, v, key, p)
			}
		}},
		field{"rawArgs", d.template(&raw, p)},
		field{"id", func(v value, key string) {
			c.id = new(string)
			d.text(c.id)(v, key)
		}})
	if _, ok := f["tool"]; f != nil && !ok {
		d.fail(v.off, key, "the key tool is missing: it names the tool, as in bash_ping")
	}
	_, hasArgs := f["args"]
	if v, ok := f["rawArgs"]; ok {
		c.args = argsTemplate{{template: raw}}
		if hasArgs {
			d.fail(v.off, key+".rawArgs", "args and rawArgs exclude each other")
		}
	}
	return c
}

// args turns a JSON value into a template: the order of keys and the spelling
// of numbers stay, strings are filled in, {"$json": "…"} becomes JSON.
func (d *decoder) args(t *argsTemplate, v value, key string, p patterns) {
	copied := func(s string) {
		if n := len(*t); n > 0 && (*t)[n-1].kind == 0 {
			(*t)[n-1].template[0].text += s
			return
		}
		*t = append(*t, argsPiece{template: template{{text: s}}})
	}
	switch kind := v.kind(); {
	case kind == text && strings.Contains(v.raw, "$"):
		piece := argsPiece{kind: text}
		d.template(&piece.template, p)(v, key)
		*t = append(*t, piece)
	case kind == object && len(v.list) == 1 && v.list[0].name == "$json":
		piece := argsPiece{kind: object}
		d.template(&piece.template, p)(v.list[0], key+".$json")
		if v.list[0].raw == `""` {
			d.fail(v.off, key, "$json must not be empty")
		}
		*t = append(*t, piece)
	case kind == object || kind == array:
		separator, seen := v.raw[:1], map[string]bool{}
		for i, item := range v.list {
			copied(separator)
			separator = ","
			if kind == array {
				d.args(t, item, fmt.Sprintf("%s[%d]", key, i), p)
				continue
			}
			if seen[item.name] {
				d.fail(item.nameOff, key, "the key %q stands here twice; rawArgs can hold such arguments", item.name)
			}
			seen[item.name] = true
			copied(quote(item.name) + ":")
			d.args(t, item, key+"."+item.name, p)
		}
		if len(v.list) == 0 {
			copied(separator)
		}
		copied(v.raw[len(v.raw)-1:])
	default:
		copied(v.raw)
	}
}

func (d *decoder) usage(v value, key string) (u usage) {
	count := func(to **int) reader {
		return func(v value, key string) {
			*to = new(int)
			d.integer(*to, 0, 1_000_000_000)(v, key)
		}
	}
	d.object(v, key,
		field{"inputTokens", count(&u.input)},
		field{"cachedTokens", count(&u.cached)},
		field{"outputTokens", count(&u.output)},
		field{"reasoningTokens", count(&u.reasoning)},
		field{"cost", func(v value, key string) {
			n, _ := d.between(v, key, 0, 1_000_000)
			u.cost = &n
		}})
	return u
}
