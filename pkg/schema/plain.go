package schema

import (
	"encoding/json"
	"slices"
)

// isPlain reports whether v is a valid schema of draft 2020-12 that holds nothing
// but the common keywords, as nearly every tool's schema does. It is by far
// cheaper than the comparison with the metaschema, which takes some milliseconds
// in a program that has compared none yet. For any other schema, valid or not,
// it returns false.
func isPlain(v any) bool {
	if _, ok := v.(bool); ok {
		return true
	}
	members, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range members {
		switch key {
		case "type":
			ok = isType(value)
		case "properties":
			ok = arePlain(value)
		case "items", "additionalProperties":
			ok = isPlain(value)
		case "required":
			ok = areNames(value)
		case "enum":
			_, ok = value.([]any)
		case "description", "title":
			_, ok = value.(string)
		case "minimum", "maximum":
			_, ok = value.(json.Number)
		case "const", "default":
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	return true
}

// arePlain reports whether v is an object of plain schemas.
func arePlain(v any) bool {
	members, ok := v.(map[string]any)
	for _, member := range members {
		ok = ok && isPlain(member)
	}
	return ok
}

// areNames reports whether v is an array of strings, none of them twice.
func areNames(v any) bool {
	items, ok := v.([]any)
	if !ok {
		return false
	}
	names := make([]string, 0, len(items))
	for _, item := range items {
		name, ok := item.(string)
		if !ok {
			return false
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return len(slices.Compact(names)) == len(items)
}
