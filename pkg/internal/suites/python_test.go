//go:build linux

package suites

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A pythonCall is a call of a function with literal arguments.
type pythonCall struct {
	name       string
	positional []any
	named      map[string]any
}

// A python reads literals: strings, numbers, True, False, None, lists and dicts. Everything else is
// an error.
type python struct{ rest string }

var (
	pythonWord   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*`)
	pythonKey    = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)\s*=`)
	pythonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?`)
)

// parseCall reads text as one call.
func parseCall(text string) (pythonCall, error) {
	p := &python{strings.TrimSpace(text)}
	c := pythonCall{name: pythonWord.FindString(p.rest), named: map[string]any{}}
	p.rest = p.rest[len(c.name):]
	err := p.list("(", ")", func() error {
		key := pythonKey.FindStringSubmatch(p.rest)
		if key != nil {
			p.rest = p.rest[len(key[0]):]
		}
		v, err := p.value()
		switch {
		case err != nil:
			return err
		case key == nil && len(c.named) > 0:
			return fmt.Errorf("an argument without a name is behind one with a name")
		case key == nil:
			c.positional = append(c.positional, v)
			return nil
		}
		if _, twice := c.named[key[1]]; twice {
			return fmt.Errorf("%s is there twice", key[1])
		}
		c.named[key[1]] = v
		return nil
	})
	if err == nil && (c.name == "" || p.rest != "") {
		err = fmt.Errorf("not one call, at %.40q", p.rest)
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", text, err)
	}
	return c, nil
}

// take removes a prefix and the space before it.
func (p *python) take(prefix string) bool {
	p.rest = strings.TrimLeft(p.rest, " \t\n")
	rest, ok := strings.CutPrefix(p.rest, prefix)
	p.rest = rest
	return ok
}

// list reads elements separated by commas.
func (p *python) list(open, end string, element func() error) error {
	if !p.take(open) {
		return fmt.Errorf("no %s at %.40q", open, p.rest)
	}
	for !p.take(end) {
		if err := element(); err != nil {
			return err
		}
		if !p.take(",") && !strings.HasPrefix(p.rest, end) {
			return fmt.Errorf("no comma at %.40q", p.rest)
		}
		p.take("")
	}
	return nil
}

// value reads one literal.
func (p *python) value() (any, error) {
	p.take("")
	for word, v := range map[string]any{"True": true, "False": false, "None": nil} {
		if pythonWord.FindString(p.rest) == word {
			p.take(word)
			return v, nil
		}
	}
	switch number := pythonNumber.FindString(p.rest); {
	case number != "":
		p.take(number)
		return json.Number(number), nil
	case strings.HasPrefix(p.rest, "["):
		list := []any{}
		return list, p.list("[", "]", func() error {
			v, err := p.value()
			list = append(list, v)
			return err
		})
	case strings.HasPrefix(p.rest, "{"):
		dict := map[string]any{}
		return dict, p.list("{", "}", func() error {
			key, err := p.text()
			if err == nil && !p.take(":") {
				err = fmt.Errorf("no colon at %.40q", p.rest)
			}
			if err == nil {
				dict[key], err = p.value()
			}
			return err
		})
	}
	return p.text()
}

// text reads a text in single or double quotes.
func (p *python) text() (string, error) {
	if !strings.HasPrefix(p.rest, "'") && !strings.HasPrefix(p.rest, `"`) {
		return "", fmt.Errorf("not a literal: %.40q", p.rest)
	}
	quote, s := p.rest[0], p.rest[1:]
	var b strings.Builder
	for s != "" && s[0] != quote {
		// Go has the same escapes as Python, except that it allows to escape only the quote in use.
		if strings.HasPrefix(s, `\'`) || strings.HasPrefix(s, `\"`) {
			b.WriteByte(s[1])
			s = s[2:]
			continue
		}
		r, _, tail, err := strconv.UnquoteChar(s, quote)
		if err != nil || s[0] == '\n' {
			return "", fmt.Errorf("not a text: %.40q", s)
		}
		b.WriteRune(r) // \xNN is a code point in Python
		s = tail
	}
	if s == "" {
		return "", fmt.Errorf("a text without an end: %.40q", p.rest)
	}
	p.rest = s[1:]
	return b.String(), nil
}

func TestParseCall(t *testing.T) {
	for text, want := range map[string]string{
		`f()`:              `[] {}`,
		`f('a', "b", x=1)`: `["a","b"] {"x":1}`,
		`f(x = [1, -2.5e3, None,], y={'k': True, "l": [{}]})`: `[] {"x":[1,-2.5e3,null],"y":{"k":true,"l":[{}]}}`,
		`f(s='it\'s "so"\n\\\x41é', t="it's")`:                `[] {"s":"it's \"so\"\n\\Aé","t":"it's"}`,
	} {
		c, err := parseCall(text)
		positional, _ := json.Marshal(append([]any{}, c.positional...)) // literals always encode
		named, _ := json.Marshal(c.named)
		if got := string(positional) + " " + string(named); err != nil || c.name != "f" || got != want {
			t.Errorf("parseCall(%q) = %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{``, `f`, `f(`, `f(1`, `f(1 2)`, `f(x=1, 2)`, `f(x=1, x=2)`, `f(x=g())`, `f(a)`, `f(01)`, `f('a)`, "f('a\nb')", `f('\q')`, `f({1: 2})`, `f() + f()`, `f(1_0)`, `f('a' 'b')`, `f(Truer)`} {
		if c, err := parseCall(text); err == nil {
			t.Errorf("parseCall(%q) = %v, want an error", text, c)
		}
	}
}
