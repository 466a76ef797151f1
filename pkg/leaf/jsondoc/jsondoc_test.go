package jsondoc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
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
		{"too deep", strings.Repeat("[", 1001) + strings.Repeat("]", 1001), "1:1001: nested more than 1000 deep"},
		{"far too deep", strings.Repeat("[", 200000), "1:10001: nested more than 1000 deep"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := jsondoc.Parse([]byte(test.text), jsondoc.Options{MaxDepth: 1000})
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
	doc, err := jsondoc.Parse([]byte("{\n  \"a\" : {\"b/c\": [ 1,\n\t\"é\", {\"x y\":null}]}\n}"), jsondoc.Options{})
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
		line, col := doc.Position(doc.Find(test.pointer).Start)
		keyLine, keyCol := doc.Position(doc.Find(test.pointer).NameStart)
		got := []any{line, col, keyLine, keyCol, doc.Path(test.pointer)}
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
		doc, err := jsondoc.Parse(text, jsondoc.Options{MaxDepth: 1000})
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		var walk func(pointer string, v any)
		walk = func(pointer string, v any) {
			line, col := doc.Position(doc.Find(pointer).Start)
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
		walk("", doc.Root.Value)
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"a":[1,{"b":null}],"a":2}`, "{\n\"é\" : \"\\ud800\",}", "[", "\xff", "1e5 ", `{"a":1}x`, "{'a'}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := jsondoc.Parse(text, jsondoc.Options{MaxDepth: 1000})
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
		if !cmp.Equal(want, doc.Root.Value) {
			t.Errorf("Parse(%q) = %v, want %v", text, doc.Root.Value, want)
		}
	})
}

func TestNodes(t *testing.T) {
	text := `{"a": [true, -1.50, null], "b c" : "\u0041", "o": {}}`
	doc, err := jsondoc.Parse([]byte(text), jsondoc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	var walk func(n *jsondoc.Node)
	walk = func(n *jsondoc.Node) {
		got = append(got, n.Path()+" "+n.Kind()+" "+string(doc.Raw(n))+" "+n.Name+" "+n.Text())
		for _, c := range n.Children {
			walk(c)
		}
	}
	walk(doc.Root)
	want := []string{
		" object " + text + "  ", "a array [true, -1.50, null] a ", "a[0] boolean true  ", "a[1] number -1.50  ", "a[2] null null  ",
		`["b c"] string "\u0041" b c A`, "o object {} o ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if n := doc.Root.Member("a").Member("x").Member("y"); n != nil {
		t.Errorf("Member of an array = %v, want nil", n)
	}
}

func TestDuplicates(t *testing.T) {
	text := []byte("{\"a\": 1,\n\"b\": {\"c\": 1, \"\\u0063\": 2}, \"A\": 3, \"a\": 4}")
	doc, err := jsondoc.Parse(text, jsondoc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range doc.Duplicates {
		got = append(got, n.Path()+" after "+string(doc.Raw(n.First)))
	}
	if want := []string{"b.c after 1", "a after 1"}; !cmp.Equal(got, want) {
		t.Errorf("Duplicates = %q, want %q", got, want)
	}
	if got := string(doc.Raw(doc.Root.Member("a"))); got != "4" {
		t.Errorf("a = %s, want the last one", got)
	}
	_, err = jsondoc.Parse(text, jsondoc.Options{Strict: true})
	if want := "2:15: the key \"c\" is there twice"; err == nil || err.Error() != want {
		t.Errorf("strict Parse = %v, want %q", err, want)
	}
}

func TestLimits(t *testing.T) {
	opts := jsondoc.Options{MaxBytes: 60, MaxDepth: 2, MaxDigits: 5, MaxExponent: 20, Strict: true, Shallow: true}
	for _, tt := range []struct{ text, want string }{
		{`{"a": [1, "x"]}`, ""},
		{`[[]]`, ""},
		{`[1.2345, -12345, 1e20, 1E-20, 1e+0020]`, ""},
		{`"\ud83d\ude00 \\ud800 \u0041 \ud83d\ude00"`, ""},
		{strings.Repeat(" ", 59) + "10", "1:1: the text is 61 bytes long; the limit is 60"},
		{`[[ []]]`, "1:4: nested more than 2 deep"},
		{`[123456]`, "1:2: a number of 6 digits; the limit is 5"},
		{`[-1.23456]`, "1:2: a number of 6 digits; the limit is 5"},
		{`[1e21]`, "1:2: a number with an exponent of more than 20"},
		{`[1E-4096]`, "1:2: a number with an exponent of more than 20"},
		{`[1e99999999999999999999]`, "1:2: a number with an exponent of more than 20"},
		{`["a", {"\ud800x": 1}]`, `1:9: half of a surrogate pair (\ud800)`},
		{`"\ude00"`, `1:2: half of a surrogate pair (\ude00)`},
		{`"\ud800\ud800"`, `1:2: half of a surrogate pair (\ud800)`},
		{`"\\\ud800"`, `1:4: half of a surrogate pair (\ud800)`},
		{`[[{"a":1,"a":2}]]`, "1:3: nested more than 2 deep"},
		{`[{"a":1,"a":[`, "1:14: the text ends too early"},
	} {
		doc, err := jsondoc.Parse([]byte(tt.text), opts)
		switch serr, _ := errors.AsType[*jsondoc.SyntaxError](err); {
		case tt.want == "" && err != nil, tt.want != "" && (serr == nil || serr.Error() != tt.want):
			t.Errorf("Parse(%s) = %v, want %q", tt.text, err, tt.want)
		case serr != nil && doc != nil:
			t.Errorf("Parse(%s) returns a document with its error", tt.text)
		}
	}
}

func TestShallowKeepsMembersOnly(t *testing.T) {
	doc, err := jsondoc.Parse([]byte(`{"a": {"b": [1]}, "c": 2}`), jsondoc.Options{Shallow: true})
	if err != nil {
		t.Fatal(err)
	}
	a := doc.Root.Member("a")
	if got := string(doc.Raw(a)); got != `{"b": [1]}` || len(a.Children) != 0 || len(doc.Root.Children) != 2 {
		t.Errorf("a = %s with %d children, the root has %d", got, len(a.Children), len(doc.Root.Children))
	}
	want := map[string]any{"a": map[string]any{"b": []any{json.Number("1")}}, "c": json.Number("2")}
	if diff := cmp.Diff(want, doc.Root.Value); diff != "" {
		t.Errorf("Value (-want +got):\n%s", diff)
	}
}

func TestLongKeysAreClipped(t *testing.T) {
	name := strings.Repeat("é", 100)
	doc, err := jsondoc.Parse([]byte(`{"`+name+`": 1}`), jsondoc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := doc.Root.Children[0].Path(), `["`+strings.Repeat("é", 60)+`…"]`; got != want {
		t.Errorf("Path = %s, want %s", got, want)
	}
}
