package prices

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// MaxBytes is the largest size of a file of prices.
const MaxBytes = 1 << 20

// Parse reads a file of prices. Its error has a line for each mistake, with the path,
// the line and the column.
func Parse(path string, text []byte) (Table, error) {
	doc, err := jsondoc.Parse(text, jsondoc.Options{MaxDepth: 16})
	if syntax, ok := errors.AsType[*jsondoc.SyntaxError](err); ok {
		return nil, fmt.Errorf("%s:%d:%d: %s", path, syntax.Line, syntax.Col, syntax.Message)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p := &parser{path: path, doc: doc}
	for _, n := range doc.Duplicates {
		p.fail(n.Node, "this key is there twice")
	}
	var t Table
	p.object(doc.Root, "prices", members{
		"$schema": p.skip,
		"prices": func(n *jsondoc.Node) {
			for _, item := range p.array(n) {
				t = append(t, p.group(item)...)
			}
		},
	})
	return t, errors.Join(p.errs...)
}

// A parser collects the mistakes of a file.
type parser struct {
	path string
	doc  *jsondoc.Document
	errs []error
}

func (p *parser) fail(n *jsondoc.Node, format string, args ...any) {
	line, col := p.doc.Position(n.Start)
	key := n.Path()
	if key != "" {
		key += ": "
	}
	p.errs = append(p.errs, fmt.Errorf("%s:%d:%d: %s%s", p.path, line, col, key, fmt.Sprintf(format, args...)))
}

// members has a function for each key of an object, which reads its value.
type members map[string]func(n *jsondoc.Node)

// object reads an object. required are the names, separated by spaces, of the members
// that it must have.
func (p *parser) object(n *jsondoc.Node, required string, known members) bool {
	if n.Kind() != "object" {
		p.fail(n, "got %s, want an object", n.Kind())
		return false
	}
	before := len(p.errs)
	for _, m := range n.Children {
		if read := known[m.Name]; read != nil {
			read(m)
		} else {
			p.fail(m, "unknown key; known are %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	for _, name := range strings.Fields(required) {
		if n.Member(name) == nil {
			p.fail(n, "%s is missing", name)
		}
	}
	return len(p.errs) == before
}

func (p *parser) array(n *jsondoc.Node) []*jsondoc.Node {
	if n.Kind() != "array" || len(n.Children) == 0 {
		p.fail(n, "want a list that is not empty")
		return nil
	}
	return n.Children
}

func (p *parser) skip(*jsondoc.Node) {}

func (p *parser) text(to *string) func(*jsondoc.Node) {
	return func(n *jsondoc.Node) {
		if n.Kind() != "string" || n.Text() == "" {
			p.fail(n, "want a string that is not empty")
			return
		}
		*to = n.Text()
	}
}

func (p *parser) texts(to *[]string) func(*jsondoc.Node) {
	return func(n *jsondoc.Node) {
		for _, item := range p.array(n) {
			var s string
			p.text(&s)(item)
			*to = append(*to, s)
		}
	}
}

// group reads the models of a provider.
func (p *parser) group(n *jsondoc.Node) []Model {
	var all Model
	var models *jsondoc.Node
	p.object(n, "hosts models source date", members{
		"hosts": func(n *jsondoc.Node) {
			all.Hosts = nil // the key may be there twice
			p.texts(&all.Hosts)(n)
			for i, host := range all.Hosts {
				all.Hosts[i] = strings.ToLower(host)
				if strings.ContainsAny(host, "/@ ") {
					p.fail(n.Children[i], "%q is not the name of a host; want one as api.openai.com or localhost:8000", host)
				}
			}
		},
		"source": p.text(&all.Source),
		"note":   p.text(&all.Note),
		"date": func(n *jsondoc.Node) {
			p.text(&all.Date)(n)
			if _, err := time.Parse(time.DateOnly, all.Date); all.Date != "" && err != nil {
				p.fail(n, "%q is not a date, want one as 2026-11-22", all.Date)
			}
		},
		"models": func(n *jsondoc.Node) { models = n },
	})
	if models == nil {
		return nil
	}
	if models.Kind() != "object" {
		p.fail(models, "got %s, want an object: the price by the model's name", models.Kind())
		return nil
	}
	var list []Model
	for _, n := range models.Children {
		m := all
		m.Name, m.File = n.Name, p.path
		known := p.price(&m.Price)
		known["aliases"] = p.texts(&m.Aliases)
		known["long"] = func(n *jsondoc.Node) {
			m.Long = &LongPrice{}
			known := p.price(&m.Long.Price)
			known["over"] = p.tokens(&m.Long.Over)
			p.object(n, "over input output", known)
		}
		p.object(n, "input output", known)
		list = append(list, m)
	}
	return list
}

func (p *parser) price(to *Price) members {
	return members{
		"input":      func(n *jsondoc.Node) { to.Input = p.money(n) },
		"output":     func(n *jsondoc.Node) { to.Output = p.money(n) },
		"cached":     func(n *jsondoc.Node) { m := p.money(n); to.Cached = &m },
		"cacheWrite": func(n *jsondoc.Node) { m := p.money(n); to.CacheWrite = &m },
	}
}

// MaxPrice is the highest price of a million tokens.
const MaxPrice = 1e6 * agent.Dollar

func (p *parser) money(n *jsondoc.Node) agent.Money {
	number, ok := n.Value.(json.Number)
	m, err := agent.ParseMoney(number.String())
	if !ok || err != nil || m < 0 || m > MaxPrice {
		p.fail(n, "want the US dollars of a million tokens, between 0 and 1000000")
		return 0
	}
	return m
}

func (p *parser) tokens(to *int) func(*jsondoc.Node) {
	return func(n *jsondoc.Node) {
		number, _ := n.Value.(json.Number)
		if i, err := number.Int64(); err != nil || i < 1 || i > 1<<31-1 {
			p.fail(n, "want a number of tokens")
		} else {
			*to = int(i)
		}
	}
}
