package openapi

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// A filter says which operations become tools.
type filter func(op *operation) bool

// parseFilter reads a filter as agents-exe has it: {"tag": "PathPrefix", "contents": "/v1"}.
func parseFilter(data json.RawMessage) (filter, error) {
	if len(data) == 0 || string(data) == "null" {
		return func(*operation) bool { return true }, nil
	}
	var t tagged
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, err
	}
	switch t.Tag {
	case "AlwaysTrue", "AlwaysFalse":
		return func(*operation) bool { return t.Tag == "AlwaysTrue" }, nil
	case "Not":
		inner, err := parseFilter(t.Contents)
		return func(op *operation) bool { return !inner(op) }, err
	case "And", "Or":
		var parts []json.RawMessage
		if json.Unmarshal(t.Contents, &parts) != nil || len(parts) != 2 {
			return nil, errors.New("filter " + t.Tag + ": its contents must be an array of two filters")
		}
		a, err := parseFilter(parts[0])
		b, other := parseFilter(parts[1])
		return func(op *operation) bool {
			if t.Tag == "And" {
				return a(op) && b(op)
			}
			return a(op) || b(op)
		}, errors.Join(err, other)
	}
	arg, err := t.text("filter")
	if err != nil {
		return nil, err
	}
	path := segments(arg)
	match, ok := map[string]filter{
		"PathPrefix": func(op *operation) bool {
			s := segments(op.path)
			return slices.Equal(s[:min(len(s), len(path))], path)
		},
		"PathSuffix": func(op *operation) bool {
			s := segments(op.path)
			return slices.Equal(s[max(0, len(s)-len(path)):], path)
		},
		"PathEqual":         func(op *operation) bool { return slices.Equal(segments(op.path), path) },
		"PathContains":      func(op *operation) bool { return strings.Contains(op.path, arg) },
		"MethodEquals":      func(op *operation) bool { return strings.EqualFold(op.method, arg) },
		"OperationIdEquals": func(op *operation) bool { return op.id == arg },
		"TableNameEquals":   func(op *operation) bool { return strings.Trim(op.path, "/") == arg },
	}[t.Tag]
	if !ok {
		return nil, t.unknown("filter")
	}
	return match, nil
}

// segments are the parts of a path between slashes.
func segments(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}
