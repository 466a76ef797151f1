package schema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agents-exe/agents/pkg/schema"
)

func TestParseSaysWhereAndWhyItIsNoJSON(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"nothing", "", "1:1: there is nothing in it; want a JSON value"},
		{"white space", " \n ", "1:1: there is nothing in it; want a JSON value"},
		{"comma before the end of an object", "{\n\"a\": 1,\n}", "3:1: there is a comma before the closing }"},
		{"comma before the end of an array", "[1,\n]", "2:1: there is a comma before the closing ]"},
		{"comma missing in an object", "{\"é\": 1\n \"b\": 2}", "2:2: there is a comma missing before this"},
		{"comma missing in an array", "[1 2]", "1:4: there is a comma missing before this"},
		{"colon missing", `{"é" 1}`, "1:6: there is a colon missing before this"},
		{"comment", "{\n// x\n}", "2:1: comments are not allowed in JSON"},
		{"single quotes", "{'a': 1}", "1:2: strings need double quotes"},
		{"key without quotes", "{a: 1}", "1:2: want a key in double quotes"},
		{"no value", `{"a": tru}`, "1:10: invalid character '}' in literal true (expecting 'e')"},
		{"word", `{"a": yes}`, "1:7: want a JSON value"},
		{"line break in a string", "{\"a\": \"x\ny\"}", `1:9: a string holds a raw line break or control character; write it as \n or \u00XX`},
		{"ends too early", "{\"a\": [1,\n2", "2:2: the text ends too early"},
		{"two values", "{} {}", "1:4: there is text behind the JSON value"},
		{"byte order mark", "\xef\xbb\xbf{}", "1:1: there is a byte order mark; save the file as UTF-8 without one"},
		{"not UTF-8", "{\"é\":\"\xff\"}", "1:7: not valid UTF-8"},
		{"too deep", strings.Repeat("[", 1002) + strings.Repeat("]", 1002), "1:1002: nested more than 1000 deep"},
		{"far too deep", strings.Repeat("[", 200000), "1:10001: nested more than 1000 deep"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := schema.Parse([]byte(test.text))
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDocumentKnowsWhereValuesStand(t *testing.T) {
	doc, err := schema.Parse([]byte("{\n  \"a\" : {\"b/c\": [ 1,\n\t\"é\", {\"x y\":null}]}\n}"))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		pointer            string
		line, col          int
		keyLine, keyColumn int
		key                string
	}{
		{"", 1, 1, 1, 1, ""},
		{"/a", 2, 9, 2, 3, "a"},
		{"/a/b~1c", 2, 17, 2, 10, `a["b/c"]`},
		{"/a/b~1c/0", 2, 19, 2, 19, `a["b/c"][0]`},
		{"/a/b~1c/1", 3, 2, 3, 2, `a["b/c"][1]`},
		{"/a/b~1c/2/x y", 3, 14, 3, 8, `a["b/c"][2]["x y"]`},
		{"/a/b~1c/9", 2, 17, 2, 10, `a["b/c"][9]`},
		{"/a/nothing/here", 2, 9, 2, 3, "a.nothing.here"},
	}
	for _, test := range tests {
		line, col := doc.Pos(test.pointer)
		keyLine, keyCol := doc.KeyPos(test.pointer)
		got := []any{line, col, keyLine, keyCol, doc.Key(test.pointer)}
		want := []any{test.line, test.col, test.keyLine, test.keyColumn, test.key}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.pointer, diff)
		}
	}
}

// randomJSON draws a JSON value.
func randomJSON(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.Int(), func(n int) any { return n }),
	)
	if depth == 0 {
		return leaf
	}
	child := rapid.Deferred(func() *rapid.Generator[any] { return randomJSON(depth - 1) })
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(child, 0, 4), func(v []any) any { return v }),
		rapid.Map(rapid.MapOfN(rapid.String(), child, 0, 4), func(v map[string]any) any { return v }),
	)
}

func TestEveryPositionIsThatOfItsValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := randomJSON(4).Draw(t, "value")
		text, err := json.MarshalIndent(value, "", rapid.SampledFrom([]string{"", " ", "\t"}).Draw(t, "indent"))
		if err != nil {
			t.Skip(err)
		}
		doc, err := schema.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		var walk func(pointer string, v any)
		walk = func(pointer string, v any) {
			line, col := doc.Pos(pointer)
			rest := string([]rune(lines[line-1])[col-1:]) + "\n" + strings.Join(lines[line:], "\n")
			dec := json.NewDecoder(strings.NewReader(rest))
			dec.UseNumber()
			var got any
			if err := dec.Decode(&got); err != nil || !cmp.Equal(got, v) {
				t.Fatalf("at %q (%d:%d) = %v, %v, want %v", pointer, line, col, got, err, v)
			}
			switch v := v.(type) {
			case map[string]any:
				for key, member := range v {
					walk(pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key), member)
				}
			case []any:
				for i, item := range v {
					index, _ := json.Marshal(i)
					walk(pointer+"/"+string(index), item)
				}
			}
		}
		walk("", doc.Value)
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"a":[1,{"b":null}],"a":2}`, "{\n\"é\" : \"\\ud800\",}", "[", "\xff", "1e5 ", `{"a":1}x`, "{'a'}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := schema.Parse(text)
		if want := json.Valid(text) && utf8.Valid(text); (err == nil) != want {
			if want && strings.Contains(err.Error(), "deep") {
				return
			}
			t.Fatalf("Parse(%q) = %v, want an error: %v", text, err, !want)
		}
		if err != nil {
			return
		}
		var want any
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(want, doc.Value) {
			t.Errorf("Parse(%q) = %v, want %v", text, doc.Value, want)
		}
	})
}

// A file with very many problems names the first of each kind and counts the others:
// the place of each takes time to find.
func TestVeryManyProblemsAreCounted(t *testing.T) {
	s, err := schema.Compile("test", []byte(`{"properties":{"a":{"type":"array","items":{"type":"string"}}},"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	const n = 2000
	var unknown strings.Builder
	for i := range n {
		fmt.Fprintf(&unknown, `"b%05d":1,`, i)
	}
	for _, tt := range []struct {
		name, text, last string
		problems, wrong  int
	}{
		{"unknown keys", `{` + unknown.String() + `"a":[]}`, "1:1: warning: 1900 more keys are unknown", 101, 0},
		{"unknown keys before a wrong value", `{` + unknown.String() + `"a":1}`, "1:1: warning: 1900 more keys are unknown", 102, 1},
		{"wrong values", `{"a":[1` + strings.Repeat(`,1`, n) + `]}`, "1:1: 1901 more values break the schema", 101, 101},
		{"keys that are there twice", `{` + strings.Repeat(`"a":[],`, n) + `"a":[]}`, "1:702: 1900 more keys are there twice", 101, 101},
	} {
		problems := s.Check([]byte(tt.text))
		wrong := 0
		for _, p := range problems {
			if !p.Warning {
				wrong++
			}
		}
		if len(problems) != tt.problems || wrong != tt.wrong {
			t.Errorf("%s: %d problems and %d of them errors, want %d and %d", tt.name, len(problems), wrong, tt.problems, tt.wrong)
		} else if last := problems[len(problems)-1]; last.String() != tt.last {
			t.Errorf("%s: last problem %q, want %q", tt.name, last, tt.last)
		}
	}
}
