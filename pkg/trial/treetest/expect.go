package treetest

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/agents-exe/agents/pkg/agent"
)

// Expect is the expected result of a run. What is not named is not checked, with
// one exception: a run without Status or ExitCode must end with an answer.
type Expect struct {
	Status     agent.Status     `json:"status,omitempty"`
	ExitCode   *int             `json:"exitCode,omitempty"`
	Error      *Text            `json:"error,omitempty"`
	Answer     *Text            `json:"answer,omitempty"`
	Turns      *Count           `json:"turns,omitempty"`
	Calls      *[]ExpectCall    `json:"calls,omitempty"`
	Order      string           `json:"order,omitempty"`
	OtherCalls bool             `json:"otherCalls,omitempty"`
	Concurrent [][]string       `json:"concurrent,omitempty"`
	Sequential [][]string       `json:"sequential,omitempty"`
	Usage      map[string]Count `json:"usage,omitempty"`
	Agents     map[string]Runs  `json:"agents,omitempty"`
}

// orderAny lets calls come in any order.
const orderAny = "any"

// An ExpectCall is a call that must happen.
type ExpectCall struct {
	Agent      string          `json:"agent,omitempty"`
	Tool       string          `json:"tool"`
	Args       json.RawMessage `json:"args,omitempty"`
	ArgsSubset json.RawMessage `json:"argsSubset,omitempty"`
	RawArgs    *Text           `json:"rawArgs,omitempty"`
	Result     *Text           `json:"result,omitempty"`
	Receipt    *Text           `json:"receipt,omitempty"`
	Failed     bool            `json:"failed,omitempty"`
}

// Runs are the expected results of the runs of one agent: one for all of them, or
// one for each in order.
type Runs struct {
	Each *ExpectRun
	List []ExpectRun
}

// An ExpectRun is the expected result of one run of an agent.
type ExpectRun struct {
	Prompt *Text            `json:"prompt,omitempty"`
	Status agent.Status     `json:"status,omitempty"`
	Error  *Text            `json:"error,omitempty"`
	Answer *Text            `json:"answer,omitempty"`
	Turns  *Count           `json:"turns,omitempty"`
	Usage  map[string]Count `json:"usage,omitempty"`
}

// UnmarshalJSON reads one run or a list of them.
func (r *Runs) UnmarshalJSON(data []byte) error {
	if bytes.TrimSpace(data)[0] == '[' {
		return json.Unmarshal(data, &r.List)
	}
	return json.Unmarshal(data, &r.Each)
}

// MarshalJSON writes what UnmarshalJSON reads.
func (r Runs) MarshalJSON() ([]byte, error) {
	if r.Each != nil {
		return encode(r.Each)
	}
	return encode(r.List)
}

// A Text is an expected text. Line breaks at its end are ignored.
type Text struct {
	Exact       *string         `json:"exact,omitempty"`
	Contains    Strings         `json:"contains,omitempty"`
	NotContains Strings         `json:"notContains,omitempty"`
	Pattern     string          `json:"pattern,omitempty"`
	JSON        json.RawMessage `json:"json,omitempty"`
	JSONSubset  json.RawMessage `json:"jsonSubset,omitempty"`
}

// UnmarshalJSON reads an exact text, or conditions.
func (t *Text) UnmarshalJSON(data []byte) error {
	if bytes.TrimSpace(data)[0] == '"' {
		return json.Unmarshal(data, &t.Exact)
	}
	type conditions Text
	return json.Unmarshal(data, (*conditions)(t))
}

// MarshalJSON writes what UnmarshalJSON reads.
func (t Text) MarshalJSON() ([]byte, error) {
	if t.Exact != nil {
		return encode(*t.Exact)
	}
	type conditions Text
	return encode(conditions(t))
}

// Strings is one string or several.
type Strings []string

// UnmarshalJSON reads a string or a list.
func (s *Strings) UnmarshalJSON(data []byte) error {
	if bytes.TrimSpace(data)[0] == '[' {
		return json.Unmarshal(data, (*[]string)(s))
	}
	*s = make(Strings, 1)
	return json.Unmarshal(data, &(*s)[0])
}

// A Count is a number, or the bounds of one.
type Count struct {
	Min *float64 `json:"min,omitempty"`
	Max *float64 `json:"max,omitempty"`
}

// exactly is a Count that matches n alone.
func exactly(n int) *Count {
	x := float64(n)
	return &Count{&x, &x}
}

// UnmarshalJSON reads a number or bounds.
func (c *Count) UnmarshalJSON(data []byte) error {
	var n float64
	if err := json.Unmarshal(data, &n); err == nil {
		c.Min, c.Max = &n, &n
		return nil
	}
	type bounds Count
	return json.Unmarshal(data, (*bounds)(c))
}

// MarshalJSON writes what UnmarshalJSON reads.
func (c Count) MarshalJSON() ([]byte, error) {
	if c.Min != nil && c.Max != nil && *c.Min == *c.Max {
		return encode(*c.Min)
	}
	type bounds Count
	return encode(bounds(c))
}

func (c Count) fits(n float64) bool {
	return (c.Min == nil || n >= *c.Min) && (c.Max == nil || n <= *c.Max)
}

// String is "3", "at least 3", "at most 3" or "3 to 5".
func (c Count) String() string {
	show := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
	switch {
	case c.Min != nil && c.Max != nil && *c.Min == *c.Max:
		return show(*c.Min)
	case c.Min != nil && c.Max != nil:
		return show(*c.Min) + " to " + show(*c.Max)
	case c.Min != nil:
		return "at least " + show(*c.Min)
	case c.Max != nil:
		return "at most " + show(*c.Max)
	}
	return "any number"
}

// mistakes finds the errors that the schema does not find: regular expressions that
// do not compile, and stubs with both error and fault.
func (f *File) mistakes() []Failure {
	root, _ := f.doc.Root.Value.(map[string]any)
	failures := append(f.badPatterns(root["expect"], "/expect", false), f.badPatterns(root["tools"], "/tools", false)...)
	for _, name := range slices.Sorted(maps.Keys(f.Spec.Tools)) {
		for i, s := range f.Spec.Tools[name].List {
			if s.Error != nil && s.Fault != "" {
				failures = append(failures, f.fail(f.stubPointer(name, i), "error and fault exclude each other: each says why the call fails"))
			}
		}
	}
	return sorted(failures)
}

// badPatterns finds patterns that do not compile. Inside an expected value, which
// may have a member of any name, only keyPattern names one.
func (f *File) badPatterns(v any, pointer string, inValue bool) (failures []Failure) {
	compile := func(pattern, pointer string) {
		if _, err := regexp.Compile(pattern); err != nil {
			failures = append(failures, f.fail(pointer, "the pattern does not compile: %s", err))
		}
	}
	if pattern, ok := leafPattern(v); ok && inValue {
		compile(pattern, pointer)
		return failures
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if pattern, ok := v[key].(string); ok && key == "pattern" && !inValue {
				compile(pattern, pointer+"/pattern")
			}
			value := key == "args" || key == "argsSubset" || key == "json" || key == "jsonSubset"
			failures = append(failures, f.badPatterns(v[key], pointer+at(key), inValue || value)...)
		}
	case []any:
		for i := range v {
			failures = append(failures, f.badPatterns(v[i], pointer+at(strconv.Itoa(i)), inValue)...)
		}
	}
	return failures
}

// pointer is the JSON pointer of run i of the agent.
func (r Runs) pointer(name string, i int) string {
	if r.Each != nil {
		return at("expect", "agents", name)
	}
	return at("expect", "agents", name, strconv.Itoa(i))
}

// stubPointer is the JSON pointer of stub i of a tool.
func (f *File) stubPointer(name string, i int) string {
	tools, _ := f.doc.Root.Value.(map[string]any)["tools"].(map[string]any)
	if _, list := tools[name].([]any); list {
		return at("tools", name, strconv.Itoa(i))
	}
	return at("tools", name)
}
