package modelhttp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// Refusals say which schemas of tools the servers of a protocol or flavor refuse, and with
// them the whole request. Every server that is known to refuse any refuses combinators at
// the top; docs/models.md has the table with its sources. The zero value has only these.
type Refusals struct {
	// Incomplete: "array schema missing items", and "object schema missing properties" at
	// the top.
	Incomplete bool
	// Keys: names of arguments other than [a-zA-Z0-9_.-]{1,64}.
	Keys bool
	// Subset: references, const, and empty strings in an enum.
	Subset bool
}

// What each server refuses.
var (
	RefusedByOpenAI    = Refusals{Incomplete: true}
	RefusedByAnthropic = Refusals{Keys: true}
	RefusedByGemini    = Refusals{Incomplete: true, Subset: true}
)

// atTop are the keywords that no schema may have at its top.
var atTop = []string{"oneOf", "anyOf", "allOf", "not", "enum", "$ref"}

// maxRule limits the rules that are repeated in a description, in bytes, maxMerged the
// branches at the top of one schema, with those inside them, maxInlined the references that
// are replaced in it, and maxUnfold how deep both are nested.
const (
	maxRule    = 1000
	maxMerged  = 1000
	maxInlined = 1000
	maxUnfold  = 10
)

// Fit returns t with a schema that the server accepts: t itself if it accepts the schema of t.
// The new schema permits every combination of arguments that the old one permits, and perhaps
// others; but an argument that only some branches describe has the schema that they give it. The
// rules that it lost are in the description. The gate still compares calls with
// the schema of the tool. changed describes the differences. The error says why there is no
// such schema.
func (r Refusals) Fit(t agent.ToolSpec) (fitted agent.ToolSpec, changed []string, err error) {
	if !json.Valid(t.Schema) {
		return t, nil, fmt.Errorf("its schema is not valid JSON")
	}
	o := ObjectOf(t.Schema)
	refused := func(name string) bool { return o.Get(name) != nil }
	top := Str(o.Get("type")) != "object" || slices.ContainsFunc(atTop, refused)
	items := r.Incomplete && (o.Get("properties") == nil || bytes.Count(t.Schema, []byte(`"array"`)) > bytes.Count(t.Schema, []byte(`"items"`)))
	subset := r.Subset && slices.ContainsFunc([]string{`"$ref"`, `"const"`, `""`}, func(s string) bool { return bytes.Contains(t.Schema, []byte(s)) })
	keys := r.Keys && slices.ContainsFunc(evens(ObjectOf(o.Get("properties"))), func(key []byte) bool { return !plainKey(Str(key)) })
	if !top && !items && !subset && !keys {
		return t, nil, nil
	}
	var schema map[string]any
	if v, err := jsondoc.Decode(t.Schema); err == nil {
		schema, _ = v.(map[string]any)
	}
	if schema == nil {
		return t, nil, fmt.Errorf("its schema is not a JSON object")
	}
	if top {
		lost, err := flatten(schema)
		if err != nil {
			return t, nil, err
		}
		changed = append(changed, "an object without "+strings.Join(lost.names, ", ")+" at its top")
		if len(lost.rules) > 0 {
			t.Description = strings.TrimSpace(t.Description + "\n\nThe arguments must also satisfy this JSON Schema: " + lost.rules)
		}
	}
	if items {
		if schema["properties"] == nil {
			schema["properties"] = map[string]any{}
		}
		if addItems(schema) {
			changed = append(changed, "arrays with items")
		}
	}
	if subset {
		in := inliner{root: schema, within: map[string]bool{}}
		schema = in.value(schema).(map[string]any)
		delete(schema, "$defs")
		delete(schema, "definitions")
		changed = append(changed, "no references, const and empty enum values")
	}
	if r.Keys {
		dropped, err := dropKeys(schema)
		if err != nil {
			return t, nil, err
		}
		if len(dropped) > 0 {
			changed = append(changed, "no argument "+strings.Join(dropped, ", "))
		}
	}
	t.Schema = marshal(schema)
	return t, changed, nil
}

// evens returns the names of an object's members.
func evens(o Object) (names [][]byte) {
	for i := 0; i+1 < len(o); i += 2 {
		names = append(names, o[i])
	}
	return names
}

func plainKey(key string) bool {
	return key != "" && len(key) <= 64 && strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == ""
}

func marshal(v any) json.RawMessage {
	text, _ := jsondoc.Encode(v, "") // it was JSON before
	return text
}

// A loss is what flatten removed: the keywords, and as JSON those that say more than the
// new schema.
type loss struct {
	names []string
	rules string
}

// flatten makes schema one object without combinators at its top: its arguments are those of
// all branches, and those are required which every branch requires.
func flatten(schema map[string]any) (lost loss, err error) {
	rules := map[string]any{}
	for _, name := range atTop {
		if v, ok := schema[name]; ok {
			lost.names = append(lost.names, name)
			rules[name] = v
		}
	}
	if len(lost.names) == 0 {
		lost.names = []string{"other types"}
	}
	m := merger{root: schema}
	flat, err := m.merged(schema, 0)
	if err != nil {
		return lost, err
	}
	delete(rules, "$ref") // it is replaced by what it refers to
	if text := marshal(rules); len(rules) > 0 && len(text) <= maxRule {
		lost.rules = string(text)
	}
	clear(schema)
	maps.Copy(schema, flat)
	return lost, nil
}

// A merger makes one object schema of a schema and its branches.
type merger struct {
	root map[string]any
	n    int   // schemas that were merged
	err  error // n is too large
}

// merged returns an object schema that accepts what schema accepts of objects.
func (m *merger) merged(schema map[string]any, depth int) (map[string]any, error) {
	if m.n++; m.n > maxMerged {
		m.err = fmt.Errorf("its schema has more than %d combinators and branches at its top", maxMerged)
		return nil, m.err
	}
	if depth > maxUnfold {
		return nil, fmt.Errorf("its schema has combinators at its top that are nested more than %d times", maxUnfold)
	}
	if !isObject(schema["type"]) {
		return nil, fmt.Errorf("its schema is not that of an object")
	}
	out := maps.Clone(schema)
	for _, name := range atTop {
		delete(out, name)
	}
	if len(out) < len(schema) { // what the branches permit is not looked at here
		delete(out, "unevaluatedProperties")
	}
	out["type"] = "object"
	parts := list(schema["allOf"])
	if ref, ok := schema["$ref"].(string); ok {
		target, ok := resolve(m.root, ref)
		if !ok {
			return nil, fmt.Errorf("its schema has the reference %q, which is not in it", Shorten(ref, 100))
		}
		parts = append(parts, target)
	}
	for _, part := range parts {
		p, ok := part.(map[string]any)
		if !ok {
			continue
		}
		p, err := m.merged(p, depth+1)
		if err != nil {
			return nil, err
		}
		join(out, p, func(a, b any) any { return map[string]any{"allOf": []any{a, b}} })
		out["required"] = union(list(out["required"]), list(p["required"]))
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		if err := m.alternatives(out, list(schema[name]), depth); err != nil {
			return nil, err
		}
	}
	if out["properties"] == nil {
		out["properties"] = map[string]any{}
	}
	if len(list(out["required"])) == 0 {
		delete(out, "required")
	}
	return out, nil
}

// alternatives adds to out what all of the branches together permit, and what each requires.
func (m *merger) alternatives(out map[string]any, branches []any, depth int) error {
	var either map[string]any
	for _, branch := range branches {
		b, ok := branch.(map[string]any)
		if !ok {
			b = map[string]any{} // true
		}
		b, err := m.merged(b, depth+1)
		if m.err != nil {
			return m.err
		}
		if err != nil {
			continue // no object satisfies it
		}
		if either == nil {
			either = b
			continue
		}
		patterns := either["patternProperties"]
		join(either, b, func(a, b any) any { return oneOrOther(a, b) })
		if either["patternProperties"] = patterns; patterns == nil {
			delete(either, "patternProperties")
		}
		either["required"] = slices.DeleteFunc(list(either["required"]), func(name any) bool { return !contains(list(b["required"]), name) })
		if !reflect.DeepEqual(either["patternProperties"], b["patternProperties"]) {
			delete(either, "patternProperties")
			delete(either, "additionalProperties")
		}
		if b["additionalProperties"] != false {
			delete(either, "additionalProperties")
		}
	}
	if either == nil {
		if len(branches) > 0 {
			return fmt.Errorf("no object satisfies its schema")
		}
		return nil
	}
	closed := out["additionalProperties"] == false
	known, _ := out["properties"].(map[string]any)
	join(out, either, func(a, _ any) any { return a })
	if closed { // by the schema itself, which permits only its own arguments
		maps.DeleteFunc(out["properties"].(map[string]any), func(name string, _ any) bool { _, ok := known[name]; return !ok })
	} else if either["additionalProperties"] == false {
		// The branches permit no others than theirs, and perhaps not those beside them.
		delete(out, "additionalProperties")
	}
	out["required"] = union(list(out["required"]), list(either["required"]))
	return nil
}

// join adds the properties of b to those of a, and both sees those that are in both.
func join(a, b map[string]any, both func(a, b any) any) {
	mine, _ := a["properties"].(map[string]any)
	theirs, _ := b["properties"].(map[string]any)
	all := maps.Clone(mine)
	if all == nil {
		all = map[string]any{}
	}
	for name, v := range theirs {
		if own, ok := all[name]; ok && !reflect.DeepEqual(own, v) {
			v = both(own, v)
		}
		all[name] = v
	}
	a["properties"] = all
	for _, name := range []string{"description", "$defs", "definitions", "patternProperties"} {
		if v, ok := b[name]; ok && a[name] == nil {
			a[name] = v
		}
	}
}

// oneOrOther returns the schema of values that a or b accepts: one enum where these are
// constants.
func oneOrOther(a, b any) any {
	x, y := values(a), values(b)
	if x == nil || y == nil {
		return map[string]any{"anyOf": []any{a, b}}
	}
	out, other := map[string]any{"enum": union(x, y)}, b.(map[string]any)
	for name, v := range a.(map[string]any) { // a rule of one of them may refuse values of the other
		if name != "const" && name != "enum" && (name == "description" || name == "title" || reflect.DeepEqual(v, other[name])) {
			out[name] = v
		}
	}
	return out
}

// values returns the values of a const or an enum; nil if the schema has neither.
func values(v any) []any {
	m, _ := v.(map[string]any)
	if one, ok := m["const"]; ok {
		return []any{one}
	}
	return list(m["enum"])
}

func list(v any) []any {
	l, _ := v.([]any)
	return slices.Clone(l)
}

// contains is slices.Contains for values that == cannot compare.
func contains(list []any, v any) bool {
	return slices.ContainsFunc(list, func(x any) bool { return reflect.DeepEqual(x, v) })
}

func union(a, b []any) []any {
	for _, v := range b {
		if !contains(a, v) {
			a = append(a, v)
		}
	}
	return a
}

// isObject reports whether a type permits objects.
func isObject(kind any) bool {
	return kind == nil || kind == "object" || slices.Contains(list(kind), any("object"))
}

func resolve(root map[string]any, ref string) (any, bool) {
	path, ok := strings.CutPrefix(ref, "#")
	var v any = root
	for _, key := range strings.Split(path, "/")[1:] {
		m, isMap := v.(map[string]any)
		if v, ok = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(key)]; !isMap || !ok {
			return nil, false
		}
	}
	return v, ok
}

// addItems adds items to arrays without any.
func addItems(v any) (changed bool) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			changed = addItems(item) || changed
		}
	case map[string]any:
		isArray := v["type"] == "array" || slices.Contains(list(v["type"]), any("array"))
		for _, member := range v {
			changed = addItems(member) || changed
		}
		if isArray && v["items"] == nil {
			v["items"], changed = map[string]any{}, true
		}
	}
	return changed
}

// An inliner replaces what Gemini does not accept. A reference to a schema that it is in, which
// would never end, becomes a schema that accepts anything.
type inliner struct {
	root   map[string]any
	within map[string]bool // references
	n      int
}

// value takes the members of an object in the order of their names, so that the same schema
// always has the same result, and what is sent to the model stays the same.
func (in *inliner) value(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = in.value(item)
		}
		return out
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			return in.reference(ref, v)
		}
		out := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch arguments, ok := v[name].(map[string]any); {
			case name == "$defs" || name == "definitions":
			case name == "properties" && ok: // their names are not keywords
				inner := make(map[string]any, len(arguments))
				for _, argument := range slices.Sorted(maps.Keys(arguments)) {
					inner[argument] = in.value(arguments[argument])
				}
				out[name] = inner
			default:
				out[name] = in.value(v[name])
			}
		}
		return constants(out)
	}
	return v
}

// reference returns what ref refers to, with what schema has beside it.
func (in *inliner) reference(ref string, schema map[string]any) any {
	in.n++
	target, ok := resolve(in.root, ref)
	m, isMap := target.(map[string]any)
	if !ok || !isMap || in.within[ref] || len(in.within) >= maxUnfold || in.n > maxInlined {
		return map[string]any{}
	}
	in.within[ref] = true
	defer delete(in.within, ref)
	beside := maps.Clone(m)
	maps.Copy(beside, schema)
	if m["properties"] != nil && schema["properties"] != nil { // both count
		join(beside, m, func(own, _ any) any { return own })
		delete(beside, "additionalProperties")
	}
	delete(beside, "$ref")
	if next, ok := m["$ref"].(string); ok {
		return in.reference(next, beside)
	}
	return in.value(beside)
}

// constants replaces const by an enum, and removes an enum with empty strings.
func constants(m map[string]any) map[string]any {
	if one, ok := m["const"]; ok && m["properties"] == nil {
		switch one.(type) {
		case map[string]any: // an argument of that name
			return m
		case string:
			m["enum"] = []any{one}
		}
		delete(m, "const")
	}
	if slices.Contains(list(m["enum"]), any("")) {
		delete(m, "enum")
	}
	return m
}

// dropKeys removes the arguments whose names the server refuses. One that is required is an
// error.
func dropKeys(schema map[string]any) (dropped []string, err error) {
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if plainKey(name) {
			continue
		}
		if slices.Contains(list(schema["required"]), any(name)) {
			return nil, fmt.Errorf("the name of its required argument %q is not made of at most 64 letters, digits and _.-", Shorten(name, 100))
		}
		delete(properties, name)
		dropped = append(dropped, fmt.Sprintf("%q", cmp.Or(Shorten(name, 100), "")))
	}
	return dropped, nil
}
