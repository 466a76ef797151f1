package schema

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestPatternsStopWithTheContext: thousands of texts times hundreds of patterns take
// minutes, which a time limit ends.
func TestPatternsStopWithTheContext(t *testing.T) {
	patterns := strings.Join(slices.Repeat([]string{`{"pattern":"^(a|aa)+$"}`}, 300), ",")
	s, err := Compile("s", []byte(`{"items":{"allOf":[`+patterns+`]}}`))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := json.Marshal(slices.Repeat([]string{strings.Repeat("a", 3000)}, 2000))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := s.Validate(ctx, doc); err == nil {
		t.Error("Validate did not report the end of its context")
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Validate took %v after a limit of 50 ms", took)
	}
}

func TestPatternsAreThoseOfECMAScript(t *testing.T) {
	for _, tt := range []struct {
		pattern string
		yes, no []string
	}{
		{`^\d+$`, []string{"12"}, []string{"१२", "1\n"}},
		{`^\w$`, []string{"a", "_"}, []string{"é", "."}},
		{`^\s$`, []string{" ", "\u00a0", "\ufeff", "\v", "\u2028", "\u3000"}, []string{"x", "\u200b"}},
		{`^[\s,]$`, []string{"\u00a0", ","}, []string{"x"}},
		{`^\S$`, []string{"x", "é", "😀"}, []string{"\u00a0", "\v"}},
		{`^[\S]$`, []string{"x", "\u0300"}, []string{"\u00a0", "\t"}},
		{`^a.b$`, []string{"a b", "aéb"}, []string{"a\nb", "a\rb", "a\u2028b"}},
		{`^[.]$`, []string{"."}, []string{"x"}},
		{`^\u0041\u{1F600}\uD83D\uDE00\x41$`, []string{"A😀😀A"}, []string{"A"}},
		{`^\cA\0[\b]$`, []string{"\x01\x00\b"}, []string{"b"}},
		{`^[^]$`, []string{"\n", "x"}, []string{"", "xy"}},
		{`^x[]$`, nil, []string{"x", "x]"}},
		{`^[[:alpha:]]$`, []string{"a]", "[]", ":]"}, []string{"b", "z]"}},
		{`^\p{Script=Greek}\p{L}\P{gc=Lu}\p{Letter}$`, []string{"αbcd"}, []string{"abcd"}},
		{`^(?<year>\d{4})\/x\-y$`, []string{"2026/x-y"}, []string{"26/x-y"}},
		{`^(?=.*[A-Z])(?=.*\d).{4,}$`, []string{"aB3d"}, []string{"ab3d", "aBcd", "B3"}},
		{`^(?!con$|a\))(?![(]).+$`, []string{"console", "x("}, []string{"con", "a)", "(x"}},
		{`^(?!x)`, []string{"", "y"}, []string{"xy"}},
	} {
		doc, _ := json.Marshal(map[string]any{"pattern": tt.pattern})
		s, err := Compile("s", doc)
		if err != nil || len(NotCompared(doc)) > 0 {
			t.Errorf("%s: %v, not compared: %q", tt.pattern, err, NotCompared(doc))
			continue
		}
		for i, texts := range [][]string{tt.yes, tt.no} {
			for _, text := range texts {
				value, _ := json.Marshal(text)
				if v, err := s.Validate(t.Context(), value); err != nil || (len(v) > 0) != (i == 1) {
					t.Errorf("%s with %q: %v, %v", tt.pattern, text, v, err)
				}
			}
		}
	}
}

func TestPatternsThatAreNotCompared(t *testing.T) {
	for _, pattern := range []string{`(a)\1`, `a(?=b)`, `(?<=a)b`, `^(?=a)b|c`, `^(?=a)*b`, `^(?=(?!a)b)c`, `x{1,5000}`, `(`, `^(?=`, `\`, `^(?!a)\k<x>`} {
		doc, _ := json.Marshal(map[string]any{"properties": map[string]any{"pattern": map[string]any{"items": map[string]any{"pattern": pattern}}}})
		if got := NotCompared(doc); !slices.Equal(got, []string{pattern}) {
			t.Errorf("NotCompared(%s) = %q", doc, got)
		}
		s, err := Compile("s", doc)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := s.Validate(t.Context(), []byte(`{"pattern":["anything"]}`)); err != nil || len(v) > 0 {
			t.Errorf("%s: %v, %v", pattern, v, err)
		}
	}
}

// plainSchemas are schemas, and whether they are valid and plain.
var plainSchemas = []struct {
	doc   string
	plain bool
}{
	{`true`, true},
	{`{}`, true},
	{`{"type":"object","properties":{"command":{"type":"string","description":"x"}},"required":["command"],"additionalProperties":false}`, true},
	{`{"properties":{"n":{"type":["integer","null"],"enum":[1,null],"default":1,"const":{},"title":"N","minimum":0,"maximum":1e3}}}`, true},
	{`{"type":"array","items":{"type":"array","items":{}}}`, true},
	{`{"additionalProperties":{"type":"string"},"required":[],"enum":[]}`, true},

	{`null`, false},
	{`"string"`, false},
	{`{"type":"text"}`, false},
	{`{"type":[]}`, false},
	{`{"type":["string","string"]}`, false},
	{`{"properties":[]}`, false},
	{`{"properties":{"a":{"properties":{"b":1}}}}`, false},
	{`{"items":[{}]}`, false},
	{`{"additionalProperties":null}`, false},
	{`{"required":"a"}`, false},
	{`{"required":["a","b","a"]}`, false},
	{`{"required":[1]}`, false},
	{`{"enum":1}`, false},
	{`{"description":1}`, false},
	{`{"minimum":"0"}`, false},
	{`{"$ref":"#/nowhere"}`, false},   // a reference is followed, valid or not
	{`{"minLength":2}`, false},        // valid, not common enough
	{`{"$schema":"http://x"}`, false}, // another draft has other rules
}

func TestPlainSchemas(t *testing.T) {
	for _, test := range plainSchemas {
		v, err := decode([]byte(test.doc))
		if err != nil {
			t.Fatal(err)
		}
		if got := isPlain(v); got != test.plain {
			t.Errorf("isPlain(%s) = %t, want %t", test.doc, got, test.plain)
		}
	}
}

// FuzzPlain: what isPlain takes for valid is valid by the metaschema.
func FuzzPlain(f *testing.F) {
	for _, test := range plainSchemas {
		f.Add(test.doc)
	}
	meta, err := jsonschema.NewCompiler().Compile("https://json-schema.org/draft/2020-12/schema")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		v, err := decode([]byte(doc))
		if err != nil || !isPlain(v) {
			return
		}
		if err := meta.Validate(v); err != nil && len(hugeNumbers(v, nil)) == 0 {
			t.Errorf("isPlain(%s), but the metaschema says %v", doc, err)
		}
		if _, err := Compile("t", []byte(doc)); err != nil && len(hugeNumbers(v, nil)) == 0 {
			t.Errorf("Compile(%s) = %v, want none for a plain schema", doc, err)
		}
	})
}
