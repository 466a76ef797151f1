package treetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/trial/standin"
)

// Inside an expected JSON value, an object with one of these keys alone matches
// every string in which the pattern is found, or every value.
const (
	keyPattern = "$pattern"
	keyAny     = "$any"
)

// decodeJSON decodes a JSON text; it returns nil for other texts.
func decodeJSON(text []byte) any {
	v, _ := jsondoc.Decode(text)
	return v
}

// leafPattern returns the pattern of an object that matches strings.
func leafPattern(v any) (string, bool) {
	m, _ := v.(map[string]any)
	pattern, ok := m[keyPattern].(string)
	return pattern, ok && len(m) == 1
}

func isAny(v any) bool {
	m, _ := v.(map[string]any)
	return len(m) == 1 && m[keyAny] == true
}

// sameJSON reports whether got matches want. With subset, objects of got may have
// more members.
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

// fitsArgs reports whether the arguments of a call match the expected ones.
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

// trim removes line breaks at the end.
func trim(s string) string { return strings.TrimRight(s, "\r\n") }

func (t *Text) fits(got string) bool {
	message, _ := t.check(got)
	return message == ""
}

// check returns why a text does not match, "" if it does, and a difference to show.
func (t *Text) check(got string) (message, diff string) {
	if t == nil {
		return "", ""
	}
	got = trim(got)
	if t.Exact != nil && trim(*t.Exact) != got {
		return "it is not the expected text", lineDiff(trim(*t.Exact), got)
	}
	for _, s := range t.Contains {
		if !strings.Contains(got, s) {
			return fmt.Sprintf("it does not contain %q", s), showText(got)
		}
	}
	for _, s := range t.NotContains {
		if strings.Contains(got, s) {
			return fmt.Sprintf("it contains %q", s), showText(got)
		}
	}
	if t.Pattern != "" {
		if re, err := regexp.Compile(t.Pattern); err != nil || !re.MatchString(got) {
			return fmt.Sprintf("the pattern %q is not found in it", t.Pattern), showText(got)
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
		return "it is not JSON", showText(got)
	}
	wantValue, gotValue := decodeJSON(want), decodeJSON([]byte(got))
	if sameJSON(wantValue, gotValue, subset) {
		return "", ""
	}
	message = "it is not the expected JSON"
	if subset {
		message = "the expected JSON is not in it"
	}
	return message, lineDiff(indented(fill(wantValue, gotValue, subset)), indented(gotValue))
}

// fill is want with the values of got in place of patterns that match and of
// members that are not expected, so that a comparison shows only differences.
func fill(want, got any, subset bool) any {
	if sameJSON(want, got, subset) {
		return got
	}
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if _, leaf := leafPattern(want); !ok || leaf {
			return want
		}
		filled := map[string]any{}
		if subset {
			maps.Copy(filled, got)
		}
		for key, value := range want {
			filled[key] = fill(value, got[key], subset)
		}
		return filled
	case []any:
		got, ok := got.([]any)
		if !ok {
			return want
		}
		filled := slices.Clone(want)
		for i := range min(len(want), len(got)) {
			filled[i] = fill(want[i], got[i], subset)
		}
		return filled
	}
	return want
}

func indented(v any) string {
	text, err := jsondoc.Encode(v, "  ")
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// argsText is the arguments of a call as one line: JSON with sorted keys, or the
// quoted text.
func argsText(args string) string {
	if _, err := jsondoc.Decode([]byte(args)); err != nil && args != "" {
		return strconv.Quote(args)
	}
	return cmp.Or(jsondoc.Format(args, ""), "{}")
}

// pair matches calls with expected calls, so that none is missing if that is
// possible. With anyOrder, the matched calls are returned in the order of want,
// followed by the others.
func pair(want []ExpectCall, got []*call, anyOrder bool) ([]*call, []standin.Edit) {
	var of []int // the index in want of each call, -1 for none
	var left int // expected calls that are missing
	if anyOrder {
		got, of, left = assign(want, got)
	} else {
		of, left = follow(want, got)
	}
	names := make([]string, len(want))
	for i := range want {
		names[i] = strconv.Itoa(i)
	}
	if left > 0 && !anyOrder {
		// Some of them are there, but not all in this order.
		for i := range want {
			names[i] = want[i].String()
		}
		for k := range got {
			of[k] = slices.IndexFunc(want, func(e ExpectCall) bool { return e.fits(got[k]) })
		}
	}
	calls := make([]string, len(got))
	for k, i := range of {
		if calls[k] = "other " + strconv.Itoa(k); i >= 0 {
			calls[k] = names[i]
		}
	}
	return got, standin.Align(names, calls)
}

// follow matches calls with the expected ones in order, each with the next.
func follow(want []ExpectCall, got []*call) (of []int, left int) {
	next := 0
	for _, c := range got {
		i := -1
		if next < len(want) && want[next].fits(c) {
			i = next
			next++
		}
		of = append(of, i)
	}
	return of, len(want) - next
}

// assign matches as many calls as possible with expected ones (a maximum bipartite
// matching by augmenting paths).
func assign(want []ExpectCall, got []*call) (sorted []*call, of []int, left int) {
	owner := make([]int, len(got))
	for k := range owner {
		owner[k] = -1
	}
	var tried []bool
	var find func(i int) bool
	find = func(i int) bool {
		for k := range got {
			if tried[k] || !want[i].fits(got[k]) {
				continue
			}
			tried[k] = true
			if owner[k] < 0 || find(owner[k]) {
				owner[k] = i
				return true
			}
		}
		return false
	}
	for i := range want {
		tried = make([]bool, len(got))
		if !find(i) {
			left++
		}
	}
	order := make([]int, len(got))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(uint(owner[a]), uint(owner[b])) // -1 is the last
	})
	for _, k := range order {
		sorted, of = append(sorted, got[k]), append(of, owner[k])
	}
	return sorted, of, left
}
