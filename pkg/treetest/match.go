package treetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// Inside an expected JSON value an object with one of these keys alone stands for
// any string that the pattern is found in, and for any value.
const (
	keyPattern = "$pattern"
	keyAny     = "$any"
)

// decodeJSON reads a valid JSON text; numbers keep their digits. What is not JSON
// is nil.
func decodeJSON(text []byte) any {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return nil
	}
	return v
}

// leafPattern is the pattern that stands for a value.
func leafPattern(v any) (string, bool) {
	m, _ := v.(map[string]any)
	pattern, ok := m[keyPattern].(string)
	return pattern, ok && len(m) == 1
}

func isAny(v any) bool {
	m, _ := v.(map[string]any)
	return len(m) == 1 && m[keyAny] == true
}

// sameJSON reports whether got is want. With subset, objects of got may have more
// members.
func sameJSON(want, got any, subset bool) bool {
	if isAny(want) {
		return true
	}
	if pattern, ok := leafPattern(want); ok {
		text, isText := got.(string)
		re, err := regexp.Compile(pattern)
		return isText && err == nil && re.MatchString(text)
	}
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok || !subset && len(got) != len(want) {
			return false
		}
		for key, value := range want {
			other, there := got[key]
			if !there || !sameJSON(value, other, subset) {
				return false
			}
		}
		return true
	case []any:
		got, ok := got.([]any)
		return ok && slices.EqualFunc(want, got, func(a, b any) bool { return sameJSON(a, b, subset) })
	case json.Number:
		got, ok := got.(json.Number)
		return ok && number(want) == number(got)
	}
	return want == got
}

// number is the shortest form of a number.
func number(n json.Number) string {
	text, err := agent.ArgText(json.RawMessage(n))
	if err != nil {
		return n.String()
	}
	return text
}

// fitsArgs reports whether a call's arguments are what is expected of them.
func fitsArgs(args, subset json.RawMessage, got string) bool {
	if len(args) == 0 && len(subset) == 0 {
		return true
	}
	if strings.TrimSpace(got) == "" {
		got = "{}"
	}
	value := decodeJSON([]byte(got))
	return (len(args) == 0 || sameJSON(decodeJSON(args), value, false)) &&
		(len(subset) == 0 || sameJSON(decodeJSON(subset), value, true))
}

// trim drops line breaks at the end, which nobody means.
func trim(s string) string { return strings.TrimRight(s, "\r\n") }

// fits reports whether a text is what is expected.
func (t *Text) fits(got string) bool {
	message, _ := t.check(got)
	return message == ""
}

// check says what is wrong with a text, "" if nothing, and shows the difference
// where there is one to show.
func (t *Text) check(got string) (message, diff string) {
	if t == nil {
		return "", ""
	}
	got = trim(got)
	if t.Exact != nil && trim(*t.Exact) != got {
		return "it is not what is expected", lineDiff(trim(*t.Exact), got)
	}
	for _, s := range t.Contains {
		if !strings.Contains(got, s) {
			return fmt.Sprintf("it does not contain %q", s), shown(got)
		}
	}
	for _, s := range t.NotContains {
		if strings.Contains(got, s) {
			return fmt.Sprintf("it contains %q", s), shown(got)
		}
	}
	if t.Pattern != "" {
		if re, err := regexp.Compile(t.Pattern); err != nil || !re.MatchString(got) {
			return fmt.Sprintf("the pattern %q is not found in it", t.Pattern), shown(got)
		}
	}
	if len(t.JSON) > 0 {
		return checkJSON(t.JSON, got, false)
	}
	return checkJSON(t.JSONSubset, got, true)
}

func checkJSON(want json.RawMessage, got string, subset bool) (message, diff string) {
	if len(want) == 0 {
		return "", ""
	}
	if !json.Valid([]byte(got)) {
		return "it is no JSON", shown(got)
	}
	wantValue, gotValue := decodeJSON(want), decodeJSON([]byte(got))
	if sameJSON(wantValue, gotValue, subset) {
		return "", ""
	}
	message = "it is not the expected JSON"
	if subset {
		message = "the expected JSON is not in it"
	}
	return message, lineDiff(indent(settle(wantValue, gotValue, subset)), indent(gotValue))
}

// settle is want with what fits in got in the place of patterns, and of members
// that are not asked for, so that only differences differ.
func settle(want, got any, subset bool) any {
	if sameJSON(want, got, subset) {
		return got
	}
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if _, leaf := leafPattern(want); !ok || leaf {
			return want
		}
		settled := map[string]any{}
		if subset {
			maps.Copy(settled, got)
		}
		for key, value := range want {
			settled[key] = settle(value, got[key], subset)
		}
		return settled
	case []any:
		got, ok := got.([]any)
		if !ok {
			return want
		}
		settled := slices.Clone(want)
		for i := range min(len(want), len(got)) {
			settled[i] = settle(want[i], got[i], subset)
		}
		return settled
	}
	return want
}

// indent is a JSON value over several lines, its keys sorted.
func indent(v any) string {
	text, err := encode(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	var b bytes.Buffer
	if json.Indent(&b, text, "", "  ") != nil {
		return string(text)
	}
	return b.String()
}

// argsText is the arguments of a call as one line: compact JSON with sorted keys,
// or what there is instead.
func argsText(args string) string {
	if v := decodeJSON([]byte(args)); v != nil && json.Valid([]byte(args)) {
		if text, err := encode(v); err == nil {
			return string(text)
		}
	}
	if args == "" {
		return "{}"
	}
	return strconv.Quote(args)
}
