package openapi

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits on the schema of a tool.
const (
	maxSchema = 8 << 10 // bytes of JSON
	maxNodes  = 300     // schemas within it
	maxAbout  = 1000    // bytes of a description
)

type expander struct {
	d            *document
	nodes, about int // schemas that are still permitted; bytes of a description
}

// bounded returns the largest form of the schema of build that is within the limits: deeply
// nested schemas keep only their type and description, then shorter descriptions.
func (d *document) bounded(build func(e *expander, depth int) any) (text json.RawMessage) {
	for _, depth := range []int{8, 5, 3, 2, 1, 0} {
		e := &expander{d, maxNodes, depth * depth * 20}
		text, _ = json.Marshal(build(e, depth)) // it consists of JSON
		if len(text) <= maxSchema && e.nodes > 0 {
			break
		}
	}
	return text
}

// schema returns v with its references replaced, in the words of today's JSON Schema.
// within are the references that lead here.
func (e *expander) schema(v any, depth int, within []string) map[string]any {
	m := object(v)
	about := words(m["description"])
	for ref, ok := m["$ref"].(string); ok; ref, ok = m["$ref"].(string) {
		if slices.Contains(within, ref) {
			depth = 0
		}
		within = append(slices.Clip(within), ref)
		if m = e.d.target(ref); len(within) > maxHops {
			m = nil
		}
	}
	out := map[string]any{}
	if t := types(m); t != nil {
		out["type"] = t
	}
	if about == "" {
		about = words(m["description"])
	}
	if about = shorten(about, e.about); about != "" {
		out["description"] = about
	}
	if e.nodes--; depth <= 0 || e.nodes <= 0 {
		return out
	}
	for _, key := range []string{"default", "const", "format", "enum", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength"} {
		if valid(key, m[key]) {
			out[key] = m[key]
		}
	}
	if items := object(m["items"]); items != nil {
		out["items"] = e.schema(items, depth-1, within)
	}
	if more := object(m["additionalProperties"]); len(more) > 0 {
		out["additionalProperties"] = e.schema(more, depth-1, within)
	}
	var either []any // in many documents a value fits several of oneOf
	for _, part := range slices.Concat(list(m["oneOf"]), list(m["anyOf"])) {
		either = append(either, e.schema(part, depth-1, within))
	}
	if either != nil {
		out["anyOf"] = either
	}
	for _, part := range list(m["allOf"]) {
		merge(out, e.schema(part, depth, within))
	}
	merge(out, e.properties(m, depth-1, within))
	return out
}

// valid reports whether a word of a schema can have the value.
func valid(word string, value any) bool {
	number, isNumber := value.(json.Number)
	switch word {
	case "default", "const":
		return value != nil
	case "format":
		_, isString := value.(string)
		return isString
	case "enum":
		return len(list(value)) > 0
	case "minimum", "maximum":
		return isNumber
	}
	_, err := strconv.ParseUint(number.String(), 10, 64)
	return err == nil
}

// properties are the properties of m that a request may have.
func (e *expander) properties(m map[string]any, depth int, within []string) map[string]any {
	own, required := map[string]any{}, []any{}
	all := object(m["properties"])
	for _, name := range sorted(all) {
		if e.nodes <= 0 {
			break // the schema is over its limit already
		}
		if p, _ := e.d.resolve(all[name]); p["readOnly"] != true {
			own[name] = e.schema(all[name], depth, within)
		}
	}
	for _, v := range list(m["required"]) {
		if name, _ := v.(string); own[name] != nil || all[name] == nil && name != "" {
			required = append(required, name)
		}
	}
	return map[string]any{"properties": own, "required": required}
}

// merge adds the requirements of one schema to another.
func merge(out, add map[string]any) {
	for key, value := range add {
		switch have := out[key]; {
		case key == "required":
			all := append(slices.Clone(list(have)), list(value)...)
			slices.SortStableFunc(all, func(a, b any) int { return strings.Compare(words(a), words(b)) })
			if len(all) > 0 {
				out[key] = slices.Compact(all)
			}
		case key == "properties":
			for name, p := range object(value) {
				if out[key] == nil {
					out[key] = map[string]any{}
				}
				object(out[key])[name] = p
			}
		case have == nil:
			out[key] = value
		}
	}
}

// types is the type of a schema in the words of JSON Schema: a string, several, or nil.
func types(m map[string]any) any {
	var all []any
	for _, t := range append(slices.Clone(list(m["type"])), m["type"]) {
		if slices.Contains([]any{"string", "integer", "number", "boolean", "array", "object", "null"}, t) && !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	if len(all) > 0 && (m["nullable"] == true || m["x-nullable"] == true) {
		all = append(all, "null")
	}
	if len(all) == 1 {
		return all[0]
	} else if all == nil {
		return nil
	}
	return all
}

// shorten cuts a text to at most limit bytes.
func shorten(text string, limit int) string {
	if text = strings.TrimSpace(text); len(text) <= limit || limit == 0 {
		return text[:min(len(text), limit)]
	}
	for !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}
