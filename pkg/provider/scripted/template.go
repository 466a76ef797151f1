package scripted

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/leaf/loosejson"
)

// A template is text with placeholders.
type template []piece

// A piece is literal text, or a placeholder.
type piece struct {
	text string
	ref  *ref
}

// A ref is a placeholder: ${base.path:-fallback}.
type ref struct {
	source string // as written, between the braces
	base   string // prompt, result, 1, or the name of a group
	// For result: the tool and which of its results, or the position in the
	// last message.
	tool string
	nth  int // -1 means the last of the tool
	path []string

	fallback    string
	hasFallback bool
}

// placeholders are the names that every rule may use; no group may have such a
// name.
func placeholders() []string {
	return []string{"prompt", "lastMessage", "result", "turn", "agent", "tools", "system"}
}

// patterns are the regular expressions of a rule that capture groups.
type patterns struct {
	prompt *pattern
	last   *pattern
	broken bool // one could not be compiled: the groups are not known
}

// numbered is the pattern that ${1} refers to.
func (p patterns) numbered() *pattern {
	return cmp.Or(p.last, p.prompt)
}

func (p patterns) names() []string {
	var all []string
	for _, re := range []*pattern{p.prompt, p.last} {
		if re != nil {
			all = append(all, re.SubexpNames()...)
		}
	}
	return slices.DeleteFunc(all, func(name string) bool { return name == "" })
}

// compile reads a template. What can be known to be wrong before a conversation
// exists is an error here.
func (p patterns) compile(s string) (template, error) {
	var t template
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			t = append(t, piece{text: text.String()})
		}
		text.Reset()
	}
	for {
		before, after, found := strings.Cut(s, "${")
		if !found {
			text.WriteString(s)
			flush()
			return t, nil
		}
		if strings.HasSuffix(before, "$") {
			text.WriteString(strings.TrimSuffix(before, "$") + "${")
			s = after
			continue
		}
		text.WriteString(before)
		inside, rest, closed := strings.Cut(after, "}")
		if !closed {
			return nil, fmt.Errorf("%s has no closing brace; write $${ for a literal ${", short("${"+inside))
		}
		r, err := p.ref(inside)
		if err != nil {
			return nil, fmt.Errorf("${%s}: %w", printable(inside), err)
		}
		flush()
		t = append(t, piece{ref: r})
		s = rest
	}
}

// ref reads the text between the braces of a placeholder.
func (p patterns) ref(inside string) (*ref, error) {
	expr, fallback, has := strings.Cut(inside, ":-")
	r := &ref{source: expr, fallback: fallback, hasFallback: has}
	keys := strings.Split(expr, ".")
	if slices.Contains(keys, "") {
		return nil, errors.New("a name is missing")
	}
	r.base, r.path = keys[0], keys[1:]
	if r.base == "result" {
		return r, r.result()
	}
	return r, p.known(r.base)
}

// result reads which result is meant.
func (r *ref) result() error {
	if len(r.path) == 0 {
		return errors.New("which result? Write ${result.0}, ${result.TOOL} or ${result.TOOL#0}")
	}
	which := r.path[0]
	r.path = r.path[1:]
	if n, err := strconv.Atoi(which); err == nil && n >= 0 {
		r.nth = n
		return nil
	}
	tool, nth, counted := strings.Cut(which, "#")
	r.tool, r.nth = tool, -1
	if !counted {
		return nil
	}
	n, err := strconv.Atoi(nth)
	if err != nil || n < 0 || tool == "" {
		return fmt.Errorf("%q does not say which result; write TOOL#0 for the first of a tool", which)
	}
	r.nth = n
	return nil
}

func (p patterns) known(base string) error {
	if slices.Contains(placeholders(), base) || p.broken {
		return nil
	}
	names := p.names()
	n, err := strconv.Atoi(base)
	if err != nil || n < 0 {
		if slices.Contains(names, base) {
			return nil
		}
		return fmt.Errorf("there is no such value or group; %s", nearest(base, append(placeholders(), names...)))
	}
	re := p.numbered()
	switch {
	case re == nil:
		return errors.New("the rule has neither lastMessage nor prompt, whose groups it could be")
	case n > re.NumSubexp():
		return fmt.Errorf("the pattern %s has no group %d", re, n)
	}
	return nil
}

// filler fills templates of one rule with values of one conversation.
type filler struct {
	rule *rule
	view *view
	left int // bytes that may still be written
}

// fill returns the text of t. Placeholders in values are not replaced.
func (f *filler) fill(t template) (string, error) {
	var b strings.Builder
	for _, p := range t {
		text := p.text
		if p.ref != nil {
			var err error
			if text, err = f.value(p.ref); err != nil {
				return "", err
			}
		}
		if f.left -= len(text); f.left < 0 {
			return "", fmt.Errorf("%s: the answer with its values is longer than %d bytes", f.rule, MaxAnswer)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

func (f *filler) value(r *ref) (string, error) {
	text, err := f.base(r)
	if err == nil && len(r.path) > 0 {
		text, err = lookup(text, r.path)
	}
	if r.hasFallback && (err != nil || text == "") {
		return r.fallback, nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: ${%s}: %w", f.rule, printable(r.source), err)
	}
	return text, nil
}

func (f *filler) base(r *ref) (string, error) {
	v := f.view
	switch r.base {
	case "prompt":
		return v.prompt, nil
	case "lastMessage":
		return v.text, nil
	case "turn":
		return strconv.Itoa(v.req.Turn), nil
	case "agent":
		return v.req.Agent, nil
	case "system":
		return v.req.System, nil
	case "tools":
		var names []string
		for _, t := range v.req.Tools {
			names = append(names, t.Name)
		}
		return strings.Join(names, ", "), nil
	case "result":
		return v.result(r)
	default:
		return f.group(r.base)
	}
}

// group is the text of a capture group, by number or name.
func (f *filler) group(name string) (string, error) {
	p := f.rule.patterns
	n, err := strconv.Atoi(name)
	re := p.numbered()
	if err != nil {
		re = p.prompt
		if p.last != nil && p.last.SubexpIndex(name) >= 0 {
			re = p.last
		}
		n = re.SubexpIndex(name)
	}
	subject := f.view.prompt
	if re == p.last {
		subject = f.view.text
	}
	at := re.FindStringSubmatchIndex(subject)
	if 2*n+1 >= len(at) || at[2*n] < 0 {
		return "", errors.New("the group did not match")
	}
	return subject[at[2*n]:at[2*n+1]], nil
}

// lookup follows a path into JSON text. It returns the content of a string, and the
// compact JSON of other values.
func lookup(s string, path []string) (string, error) {
	doc, err := jsondoc.Parse([]byte(s), jsondoc.Options{})
	if err != nil {
		return "", fmt.Errorf("the text is not valid JSON: %s", short(s))
	}
	n := doc.Root
	for _, key := range path {
		next, what := n.Member(key), ""
		switch n.Kind() {
		case object:
			what = "key "
		case array:
			what = "element "
			if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(n.Children) {
				next = n.Children[i]
			}
		}
		if next == nil {
			return "", fmt.Errorf("there is no %s%q in %s", what, key, short(string(doc.Raw(n))))
		}
		n = next
	}
	return agent.ArgText(doc.Raw(n))
}

type argsTemplate []argsPiece

// add moves what is copied as it is to the end of t.
func (t *argsTemplate) add(copied *strings.Builder) {
	if copied.Len() > 0 {
		*t = append(*t, argsPiece{template: template{{text: copied.String()}}})
		copied.Reset()
	}
}

// An argsPiece becomes a JSON string if its kind is text, must become a JSON value
// if it is object, and is copied otherwise.
type argsPiece struct {
	template template
	kind     string
}

func (f *filler) args(t argsTemplate) (string, error) {
	var b strings.Builder
	for _, p := range t {
		s, err := f.fill(p.template)
		if err != nil {
			return "", err
		}
		switch {
		case p.kind == text:
			s = loosejson.Write(s)
		case p.kind == object && !json.Valid([]byte(s)):
			return "", fmt.Errorf("%s: $json: the value is not valid JSON: %s", f.rule, short(s))
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

// printable replaces characters that could be a command to a terminal.
func printable(s string) string {
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}

// short quotes a text and shortens it, for messages.
func short(s string) string {
	const limit = 120
	runes := 0
	for i := range s {
		if runes == limit {
			return fmt.Sprintf("%q and %d bytes more", s[:i], len(s)-i)
		}
		runes++
	}
	return strconv.Quote(s)
}
