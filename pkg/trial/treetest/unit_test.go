package treetest

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/trial/standin"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"
)

func TestDiffOfLongTextsIsBounded(t *testing.T) {
	a, b := strings.Repeat("a\n", 5000), strings.Repeat("b\n", 5000)
	diff := lineDiff("x\n"+a+"y", "x\n"+b+strings.Repeat("c", 1000)+"\ny")
	if n := strings.Count(diff, "\n"); n > standin.MaxDiffLines || !strings.Contains(diff, "more lines") {
		t.Errorf("the difference has %d lines:\n%s", n, diff)
	}
	if diff := lineDiff("a", strings.Repeat("é", 1000)); len(diff) > 2*maxColumn {
		t.Errorf("the difference has %d bytes", len(diff))
	}
}

func TestJSONIsCompared(t *testing.T) {
	for _, test := range []struct {
		want, got  string
		same, inIt bool
	}{
		{`{"a": 1}`, `{"a": 1.0}`, true, true},
		{`{"a": 12345678901234567890}`, `{"a": 12345678901234567891}`, false, false},
		{`{"a": 1}`, `{"a": 1, "b": 2}`, false, true},
		{`{"a": {"b": 1}}`, `{"a": {"b": 1, "c": 1}}`, false, true},
		{`[1, 2]`, `[1, 2, 3]`, false, false},
		{`[{"a": 1}]`, `[{"a": 1, "b": 2}]`, false, true},
		{`{"a": {"$pattern": "^x"}}`, `{"a": "xyz"}`, true, true},
		{`{"a": {"$pattern": "1"}}`, `{"a": 1}`, false, false},
		{`{"a": {"$any": true}}`, `{"a": [1]}`, true, true},
		{`{"a": {"$any": true}}`, `{}`, false, false},
		{`null`, `false`, false, false},
		{`{"a": null}`, `{"a": null}`, true, true},
	} {
		a, b := decodeJSON([]byte(test.want)), decodeJSON([]byte(test.got))
		if same, inIt := sameJSON(a, b, false), sameJSON(a, b, true); same != test.same || inIt != test.inIt {
			t.Errorf("%s and %s: the same: %v, in it: %v, want %v, %v", test.want, test.got, same, inIt, test.same, test.inIt)
		}
	}
}

func TestJUnitIsXML(t *testing.T) {
	text := JUnit([]Report{
		{File: "a", Duration: 1500 * time.Millisecond},
		{File: `b"<&`, Failures: []Failure{
			{File: "b", Line: 3, Key: "expect.answer", Message: "it is \x1b[31m \"<not>\" \xff]]>", Diff: "- a\n+ b"},
			{File: "b", Message: "another"},
		}},
		{File: "c", Skipped: "why & what"},
	})
	var got struct {
		Suites []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Cases    []struct {
				Name    string `xml:"name,attr"`
				Time    string `xml:"time,attr"`
				Skipped *struct {
					Message string `xml:"message,attr"`
				} `xml:"skipped"`
				Failure *struct {
					Message string `xml:"message,attr"`
					Text    string `xml:",chardata"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	s := got.Suites[0]
	if s.Cases[0].Skipped != nil || s.Cases[2].Skipped.Message != "why & what" {
		t.Errorf("skipped: %+v", s)
	}
	if s.Tests != 3 || s.Failures != 1 || s.Cases[0].Time != "1.500" || s.Cases[0].Failure != nil || s.Cases[1].Name != `b"<&` {
		t.Errorf("the suite is %+v", s)
	}
	if f := s.Cases[1].Failure; f.Message != "expect.answer: it is [31m \"<not>\" \uFFFD]]>" || !strings.Contains(f.Text, "    + b\nb: another") {
		t.Errorf("the failure is %q, %q", f.Message, f.Text)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"b", "sub/a", "sub/deep/c", ".git/x", "_old/x", "testdata/x", "sub/node_modules/x"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name+Suffix, []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("other.json", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		patterns []string
		want     []string
		err      string
	}{
		{[]string{"."}, []string{"b"}, ""},
		{[]string{"./..."}, []string{"b", "sub/a", "sub/deep/c"}, ""},
		{[]string{"...", "./sub", "b" + Suffix}, []string{"b", "sub/a", "sub/deep/c"}, ""},
		{[]string{"sub/..."}, []string{"sub/a", "sub/deep/c"}, ""},
		{[]string{"_old"}, []string{"_old/x"}, ""},
		{[]string{"testdata/..."}, []string{"testdata/x"}, ""},
		{[]string{".", "sub/deep/.."}, []string{"b", "sub/a"}, ""},
		{[]string{"nowhere"}, nil, "find tests in nowhere: no such file or directory"},
		{[]string{"nowhere/..."}, nil, "find tests in nowhere/...: no such file or directory"},
		{[]string{".git/.."}, []string{"b"}, ""},
		{[]string{"sub/deep...", "."}, nil, "find tests in sub/deep...: no such file or directory"},
	} {
		got, err := Find(test.patterns)
		for i := range got {
			got[i] = strings.TrimSuffix(got[i], Suffix)
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if diff := cmp.Diff(test.want, got); diff != "" || text != test.err {
			t.Errorf("Find(%q) = %v, %q, want %v, %q", test.patterns, got, text, test.want, test.err)
		}
	}
	if err := os.Mkdir("empty", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Find([]string{"empty"}); err == nil || err.Error() != "find tests in empty: there is no file *"+Suffix {
		t.Errorf("Find(empty) = %v", err)
	}
}

// TestCallsArePairedIfTheyCanBe compares pair with every possible way.
func TestCallsArePairedIfTheyCanBe(t *testing.T) {
	patterns := []string{`{"$any": true}`, `{"$pattern": "[ab]"}`, `"a"`, `"b"`, `"c"`}
	rapid.Check(t, func(t *rapid.T) {
		var want []ExpectCall
		for _, p := range rapid.SliceOfN(rapid.SampledFrom(patterns), 0, 4).Draw(t, "want") {
			want = append(want, ExpectCall{Tool: "t", Args: json.RawMessage(`{"x": ` + p + `}`)})
		}
		var got []*call
		for _, x := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 5).Draw(t, "got") {
			got = append(got, &call{tool: "t", args: `{"x": "` + x + `"}`})
		}
		for _, anyOrder := range []bool{false, true} {
			sorted, edits := pair(want, slices.Clone(got), anyOrder)
			missing, more := 0, 0
			for _, e := range edits {
				switch {
				case e.Op == '-':
					missing++
				case e.Op == '+':
					more++
				case !want[e.Want].fits(sorted[e.Got]):
					t.Fatalf("%s is taken for %s", sorted[e.Got], want[e.Want])
				}
			}
			if can := possible(want, got, anyOrder); can != (missing == 0) || len(want)-missing != len(got)-more {
				t.Errorf("in any order %v: %d are missing and %d more; possible: %v", anyOrder, missing, more, can)
			}
		}
	})
}

// possible reports whether all that is expected can be found among calls.
func possible(want []ExpectCall, got []*call, anyOrder bool) bool {
	if len(want) == 0 {
		return true
	}
	for k, c := range got {
		rest := got[k+1:]
		if anyOrder {
			rest = slices.Delete(slices.Clone(got), k, k+1)
		}
		if want[0].fits(c) && possible(want[1:], rest, anyOrder) {
			return true
		}
	}
	return false
}

// FuzzParse: whatever is in a test file, it is read or refused with a place.
func FuzzParse(f *testing.F) {
	archives, err := filepath.Glob("testdata/tests/*.txtar")
	if err != nil || len(archives) == 0 {
		f.Fatalf("Glob = %v, %v", archives, err)
	}
	for _, file := range archives {
		a, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			if strings.HasSuffix(file.Name, Suffix) {
				f.Add(file.Data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, failures := parse("a"+Suffix, data)
		if (file == nil) != (len(failures) > 0) {
			t.Fatalf("parse = %v, %v", file, failures)
		}
		for _, f := range failures {
			if f.Message == "" || f.Line == 0 {
				t.Errorf("the failure %+v has no message or no line", f)
			}
		}
		if file == nil {
			return
		}
		// What is valid can be checked, and written again.
		file.check(&trace{runs: []*agentRun{{}}}, outcome{status: "ok"})
		if _, err := encode(file.Spec); err != nil {
			t.Errorf("encode: %v", err)
		}
	})
}
