package schema

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// Checked returns tool as an agent.Validator: the gate that every call passes
// compares the arguments with the tool's schema before it runs. What does not
// hold is an error that names every argument with the rule that it breaks, so
// that a model can correct itself:
//
//	the arguments do not fit the tool's schema: argument /count [minimum]: got -1, want at least 0
//
// Several stand on lines of their own.
//
// null for an optional argument is the same as none. The schema is compiled at the
// first call. Of one that cannot be compiled, or that takes too long to compare with,
// only the types of the arguments and which of them are required count; a call never
// fails for its tool's schema.
func Checked(tool agent.Tool) agent.Tool {
	return &checked{Tool: tool}
}

type checked struct {
	agent.Tool
	once   sync.Once
	schema *Schema // nil if it cannot be compiled
}

// Unwrap returns the tool: see agent.As.
func (c *checked) Unwrap() any { return c.Tool }

// Validate implements agent.Validator.
func (c *checked) Validate(ctx context.Context, inv *agent.Invocation) error {
	c.once.Do(c.compile)
	if c.schema == nil {
		return nil
	}
	violations, err := c.schema.checkArgs(ctx, inv)
	if len(violations) == 1 && violations[0].Rule == ruleSteps {
		violations, err = c.checkBasics(ctx, inv)
	}
	if err == nil && len(violations) > 0 {
		err = argsError(violations)
	}
	return err
}

func (c *checked) compile() {
	spec := c.Spec()
	s, err := Compile(spec.Name, spec.Schema)
	if err != nil {
		s, err = Compile(spec.Name, basics(spec.Schema))
	}
	if err == nil {
		c.schema = s
	}
}

// checkBasics compares arguments with the basics of the schema.
func (c *checked) checkBasics(ctx context.Context, inv *agent.Invocation) ([]Violation, error) {
	s, err := Compile(c.Spec().Name, basics(c.Spec().Schema))
	if err != nil {
		return nil, nil // nothing can be compared
	}
	return s.checkArgs(ctx, inv)
}

// checkArgs validates arguments that the gate has decoded.
func (s *Schema) checkArgs(ctx context.Context, inv *agent.Invocation) ([]Violation, error) {
	values := countValues([]byte(inv.Call.Args))
	if large := s.tooLarge(values); large != nil {
		return large, nil
	}
	members := maps.Clone(inv.Values())
	for name, value := range members {
		_, known := s.compiled.Properties[name]
		if value == nil && known && !slices.Contains(s.compiled.Required, name) {
			delete(members, name)
		}
	}
	if wrong := otherCase(nil, s.compiled, members, nil); len(wrong) > 0 {
		slices.SortFunc(wrong, func(a, b Violation) int { return strings.Compare(a.Pointer, b.Pointer) })
		return wrong, nil
	}
	return s.validate(ctx, members, values)
}

// otherCase finds members whose names differ from a property's only in case. Many programs,
// such as those in Go, take them for the property, which rules would not have judged.
func otherCase(to []Violation, s *jsonschema.Schema, v any, at []string) []Violation {
	switch v := v.(type) {
	case []any:
		for i := 0; s.Items2020 != nil && i < len(v); i++ {
			to = otherCase(to, s.Items2020, v[i], append(at, strconv.Itoa(i)))
		}
	case map[string]any:
		var known map[string]string
		for name, value := range v {
			if p := s.Properties[name]; p != nil {
				to = otherCase(to, p, value, append(at, name))
				continue
			}
			if known == nil {
				known = make(map[string]string, len(s.Properties))
				for property := range s.Properties {
					known[fold(property)] = property
				}
			}
			if property, ok := known[fold(name)]; ok {
				to = append(to, Violation{jsondoc.JoinPointer(append(at, name)...), "additionalProperties", fmt.Sprintf("unknown key %s; did you mean %q?", show(name), property)})
			}
		}
	}
	return to
}

// fold returns the same text for all names that encoding/json takes for the same.
func fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// An argsError says which arguments break which rules.
type argsError []Violation

func (e argsError) Error() string {
	const most = 20
	var b strings.Builder
	b.WriteString("the arguments do not fit the tool's schema:")
	separator := "\n"
	if len(e) == 1 {
		separator = " " // then its first line is all of it
	}
	for i, v := range e {
		if i == most {
			fmt.Fprintf(&b, "\nand %d more", len(e)-most)
			break
		}
		place := "the arguments"
		if v.Pointer != "" {
			place = "argument " + clip(v.Pointer)
		}
		fmt.Fprintf(&b, "%s%s [%s]: %s", separator, place, v.Rule, v.Message)
	}
	return b.String()
}

// basics returns the simple part of a tool's schema: which arguments there are, their
// types, and which are required.
func basics(doc []byte) []byte {
	var loose struct {
		Required             json.RawMessage
		Properties           map[string]json.RawMessage
		AdditionalProperties json.RawMessage
	}
	_ = json.Unmarshal(doc, &loose) // the rest is ignored
	out := map[string]any{"type": "object"}
	var required []string
	if json.Unmarshal(loose.Required, &required) == nil && len(required) > 0 {
		slices.Sort(required)
		out["required"] = slices.Compact(required)
	}
	props := map[string]any{}
	for name, raw := range loose.Properties {
		props[name] = map[string]any{}
		var prop struct{ Type any }
		if json.Unmarshal(raw, &prop) == nil && isType(prop.Type) {
			props[name] = map[string]any{"type": prop.Type}
		}
	}
	out["properties"] = props
	if bytes.Equal(loose.AdditionalProperties, []byte("false")) {
		out["additionalProperties"] = false
	}
	text, _ := json.Marshal(out) // strings, maps and lists of them always encode
	return text
}

func isType(v any) bool {
	switch v := v.(type) {
	case string:
		return slices.Contains([]string{"null", "boolean", "object", "array", "number", "integer", "string"}, v)
	case []any:
		return len(v) > 0 && areNames(v) && !slices.ContainsFunc(v, func(t any) bool { return !isType(t) })
	}
	return false
}

// maxProblems is how many errors and how many warnings of a file are listed one by
// one; the others are counted.
const maxProblems = 100

// A Problem is something to change in a file.
type Problem struct {
	// Line and Col count from 1, Col in characters.
	Line, Col int
	// Key names the value as contents.mcpServers[0].tag; empty means the file
	// as a whole.
	Key string
	// Message says what was found and what was expected.
	Message string
	// Warning means that the file works as it is.
	Warning bool
}

// String is "3:5: contents.slug: got number, want string".
func (p Problem) String() string {
	s := fmt.Sprintf("%d:%d: ", p.Line, p.Col)
	if p.Key != "" {
		s += p.Key + ": "
	}
	if p.Warning {
		s += "warning: "
	}
	return s + p.Message
}

// Parse reads a file for CheckDocument. Its error is a *jsondoc.SyntaxError.
func Parse(text []byte) (*jsondoc.Document, error) {
	return jsondoc.Parse(text, jsondoc.Options{MaxDepth: agent.MaxArgsDepth})
}

// ProblemAt is a problem with the value that the JSON pointer (RFC 6901) names, or the
// nearest one around it.
func ProblemAt(doc *jsondoc.Document, pointer, message string) Problem {
	line, col := doc.Position(doc.Find(pointer).Start)
	return Problem{Line: line, Col: col, Key: doc.Path(pointer), Message: message}
}

// Check returns the problems of a file, in the order of their lines: what breaks the
// schema, keys that are there twice and, as warnings, unknown keys. A text that is
// not JSON has one problem, the first.
func (s *Schema) Check(text []byte) []Problem {
	doc, err := Parse(text)
	if syntax, ok := errors.AsType[*jsondoc.SyntaxError](err); ok {
		return []Problem{{Line: syntax.Line, Col: syntax.Col, Message: syntax.Message}}
	}
	return s.CheckDocument(doc)
}

// CheckDocument is Check for a file that is parsed already.
func (s *Schema) CheckDocument(doc *jsondoc.Document) []Problem {
	var problems []Problem
	for _, n := range doc.Duplicates {
		line, col := doc.Position(n.NameStart)
		firstLine, firstCol := doc.Position(n.First.NameStart)
		problems = append(problems, Problem{Line: line, Col: col, Key: n.Path(),
			Message: fmt.Sprintf("this key is there twice, first at %d:%d", firstLine, firstCol)})
	}
	values := countValues(doc.Raw(doc.Root))
	violations, _ := s.validate(context.Background(), doc.Root.Value, values) // that context does not end
	for _, v := range violations {
		p := ProblemAt(doc, v.Pointer, v.Message)
		if v.Rule == "additionalProperties" {
			p.Line, p.Col = doc.Position(doc.Find(v.Pointer).NameStart)
			p.Warning = true
		}
		problems = append(problems, p)
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return shortened(problems)
}

// shortened replaces all problems but the first by their number.
func shortened(problems []Problem) []Problem {
	count := map[bool]int{} // of errors and of warnings
	list := slices.DeleteFunc(problems, func(p Problem) bool {
		count[p.Warning]++
		return count[p.Warning] > maxProblems
	})
	for _, warning := range []bool{false, true} {
		if n := count[warning] - maxProblems; n > 0 {
			list = append(list, Problem{Line: 1, Col: 1, Message: fmt.Sprintf("%d more problems like these", n), Warning: warning})
		}
	}
	return list
}
