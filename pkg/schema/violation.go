package schema

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// A Violation is one rule that a document breaks at one place.
type Violation struct {
	// Pointer is the JSON pointer (RFC 6901) of the value; what is missing or
	// unknown is named too. The whole document is "".
	Pointer string
	// Rule is the keyword of the schema: "required", "type", "enum", … Not of
	// a schema are "syntax", for text that is not JSON, "number", for a number
	// that is too large to calculate with, "size", for too many values, and
	// "steps", for a schema whose references branch so often that the
	// comparison would not end.
	Rule string
	// Message says in a few words what was found and what was expected.
	Message string
}

// String is "/count [minimum]: got -1, want at least 0".
func (v Violation) String() string {
	return fmt.Sprintf("%s [%s]: %s", cmp.Or(v.Pointer, "the whole"), v.Rule, v.Message)
}

// Validate returns what is wrong with the JSON text doc, sorted by place and
// without repetition; nothing if it is valid. Of a choice (anyOf, oneOf) that
// fails, it names what the closest alternative lacks. The error is that of ctx.
func (s *Schema) Validate(ctx context.Context, doc []byte) ([]Violation, error) {
	values := countValues(doc)
	if large := s.tooLarge(values); large != nil {
		return large, nil
	}
	v, err := decode(doc)
	if err != nil {
		return []Violation{{Rule: ruleSyntax, Message: err.Error()}}, nil
	}
	return s.validate(ctx, v, values)
}

// validate is Validate for a decoded text, which has so many values.
func (s *Schema) validate(ctx context.Context, v any, values int) ([]Violation, error) {
	if large := s.tooLarge(values); large != nil {
		return large, nil
	}
	if huge := hugeNumbers(v, nil); len(huge) > 0 {
		slices.SortStableFunc(huge, func(a, b Violation) int { return strings.Compare(a.Pointer, b.Pointer) })
		return huge, nil
	}
	ok, err := s.compare(ctx, v, values)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case !ok:
		return []Violation{{Rule: ruleSteps, Message: "comparing it with the schema takes too many steps"}}, nil
	case err == nil:
		return nil, nil
	}
	return s.violations(err.(*jsonschema.ValidationError)), nil
}

func (s *Schema) violations(err *jsonschema.ValidationError) []Violation {
	leaves := s.leaves(err)
	type placed struct {
		path []string
		Violation
	}
	list := make([]placed, len(leaves))
	for i, l := range leaves {
		list[i] = placed{l.path, Violation{jsondoc.JoinPointer(l.path...), l.rule, l.message()}}
	}
	slices.SortStableFunc(list, func(a, b placed) int {
		return cmp.Or(comparePaths(a.path, b.path), strings.Compare(a.Rule+a.Message, b.Rule+b.Message))
	})
	out := make([]Violation, len(list))
	for i, t := range list {
		out[i] = t.Violation
	}
	return slices.Compact(out)
}

// comparePaths sorts places: array items by number.
func comparePaths(a, b []string) int {
	return slices.CompareFunc(a, b, func(x, y string) int {
		i, errX := strconv.Atoi(x)
		j, errY := strconv.Atoi(y)
		if errX == nil && errY == nil && i != j {
			return i - j
		}
		return strings.Compare(x, y)
	})
}

// A leaf is a rule that failed itself, and not for what is below it. Leaves with the same path, rule and
// got that come from the alternatives of one choice become one message.
type leaf struct {
	path []string
	rule string
	got  string
	want []string
}

func (l leaf) message() string {
	var parts []string
	if l.got != "" {
		parts = append(parts, l.got)
	}
	switch want := l.want; {
	case len(want) == 1:
		parts = append(parts, "want "+want[0])
	case len(want) > 1 && l.rule == "enum":
		parts = append(parts, "want one of "+list(want))
	case len(want) > 1:
		parts = append(parts, "want "+strings.Join(want, " or "))
	}
	return strings.Join(parts, ", ")
}

func list(items []string) string {
	const most = 30
	if len(items) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(items[:most], ", "), len(items)-most)
	}
	return strings.Join(items, ", ")
}

// leaves returns the rules that failed themselves.
func (s *Schema) leaves(e *jsonschema.ValidationError) []leaf {
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		var out []leaf
		for _, cause := range e.Causes {
			out = append(out, s.leaves(cause)...)
		}
		return out
	case *kind.AnyOf:
		return s.choice(e, "anyOf")
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			return s.choice(e, "oneOf")
		}
	case *kind.Required:
		return s.missing(e, "required", k.Missing, "missing")
	case *kind.DependentRequired:
		return s.missing(e, "dependentRequired", k.Missing, fmt.Sprintf("missing, as %s is there", show(k.Prop)))
	case *kind.Dependency:
		return s.missing(e, "dependencies", k.Missing, fmt.Sprintf("missing, as %s is there", show(k.Prop)))
	case *kind.AdditionalProperties:
		var out []leaf
		known := s.known(e.SchemaURL)
		for _, name := range k.Properties {
			got := fmt.Sprintf("unknown key %s", show(name))
			got += closest.Hint(name, known)
			out = append(out, leaf{path: below(e.InstanceLocation, name), rule: "additionalProperties", got: got})
		}
		return out
	}
	l := single(e)
	if l.rule == "pattern" {
		m, _ := s.at(e.SchemaURL)
		if words, ok := m["patternErrorMessage"].(string); ok {
			l.want = []string{words}
		}
	}
	return []leaf{l}
}

func (s *Schema) missing(e *jsonschema.ValidationError, rule string, names []string, got string) []leaf {
	var out []leaf
	for _, name := range names {
		out = append(out, leaf{path: below(e.InstanceLocation, name), rule: rule, got: got, want: s.wants(e.SchemaURL, name)})
	}
	return out
}

// choice returns the most helpful leaves of alternatives that all failed. Those that
// are meant for another type of value or another tag count only if all of them are.
// The others become one leaf where each lacks the same, or are listed side by side.
func (s *Schema) choice(e *jsonschema.ValidationError, rule string) []leaf {
	depth := len(e.InstanceLocation)
	var fitting, others [][]leaf
	for _, cause := range e.Causes {
		b := s.leaves(cause)
		wrong := slices.DeleteFunc(slices.Clone(b), func(l leaf) bool { return !misfit(l, depth) })
		if len(wrong) == 0 {
			fitting = append(fitting, b)
		} else {
			others = append(others, wrong)
		}
	}
	if len(fitting) == 1 {
		return fitting[0]
	}
	if len(fitting) == 0 {
		fitting = others
	}
	if one, ok := join(fitting, rule); ok {
		return []leaf{one}
	}
	var branches []string
	for _, b := range fitting {
		var faults []string
		for _, l := range b {
			faults = append(faults, inside(l.path[depth:])+l.message())
		}
		slices.Sort(faults)
		branches = append(branches, "("+strings.Join(faults, "; ")+")")
	}
	slices.Sort(branches)
	return []leaf{{path: e.InstanceLocation, rule: rule, got: "none of the alternatives fits: " + strings.Join(slices.Compact(branches), " or ")}}
}

func inside(path []string) string {
	if len(path) == 0 {
		return ""
	}
	return jsondoc.JoinPointer(path...) + " "
}

// misfit reports whether a leaf shows that an alternative is meant for another type
// of value or, by a constant in a key of it, for another kind of object.
func misfit(l leaf, depth int) bool {
	switch l.rule {
	case "type":
		return len(l.path) == depth
	case "enum":
		return len(l.path) <= depth+1
	}
	return false
}

// join makes one leaf of alternatives that each fail in one way at one place by
// one rule, or that each miss one key of the same object, or that want other
// values or types of the same thing.
func join(branches [][]leaf, rule string) (leaf, bool) {
	var all leaf
	for i, b := range branches {
		if len(b) != 1 {
			return leaf{}, false
		}
		l := b[0]
		if l.rule == "required" {
			l.want = []string{show(l.path[len(l.path)-1])}
		}
		if i == 0 {
			all = l
			continue
		}
		same := l.rule == all.rule && l.got == all.got
		mixed := l.isKind() && branches[0][0].isKind()
		if !same && !mixed || !slices.Equal(l.place(), all.place()) {
			return leaf{}, false
		}
		if l.rule == "enum" {
			all.got = l.got // says more than the type
		}
		if !same {
			all.rule = rule
		}
		all.want = append(all.want, l.want...)
	}
	all.want = unique(all.want)
	return all, len(branches) > 0
}

func (l leaf) isKind() bool { return l.rule == "type" || l.rule == "enum" }

// place is where the leaf's rule is broken: of a missing key, the object.
func (l leaf) place() []string {
	if l.rule == "required" {
		return l.path[:len(l.path)-1]
	}
	return l.path
}

func unique(items []string) []string {
	var out []string
	for _, item := range items {
		if !slices.Contains(out, item) {
			out = append(out, item)
		}
	}
	return out
}

func below(path []string, name string) []string {
	return append(slices.Clone(path), name)
}

// single returns the leaf of a rule about one value.
func single(e *jsonschema.ValidationError) leaf {
	l := leaf{path: e.InstanceLocation, rule: "false"}
	if e.ErrorKind == nil {
		l.got = "not valid"
		return l
	}
	if path := e.ErrorKind.KeywordPath(); len(path) > 0 {
		l.rule = path[0]
	}
	want := func(format string, args ...any) { l.want = []string{fmt.Sprintf(format, args...)} }
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		l.got, l.want = "got "+k.Got, slices.Clone(k.Want)
		if len(l.want) > 1 {
			// null means no value; for a value, the other types help.
			l.want = slices.DeleteFunc(l.want, func(t string) bool { return t == "null" })
		}
	case *kind.Enum:
		l.got, l.want = "got "+show(k.Got), shown(k.Want)
	case *kind.Const:
		l.rule, l.got, l.want = "enum", "got "+show(k.Got), shown([]any{k.Want})
	case *kind.Minimum:
		l.got = "got " + number(k.Got)
		want("at least %s", number(k.Want))
	case *kind.Maximum:
		l.got = "got " + number(k.Got)
		want("at most %s", number(k.Want))
	case *kind.ExclusiveMinimum:
		l.got = "got " + number(k.Got)
		want("more than %s", number(k.Want))
	case *kind.ExclusiveMaximum:
		l.got = "got " + number(k.Got)
		want("less than %s", number(k.Want))
	case *kind.MultipleOf:
		l.got = "got " + number(k.Got)
		want("a multiple of %s", number(k.Want))
	case *kind.Pattern:
		l.got = "got " + show(k.Got)
		want("text that matches %s", clip(k.Want))
	case *kind.Format:
		l.got = "got " + show(k.Got)
		want("a valid %s", k.Want)
	default:
		l.got, l.want = counted(e.ErrorKind)
	}
	return l
}

// counted describes rules about lengths and about whole objects and arrays.
func counted(k jsonschema.ErrorKind) (got string, want []string) {
	size := func(got, want int, bound, what string) (string, []string) {
		if got == 1 {
			what = strings.Replace(what, "s", "", 1)
		}
		return fmt.Sprintf("got %d %s", got, what), []string{fmt.Sprintf("%s %d", bound, want)}
	}
	switch k := k.(type) {
	case *kind.MinLength:
		return size(k.Got, k.Want, "at least", "characters")
	case *kind.MaxLength:
		return size(k.Got, k.Want, "at most", "characters")
	case *kind.MinItems:
		return size(k.Got, k.Want, "at least", "items")
	case *kind.MaxItems:
		return size(k.Got, k.Want, "at most", "items")
	case *kind.MinProperties:
		return size(k.Got, k.Want, "at least", "keys")
	case *kind.MaxProperties:
		return size(k.Got, k.Want, "at most", "keys")
	case *kind.MinContains:
		return size(len(k.Got), k.Want, "at least", "items that match")
	case *kind.MaxContains:
		return size(len(k.Got), k.Want, "at most", "items that match")
	case *kind.Contains:
		return "no item matches what one of them must", nil
	case *kind.AdditionalItems:
		return fmt.Sprintf("%d items too many", k.Count), nil
	case *kind.UniqueItems:
		return fmt.Sprintf("items %d and %d are equal", k.Duplicates[0], k.Duplicates[1]), []string{"no item twice"}
	case *kind.OneOf:
		return "more than one of the alternatives fits", []string{"exactly one"}
	case *kind.PropertyNames:
		return fmt.Sprintf("the key %s does not have the form of a key here", show(k.Property)), nil
	case *kind.Not:
		return "this form is not allowed here", nil
	case *kind.FalseSchema:
		return "not allowed here", nil
	case *kind.RefCycle:
		return "the schema refers to itself without end", nil
	}
	return "not valid", nil
}

// show returns a value short enough for a message.
func show(v any) string {
	text, err := jsondoc.Encode(v, "")
	if err != nil {
		return fmt.Sprint(v)
	}
	return clip(string(text))
}

func shown(values []any) []string {
	var out []string
	for _, v := range values {
		out = append(out, show(v))
	}
	return out
}

func clip(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

func number(r *big.Rat) string {
	if text := r.Num().String(); r.IsInt() && len(text) <= 21 {
		return text
	}
	f, _ := r.Float64()
	if math.IsInf(f, 0) || f == 0 {
		return new(big.Float).SetRat(r).Text('g', 6)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
