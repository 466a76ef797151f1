package runner

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

// TestContextsAreLimited: agent.MaxContext bytes, alone and after what other calls have added.
func TestContextsAreLimited(t *testing.T) {
	value := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	r := &run{node: node{agent: &agent.Agent{}}}
	for n, ok := range map[int]bool{10: true, agent.MaxContext: true, agent.MaxContext + 1: false} {
		if err := r.checkContext(t.Context(), value(n)); (err == nil) != ok || err != nil && !errors.Is(err, agent.ErrContext) {
			t.Errorf("a context of %d bytes: %v", n, err)
		}
		if merged, err := mergeContext(nil, nil, value(n)); (err == nil) != ok || ok && len(merged) != n {
			t.Errorf("a change to %d bytes: %v", n, err)
		}
		// {"a":…,"b":1} has 12 bytes beside the value.
		now, after := json.RawMessage(`{"b":1}`), `{"a":`+string(value(max(n-12, 2)))+`}`
		if merged, err := mergeContext(now, json.RawMessage(`{}`), json.RawMessage(after)); (err == nil) != ok || ok && n > 12 && len(merged) != n {
			t.Errorf("a change that makes %d bytes, of %d: %v", len(merged), n, err)
		}
	}
	for _, bad := range []string{"{", "x"} {
		if r.checkContext(t.Context(), json.RawMessage(bad)) == nil {
			t.Errorf("the context %s is permitted", bad)
		}
		if _, err := mergeContext(nil, nil, json.RawMessage(bad)); err == nil {
			t.Errorf("a change to %s is permitted", bad)
		}
	}
}

// TestAContextIsKeptWithoutWhiteSpace, unless it is none.
func TestAContextIsKeptWithoutWhiteSpace(t *testing.T) {
	for value, want := range map[string]string{"": "", "null": "null", " null ": " null ", ` {"a": 1} `: `{"a":1}`, "{ ": "{ ", "1": "1"} {
		if got := string(compactContext(json.RawMessage(value))); got != want {
			t.Errorf("compactContext(%q) = %q, want %q", value, got, want)
		}
	}
}

// TestOnlyObjectsAreMerged: all else is replaced as a whole, and what did not change stays.
func TestOnlyObjectsAreMerged(t *testing.T) {
	for _, tt := range [][4]string{ // now, before, after, what comes of it
		{`{"n":1}`, `{}`, `{"a":1}`, `{"a":1,"n":1}`}, {`{"n":1}`, `{"a":1}`, `{"a":1}`, `{"n":1}`}, {`{"a":1,"n":1}`, `{"a":1}`, `{}`, `{"n":1}`},
		{`[1]`, `{}`, `{"a":1}`, `{"a":1}`}, {`{"n":1}`, `[]`, `{"a":1}`, `{"a":1}`}, {`{"n":1}`, `{}`, `[1]`, `[1]`}, {`{"n":1}`, ``, `{"a":1}`, `{"a":1}`}, {`1`, `2`, `2`, `1`},
		{`{"o":{"n":1}}`, `{"o":{}}`, `{"o":{"a":1}}`, `{"o":{"a":1,"n":1}}`}, {`{"o":{"n":1}}`, `{"o":1}`, `{"o":{"a":1}}`, `{"o":{"a":1}}`}, {`{"o":1}`, `{"o":{}}`, `{"o":{"a":1}}`, `{"o":{"a":1}}`}, {`{"o":{"n":1}}`, `{"o":{}}`, `{"o":2}`, `{"o":2}`},
		{`{}`, `{"a":1}`, `{"a":null}`, `{"a":null}`}, {`{"a":2}`, `{}`, `{"a":null}`, `{"a":null}`},
	} {
		if got, err := mergeContext(json.RawMessage(tt[0]), json.RawMessage(tt[1]), json.RawMessage(tt[2])); err != nil || string(got) != tt[3] {
			t.Errorf("%s with the change from %s to %s is %s, %v, want %s", tt[0], tt[1], tt[2], got, err, tt[3])
		}
	}
}
