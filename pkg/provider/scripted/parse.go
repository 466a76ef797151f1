package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// Parse reads a script. name is the file's name in messages. Parsing is
// strict: unknown and repeated keys, values of the wrong kind, patterns that do
// not compile and placeholders that can never have a value are errors. The
// error joins one *Problem for each mistake, in the order of the file.
func Parse(name string, data []byte) (*Script, error) {
	d := &decoder{file: name, data: data}
	s := &Script{name: name}
	if n := d.parse(); n != nil {
		s.rules = d.script(n)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) script(n *jsondoc.Node) (rules []*rule) {
	var unused string
	ok := d.object(n,
		field{"$schema", d.text(&unused)},
		field{"description", d.text(&unused)},
		field{"rules", d.array(func(n *jsondoc.Node) { rules = append(rules, d.rule(n)) })})
	switch list := n.Member("rules"); {
	case !ok:
	case list == nil:
		d.fail(n, "the key rules is missing: a script is a list of rules")
	case list.Kind() == array && len(list.Children) == 0:
		d.fail(list, "there is no rule; a script needs at least one")
	}
	return rules
}

func (d *decoder) rule(n *jsondoc.Node) *rule {
	d.line += bytes.Count(d.data[d.read:n.Start], []byte{'\n'})
	d.read = n.Start
	r := &rule{key: n.Path(), place: fmt.Sprintf("%s:%d", d.file, d.line+1)}
	ok := d.object(n,
		field{"name", d.text(&r.name)},
		field{"when", func(n *jsondoc.Node) { d.when(n, r) }},
		field{"answer", func(n *jsondoc.Node) { r.answer = d.answer(n, r.patterns) }},
		field{"fault", func(n *jsondoc.Node) { r.fault = d.fault(n) }},
		field{"delayMillis", d.millis(&r.delay)},
		field{"deltaMillis", d.millis(&r.pace)},
		field{"times", d.integer(&r.times, 1, 1_000_000)})
	switch {
	case !ok:
	case r.answer == nil && r.fault == nil:
		d.fail(n, "the rule needs an answer or a fault")
	case r.fault != nil && r.fault.kind == brokenStream && r.answer == nil:
		d.fail(n, "a broken_stream needs an answer whose beginning is sent")
	case r.fault != nil && r.fault.kind != brokenStream && r.answer != nil:
		d.fail(n, "an answer and a fault together are possible with the kind broken_stream only")
	}
	return r
}

func (d *decoder) millis(to *time.Duration) reader {
	return func(n *jsondoc.Node) {
		millis := 0
		d.integer(&millis, 0, int(MaxDelay/time.Millisecond))(n)
		*to = time.Duration(millis) * time.Millisecond
	}
}

func (d *decoder) when(n *jsondoc.Node, r *rule) {
	w := when{patterns: &r.patterns}
	d.object(n,
		field{"agent", d.pattern(&w.agent, true)},
		field{"turn", d.integer(&w.turn, 1, 1_000_000)},
		field{"role", d.oneOf(&w.role, string(agent.RoleUser), string(agent.RoleTool))},
		field{"prompt", d.pattern(&w.prompt, false)},
		field{"lastMessage", d.pattern(&w.last, false)},
		field{"tool", d.pattern(&w.tool, true)},
		field{"failed", func(n *jsondoc.Node) {
			if d.is(n, boolean) {
				failed := n.Value == true
				w.failed = &failed
			}
		}})
	r.conditions = w.conditions()
	prompt, last := n.Member("prompt"), n.Member("lastMessage")
	w.broken = prompt != nil && w.prompt == nil || last != nil && w.last == nil
	seen := placeholders()
	for _, name := range w.names() {
		if slices.Contains(seen, name) {
			at := prompt
			if w.last != nil {
				at = last
			}
			d.failAt(at.Start, n.Path(), "the group name %q is taken: it would have two values", name)
		}
		seen = append(seen, name)
	}
}

// pattern reads a regular expression; whole ones must match the whole text. to
// stays nil if there is a problem.
func (d *decoder) pattern(to **pattern, whole bool) reader {
	return func(n *jsondoc.Node) {
		if !d.is(n, text) {
			return
		}
		re, err := regexp.Compile(n.Text()) // before the rest, for the message
		if whole && err == nil {
			re, err = regexp.Compile(`^(?:` + n.Text() + `)$`)
		}
		if e, ok := errors.AsType[*syntax.Error](err); ok {
			d.fail(n, "the pattern does not compile: %s: %s", e.Code, short(e.Expr))
			return
		}
		*to = &pattern{re, n.Text()}
	}
}

func (d *decoder) answer(n *jsondoc.Node, p patterns) *answer {
	a := &answer{finish: string(agent.FinishStop)}
	d.object(n,
		field{"text", d.template(&a.text, p)},
		field{"reasoning", d.template(&a.reasoning, p)},
		field{"calls", d.array(func(n *jsondoc.Node) { a.calls = append(a.calls, d.call(n, p)) })},
		field{"finish", d.oneOf(&a.finish, string(agent.FinishStop), string(agent.FinishLength), string(agent.FinishContentFilter))},
		field{"usage", func(n *jsondoc.Node) { a.usage = d.usage(n) }})
	if n.Kind() == object && len(n.Children) == 0 {
		d.fail(n, "the answer is empty; write \"text\": \"\" if that is meant")
	}
	return a
}

func (d *decoder) template(to *template, p patterns) reader {
	return func(n *jsondoc.Node) {
		if !d.is(n, text) {
			return
		}
		t, err := p.compile(n.Text())
		if err != nil {
			d.fail(n, "%s", err)
		}
		*to = t
	}
}

func (d *decoder) call(n *jsondoc.Node, p patterns) call {
	c := call{args: argsTemplate{{template: template{{text: "{}"}}}}}
	ok := d.object(n,
		field{"tool", func(n *jsondoc.Node) {
			if d.text(&c.tool)(n); n.Value == "" {
				d.fail(n, "must not be empty")
			}
		}},
		field{"args", func(n *jsondoc.Node) {
			if c.args = nil; d.is(n, object) {
				var copied strings.Builder
				d.args(&c.args, &copied, n, p)
				c.args.add(&copied)
			}
		}},
		field{"rawArgs", func(raw *jsondoc.Node) {
			if n.Member("args") != nil {
				d.fail(raw, "args and rawArgs exclude each other")
			}
			c.args = make(argsTemplate, 1)
			d.template(&c.args[0].template, p)(raw)
		}},
		field{"id", func(n *jsondoc.Node) {
			c.id = new(string)
			d.text(c.id)(n)
		}})
	if ok && n.Member("tool") == nil {
		d.fail(n, "the key tool is missing: it names the tool, as in bash_ping")
	}
	return c
}

// args turns a JSON value into a template: it keeps the order of keys and the digits
// of numbers, fills in strings and turns {"$json": "…"} into JSON.
// What is copied as it is collects in copied, for the next piece.
func (d *decoder) args(t *argsTemplate, copied *strings.Builder, n *jsondoc.Node, p patterns) {
	filled := func(kind string, n *jsondoc.Node) {
		piece := argsPiece{kind: kind}
		d.template(&piece.template, p)(n)
		t.add(copied)
		*t = append(*t, piece)
	}
	kind, raw := n.Kind(), d.raw(n)
	inside := n.Member("$json")
	switch {
	case kind == text && strings.Contains(raw, "$"):
		filled(text, n)
	case inside != nil && len(n.Children) == 1:
		if filled(object, inside); inside.Value == "" {
			d.fail(n, "$json must not be empty")
		}
	case kind == object || kind == array:
		copied.WriteString(raw[:1])
		for i, item := range n.Children {
			if i > 0 {
				copied.WriteByte(',')
			}
			if kind == object {
				if last := n.Member(item.Name); last != item {
					d.failAt(last.NameStart, n.Path(), "the key %q is repeated; rawArgs can hold such arguments", item.Name)
				}
				copied.WriteString(string(d.data[item.NameStart:item.NameEnd]) + ":")
			}
			d.args(t, copied, item, p)
		}
		copied.WriteString(raw[len(raw)-1:])
	default:
		copied.WriteString(raw)
	}
}

func (d *decoder) usage(n *jsondoc.Node) (u usage) {
	count := func(to **int) reader {
		return func(n *jsondoc.Node) {
			*to = new(int)
			d.integer(*to, 0, 1_000_000_000)(n)
		}
	}
	d.object(n,
		field{"inputTokens", count(&u.input)},
		field{"cachedTokens", count(&u.cached)},
		field{"outputTokens", count(&u.output)},
		field{"reasoningTokens", count(&u.reasoning)},
		field{"cost", func(n *jsondoc.Node) {
			u.cost = new(agent.Money)
			if _, ok := d.number(n, 0, 1_000_000); ok {
				*u.cost, _ = agent.ParseMoney(n.Value.(json.Number).String()) // it is a number
			}
		}})
	return u
}
