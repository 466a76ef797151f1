package yamldoc_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/yamldoc"
)

func TestParseReadsWhatIsJSON(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"block", "a: 1\nb:\n  - x\n  - y: z\n    w: null\n", `{"a":1,"b":["x",{"y":"z","w":null}]}`},
		{"flow", `{a: [1, "2", 'it''s'], "b": {}}`, `{"a":[1,"2","it's"],"b":{}}`},
		{"JSON", "{\"a\": [1.50, true, \"\\u00e9\\n\"],\n \"b\": null}", `{"a":[1.50,true,"é\n"],"b":null}`},
		{"words are texts", "no: no\nyes: Yes\non: off\nn: N\nversion: v1.10\ndate: 2026-11-22\nempty:\n", `{"no":"no","yes":"Yes","on":"off","n":"N","version":"v1.10","date":"2026-11-22","empty":null}`},
		{"numbers keep their digits", "[1.10, 100000000000000000000, -0, 1e3, 0.1]", `[1.10,100000000000000000000,-0,1e3,0.1]`},
		{"a key after a question mark", "? a b\n: c\n", `{"a b":"c"}`},
		{"keys are texts", "1: a\ntrue: b\n", `{"1":"a","true":"b"}`},
		{"literal", "a: |\n  one\n  two\nb: >-\n  one\n  two\n", `{"a":"one\ntwo\n","b":"one two"}`},
		{"aliases", "a: &x {n: 1}\nb: *x\nc: [*x]\n", `{"a":{"n":1},"b":{"n":1},"c":[{"n":1}]}`},
		{"merge", "a: &x {n: 1, m: 2}\nb:\n  <<: *x\n  m: 3\n", `{"a":{"n":1,"m":2},"b":{"n":1,"m":3}}`},
		{"comments", "# one\n#!two\na: 1 # three\n", `{"a":1}`},
		{"CRLF", "a: 1\r\nb: x\r\n", `{"a":1,"b":"x"}`},
		{"documents", "---\na: 1\n---\nb: 2\n...\n---\n# nothing\n", `{"a":1} {"b":2}`},
		{"program", "#!/usr/bin/env -S agents\na: 1\n", `{"a":1}`},
		{"quoted number", `a: "010"`, `{"a":"010"}`},
		{"colon in a word", "url: http://localhost:8080/v1\n", `{"url":"http://localhost:8080/v1"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			docs, err := yamldoc.Parse([]byte(tc.text), jsondoc.Options{})
			var got []string
			for _, d := range docs {
				got = append(got, strings.NewReplacer(`\u003c`, "<").Replace(string(d.Raw(d.Root))))
			}
			if text := strings.Join(got, " "); err != nil || text != tc.want {
				t.Errorf("Parse = %s, %v; want %s", text, err, tc.want)
			}
		})
	}
}

func TestParseSaysWhereAndWhyItIsRefused(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 10), ","))
	}
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", " \n# x\n", "1:1: there is nothing in it"},
		{"key twice", "a: 1\nb: 2\na: 3\n", "3:1: "},
		{"tab", "a:\n\tb: 1\n", "2:1: there is a tab; indent with spaces"},
		{"byte order mark", "\xef\xbb\xbfa: 1\n", "1:1: there is a byte order mark"},
		{"octal", "a: 010\n", "1:4: 010: write a number as in JSON"},
		{"hexadecimal", "a: [0x1F]\n", "1:5: 0x1F: write a number as in JSON"},
		{"separators", "a: 1_000\n", "1:4: 1_000: write a number"},
		{"infinite", "a: .inf\n", "1:4: .inf: write a number"},
		{"plus", "a: +1\n", "1:4: +1: write a number"},
		{"empty document", "a: 1\n---\n# nothing\n---\nb: 2\n", "4:1: there is no document between this --- and the one before"},
		{"tag", "a: !!binary aGk=\n", "1:4: the tag !!binary is not known here"},
		{"mapping as a key", "? {a: 1}\n: b\n", "2:1: found an invalid key"},
		{"unknown alias", "a: *x\n", "1:4: there is no anchor &x before this"},
		{"an anchor in itself", "a: &x [*x]\n", "the anchor &x contains itself"},
		{"merge of a list", "a: &x [1]\nb:\n  <<: *x\n", "3:7: << wants the alias of a mapping"},
		{"bomb", bomb, "with what its aliases stand for it is longer than 1048576 bytes"},
		{"flow without an end", "a: [1,\nb: 2\n", ""},
		{"quote without an end", "a: \"x\n", "1:4: "},
		{"indentation", "a:\n  b: 1\n c: 2\n", "3:"},
		{"too deep", strings.Repeat("[", 100_000), "1:1001: nested more than 1000 deep"},
		{"not UTF-8", "a: 1\nb: \xff\n", "2:1: "},
		{"too long", strings.Repeat("# x\n", 1<<18+1), "1:1: the text is"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			docs, err := yamldoc.Parse([]byte(tc.text), jsondoc.Options{MaxDepth: 1000})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Parse = %d documents, %v; want %q", len(docs), err, tc.want)
			}
		})
	}
}

func TestPlacesAreThoseOfTheText(t *testing.T) {
	text := "# an agent\ntag: x\ncontents:\n  slug: é\n  list:\n    - 1\n    - {two: 2}\n---\nb: [1, two]\n"
	docs, err := yamldoc.Parse([]byte(text), jsondoc.Options{})
	if err != nil || len(docs) != 2 {
		t.Fatalf("Parse = %d documents, %v", len(docs), err)
	}
	for _, tc := range []struct {
		doc       int
		pointer   string
		line, col int
	}{{0, "", 2, 1}, {0, "/tag", 2, 6}, {0, "/contents", 4, 3}, {0, "/contents/slug", 4, 9}, {0, "/contents/list", 6, 5}, {0, "/contents/list/0", 6, 7}, {0, "/contents/list/1/two", 7, 13}, {1, "/b/1", 9, 8}} {
		d := docs[tc.doc]
		if line, col := d.Position(d.Find(tc.pointer).Start); line != tc.line || col != tc.col {
			t.Errorf("%q is at %d:%d, want %d:%d", tc.pointer, line, col, tc.line, tc.col)
		}
	}
	if line, col := docs[0].Position(docs[0].Find("/contents/slug").NameStart); line != 4 || col != 3 {
		t.Errorf("the key slug is at %d:%d, want 4:3", line, col)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"a: 1\n", "- x\n- &a {b: *a}\n", "? a\n: b\n", "a: |\n x\n", "<<: *x", "{a: [1, 'x'], \"b\": ~}", "---\n...\n%YAML 1.2\n", "a: !t x", "\tx", "-\n-", ":", "a:\n  - b\n c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		docs, err := yamldoc.Parse([]byte(text), jsondoc.Options{MaxBytes: 1 << 12, MaxDepth: 100})
		if (err == nil) != (len(docs) > 0) {
			t.Fatalf("Parse(%q) = %d documents, %v", text, len(docs), err)
		}
		for _, d := range docs {
			if !json.Valid(d.Raw(d.Root)) {
				t.Errorf("Parse(%q) = %s", text, d.Raw(d.Root))
			}
		}
	})
}

// TestAliasesGrowALittleOnly: what a short text expands to is limited by its length, whatever the
// limit of the whole is.
func TestAliasesGrowALittleOnly(t *testing.T) {
	for name, line := range map[string]string{
		"sequences": "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n",
		"mappings":  "a%d: &a%d {a: *a%d, b: *a%d, c: *a%d, d: *a%d, e: *a%d, f: *a%d, g: *a%d, h: *a%d, i: *a%d}\n",
	} {
		var b strings.Builder
		b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
		for i := 1; i < 12; i++ {
			args := []any{i, i}
			for range 9 {
				args = append(args, i-1)
			}
			fmt.Fprintf(&b, line, args...)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := yamldoc.Parse([]byte(b.String()), jsondoc.Options{MaxBytes: 64 << 20})
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; err == nil || !strings.Contains(err.Error(), "aliases stand for") || used > 64<<20 {
			t.Errorf("%s: %d bytes of YAML took %d of memory: %v", name, b.Len(), used, err)
		}
	}
	long := "base: &base {l: w}\nlist:\n" + strings.Repeat("  - *base\n", 20_000)
	if _, err := yamldoc.Parse([]byte(long), jsondoc.Options{MaxBytes: 64 << 20}); err != nil {
		t.Errorf("many aliases of a small value: %v", err)
	}
}
