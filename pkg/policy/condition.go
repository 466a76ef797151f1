package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/glob"
)

// A fit says whether a rule matches a call.
type fit int

// The fits. failed means that the rule could not be evaluated, which denies the call.
// maybe counts as a match, unless another process makes the call.
const (
	no fit = iota
	maybe
	yes
	failed
)

// A condition is a Condition for one argument.
type condition struct {
	Condition
	pointer string
	tokens  []string
	glob    glob.Pattern
	regexp  *regexp.Regexp
	home    string // see Place

	min, max *big.Rat
	numbers  []*big.Rat // of OneOf
}

// An unfit is the argument that could not be compared, and why.
type unfit struct {
	pointer string
	err     error
}

func (u *unfit) Error() string { return "argument " + u.pointer + ": " + u.err.Error() }

// fits compares the argument. With strict, for allow rules, every value must match;
// otherwise one is enough. The error says why the fit is failed.
func (c *condition) fits(inv *agent.Invocation, strict bool) (fit, error) {
	values, tokens := inv.Values(), c.at(inv)
	if len(tokens) == 1 && tokens[0] != "*" { // a plain value, as most are
		name := tokens[0]
		if values[name] == nil && inv.Spec.IsAgent() { // the prompt has two names
			name = cmp.Or(map[string]string{"prompt": "what", "what": "prompt"}[name], name)
		}
		switch v := values[name].(type) {
		case string, json.Number, bool:
			f, err := c.fitsValue(v, inv, strict)
			if f == failed {
				err = &unfit{c.pointer, err}
			}
			return f, err
		}
	}
	found, missing := collect(nil, values, tokens)
	if len(found) == 0 || missing && strict {
		return no, nil
	}
	result := no
	if strict {
		result = yes
	}
	for _, v := range found {
		f, err := c.fitsValue(v, inv, strict)
		switch {
		case f == failed:
			return failed, &unfit{c.pointer, err}
		case strict:
			result = min(result, f)
		default:
			result = max(result, f)
		}
	}
	return result, nil
}

// at returns the pointer with the name of the argument that the tool reads.
func (c *condition) at(inv *agent.Invocation) []string {
	if len(c.tokens) > 0 && inv.Spec.Aliases[c.tokens[0]] != "" {
		return append([]string{inv.Spec.Aliases[c.tokens[0]]}, c.tokens[1:]...)
	}
	return c.tokens
}

// collect adds the values that a pointer names: the items of a list one by one, and all
// members for "*". missing reports that a part of the pointer does not exist.
func collect(to []any, v any, tokens []string) (found []any, missing bool) {
	if len(tokens) == 0 {
		list, ok := v.([]any)
		if !ok {
			return append(to, v), false
		}
		for _, item := range list {
			to, _ = collect(to, item, nil)
		}
		return to, false
	}
	var next []any
	switch v := v.(type) {
	case map[string]any:
		if tokens[0] == "*" {
			next = slices.Collect(maps.Values(v))
		} else if m, ok := v[tokens[0]]; ok {
			next = []any{m}
		}
	case []any:
		if i, err := strconv.Atoi(tokens[0]); err == nil && i >= 0 && i < len(v) {
			next = v[i : i+1]
		} else if tokens[0] == "*" {
			next = v
		}
	}
	missing = len(next) == 0
	for _, m := range next {
		var lacks bool
		to, lacks = collect(to, m, tokens[1:])
		missing = missing || lacks
	}
	return to, missing
}

func (c *condition) fitsValue(v any, inv *agent.Invocation, strict bool) (fit, error) {
	text, isText := v.(string)
	if !isText {
		switch v := v.(type) {
		case json.Number:
			text = v.String()
		case bool:
			text = strconv.FormatBool(v)
		case nil:
			text = "null"
		default:
			return failed, errors.New("it is an object, which no condition compares")
		}
	}
	if c.Glob != "" && !c.glob.Match(text) || c.regexp != nil && !c.regexp.MatchString(text) || len(c.OneOf) > 0 && !c.isOne(v) {
		return no, nil
	}
	if c.min != nil || c.max != nil {
		n := number(v)
		if n == nil {
			return failed, errors.New("it is not a number that can be compared")
		}
		if c.min != nil && n.Cmp(c.min) < 0 || c.max != nil && n.Cmp(c.max) > 0 {
			return no, nil
		}
	}
	if c.Inside == "" {
		return yes, nil
	}
	if !isText {
		return failed, errors.New("it is not a path")
	}
	if inv.Remote { // its files may differ from those here
		if filepath.IsAbs(text) && within(filepath.Clean(text), c.Inside, strict) {
			return yes, nil
		}
		return maybe, nil
	}
	if strings.HasPrefix(text, "~") && !strict { // some tools replace it
		rest := text[1:]
		if rest != "" && rest[0] != '/' || c.home == "" {
			return maybe, nil // the home of somebody
		}
		if f, err := parsedOf(inv).inside(c.home+rest, c.Inside, inv.Dir, strict); f != no {
			return f, err
		}
	}
	return parsedOf(inv).inside(text, c.Inside, inv.Dir, strict)
}

func (c *condition) isOne(v any) bool {
	if n := number(v); n != nil {
		return slices.ContainsFunc(c.numbers, func(one *big.Rat) bool { return one.Cmp(n) == 0 })
	}
	return slices.Contains(c.OneOf, v)
}

// number returns the exact value of a number; nil if v is none, or one with more than 1,000
// digits or an exponent of more than 400, which would take too long.
func number(v any) *big.Rat {
	n, _ := v.(json.Number)
	digits, exponent, _ := strings.Cut(strings.ToLower(n.String()), "e")
	if e, err := strconv.Atoi(cmp.Or(exponent, "0")); err != nil || e < -400 || e > 400 || len(digits) > 1000 {
		return nil
	}
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return nil
	}
	return r
}
