package developer_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/toolbox/developer"
)

// A bench is a toolbox over a new folder.
type bench struct {
	t    *testing.T
	dir  string
	set  *developer.Toolset
	tool agent.Tool
}

func open(t *testing.T, files map[string]string, change func(dir string, o *developer.Options)) *bench {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	o := developer.Options{Name: "dev", Dir: dir}
	if change != nil {
		change(dir, &o)
	}
	set := developer.Open(o)
	tools, err := set.Tools(t.Context())
	if err != nil || len(tools) != 1 {
		t.Fatal(tools, err)
	}
	return &bench{t, dir, set, tools[0]}
}

// call returns the fields of the result; "error" is the text of an error.
func (b *bench) call(args map[string]any) map[string]any {
	b.t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := b.tool.Call(b.t.Context(), &agent.Invocation{Call: agent.ToolCall{Name: b.tool.Spec().Name, Args: string(text)}})
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(r.Parts[0].Text), &fields); err != nil {
		b.t.Fatalf("%s\n%v", r.Parts[0].Text, err)
	}
	return fields
}

func (b *bench) refuses(want string, args map[string]any) {
	b.t.Helper()
	if got, _ := b.call(args)["error"].(string); !strings.Contains(got, want) {
		b.t.Errorf("%v: error %q, want %q", args, got, want)
	}
}

func (b *bench) has(name, want string) {
	b.t.Helper()
	got, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil || string(got) != want {
		b.t.Errorf("%s has %q (%v), want %q", name, got, err, want)
	}
}

func TestReadingLines(t *testing.T) {
	b := open(t, map[string]string{"a.txt": "one\ntwo\nthree\nfour", "empty": ""}, nil)
	for ranges, want := range map[string]string{
		"2":     "2\ttwo\n",
		"2-3":   "2\ttwo\n3\tthree\n",
		"1, 4":  "1\tone\n4\tfour\n",
		"3-99":  "3\tthree\n4\tfour\n",
		"99":    "",
		"head":  "",
		"2+":    "",
		"whole": "1\tone\n2\ttwo\n3\tthree\n4\tfour\n",
		"":      "1\tone\n2\ttwo\n3\tthree\n4\tfour\n",
	} {
		r := b.call(map[string]any{"capability": "read-file-range", "path": "a.txt", "ranges": ranges})
		if r["content"] != want || r["totalLineCount"] != 4.0 || r["totalFileSize"] != 18.0 {
			t.Errorf("%q: %v", ranges, r)
		}
	}
	if r := b.call(map[string]any{"capability": "read-file-range", "path": "a.txt", "metadata_only": true}); r["content"] != "" || len(r["snapshotRef"].(string)) != 32 {
		t.Error(r)
	}
	if r := b.call(map[string]any{"capability": "read-file-range", "path": "empty"}); r["totalLineCount"] != 0.0 || r["error"] != nil {
		t.Error(r)
	}
	for _, ranges := range []string{"0", "3-2", "x", "1,,2", "-1", "1-2-3", "whole,1"} {
		if r := b.call(map[string]any{"capability": "read-file-range", "path": "a.txt", "ranges": ranges}); r["error"] == nil {
			t.Errorf("%q: %v", ranges, r)
		}
	}
	b.refuses("no such file", map[string]any{"capability": "read-file-range", "path": "none"})
	b.refuses("not a file", map[string]any{"capability": "read-file-range", "path": "."})
	b.refuses(`did you mean "read-file-range"?`, map[string]any{"capability": "read-file-ranges", "path": "a.txt"})
	b.refuses("path is missing", map[string]any{"capability": "read-file-range"})
}

func TestWritingLines(t *testing.T) {
	for _, c := range []struct {
		ranges string
		blocks []string
		want   string
	}{
		{"2", []string{"TWO"}, "one\nTWO\nthree\nfour\n"},
		{"2-3", []string{"x\ny\nz\n"}, "one\nx\ny\nz\nfour\n"},
		{"3,1", []string{"THREE\n3", "ONE\n1"}, "ONE\n1\ntwo\nTHREE\n3\nfour\n"}, // all ranges are lines of before
		{"1,4", []string{"", ""}, "two\nthree\n"},
		{"2+", []string{"new"}, "one\ntwo\nnew\nthree\nfour\n"},
		{"1-3+", []string{"new"}, "one\ntwo\nthree\nnew\nfour\n"},
		{"4,4+", []string{"FOUR", "five"}, "one\ntwo\nthree\nFOUR\nfive\n"},
		{"head", []string{"zero"}, "zero\none\ntwo\nthree\nfour\n"},
		{"tail", []string{"five"}, "one\ntwo\nthree\nfour\nfive\n"},
		{"whole", []string{"a\nb"}, "a\nb\n"},
		{"3-99", []string{"end"}, "one\ntwo\nend\n"},
	} {
		b := open(t, map[string]string{"a.txt": "one\ntwo\nthree\nfour\n"}, nil)
		r := b.call(map[string]any{"capability": "write-file-range", "path": "a.txt", "ranges": c.ranges, "contentBlocks": c.blocks})
		if r["error"] != nil || r["sessionStatus"] != "committed" {
			t.Errorf("%s: %v", c.ranges, r)
		}
		b.has("a.txt", c.want)
		// What it says of the new file is true.
		lines := strings.Split(c.want, "\n")
		for i, e := range r["rangeResults"].([]any) {
			e := e.(map[string]any)
			if e["finalStartLine"] == nil || len(c.blocks) != 1 {
				continue
			}
			block := strings.Join(lines[int(e["finalStartLine"].(float64))-1:int(e["finalEndLine"].(float64))], "\n")
			if block != strings.TrimSuffix(c.blocks[i], "\n") {
				t.Errorf("%s: %v", c.ranges, e)
			}
		}
		if info, err := os.Stat(filepath.Join(b.dir, "a.txt")); err != nil || info.Mode().Perm() != 0o640 {
			t.Error("permissions", info.Mode(), err)
		}
	}
	b := open(t, map[string]string{"a.txt": "one\ntwo\n"}, nil)
	b.call(map[string]any{"capability": "write-file-range", "path": "new/folder/b.txt", "ranges": "head", "contentBlocks": []string{"hello"}})
	b.has("new/folder/b.txt", "hello\n")
	write := func(path, ranges string, blocks ...string) map[string]any {
		return map[string]any{"capability": "write-file-range", "path": path, "ranges": ranges, "contentBlocks": blocks}
	}
	b.refuses("outside of the file", write("a.txt", "3", "x"))
	b.refuses("overlaps", write("a.txt", "1-2,2", "x", "y"))
	b.refuses("2 ranges and 1 contentBlocks", write("a.txt", "1,2", "x"))
	b.refuses("does not exist", write("none", "1", "x"))
	b.refuses("ranges is missing", map[string]any{"capability": "write-file-range", "path": "a.txt", "contentBlocks": []string{"x"}})
	b.refuses("ranges is missing", map[string]any{"capability": "write-file-range", "path": "none", "content": "x"})
	b.refuses("contentBlocks is missing", map[string]any{"capability": "write-file-range", "path": "a.txt", "ranges": "1"})
	b.has("a.txt", "one\ntwo\n")
}

func TestSnapshotsAndSessions(t *testing.T) {
	b := open(t, map[string]string{"a.txt": "one\ntwo\nthree\n"}, nil)
	ref := b.call(map[string]any{"capability": "read-file-range", "path": "a.txt"})["snapshotRef"]
	edit := func(args map[string]any) map[string]any {
		args["capability"] = "write-file-range"
		return b.call(args)
	}
	r := edit(map[string]any{"path": "a.txt", "ranges": "1", "contentBlocks": []string{"1\n1"}, "expected_snapshot_ref": ref, "commit": false})
	id, _ := r["sessionId"].(string)
	if r["sessionStatus"] != "staged" || id == "" {
		t.Fatal(r)
	}
	b.has("a.txt", "one\ntwo\nthree\n")
	if r := edit(map[string]any{"session_id": id, "ranges": "3", "contentBlocks": []string{"3"}}); r["sessionNetDelta"] != 1.0 {
		t.Error(r)
	}
	if r := b.call(map[string]any{"capability": "read-file-range", "session_id": id, "path": "a.txt"}); r["content"] != "1\t1\n2\t1\n3\ttwo\n4\t3\n" {
		t.Error(r)
	}
	if r := edit(map[string]any{"session_id": id, "ranges": "1", "contentBlocks": []string{"again"}}); !strings.Contains(r["error"].(string), "overlaps") {
		t.Error(r)
	}
	r = edit(map[string]any{"session_id": id, "commit": true})
	if r["sessionCommitted"] != true || r["beforeSnapshotRef"] != ref {
		t.Error(r)
	}
	b.has("a.txt", "1\n1\ntwo\n3\n")
	b.refuses("committed already", map[string]any{"capability": "write-file-range", "session_id": id, "commit": true})
	b.refuses("no edit session", map[string]any{"capability": "write-file-range", "session_id": "x"})

	b.refuses("not as expected", map[string]any{"capability": "edit-text", "path": "a.txt", "old_text": "two", "new_text": "2", "expected_snapshot_ref": ref})
	b.refuses("occurs 2 times", map[string]any{"capability": "edit-text", "path": "a.txt", "old_text": "1", "new_text": "2"})
	if r := b.call(map[string]any{"capability": "edit-text", "path": "a.txt", "old_text": "two", "new_text": "2"}); r["line"] != 3.0 {
		t.Error(r)
	}
	b.has("a.txt", "1\n1\n2\n3\n")
	if r := b.call(map[string]any{"capability": "restore-file", "path": "a.txt", "snapshot_ref": ref}); r["valid"] != true {
		t.Error(r)
	}
	b.has("a.txt", "one\ntwo\nthree\n")
	b.refuses("no snapshot", map[string]any{"capability": "restore-file", "path": "a.txt", "snapshot_ref": "x"})
}

func TestFolders(t *testing.T) {
	b := open(t, map[string]string{"d/a.txt": "a\n", "d/e/b.go": "package b // a\n", "d/.hidden": "a\n"}, nil)
	r := b.call(map[string]any{"capability": "list-directory", "path": "d"})
	if r["entryCount"] != 2.0 {
		t.Error(r)
	}
	if r := b.call(map[string]any{"capability": "traverse-directory", "path": "d"}); r["entryCount"] != 4.0 {
		t.Error(r)
	}
	if r := b.call(map[string]any{"capability": "list-directory", "path": "d", "recursive": true, "name_patterns": []string{"*.go"}}); r["entryCount"] != 1.0 {
		t.Error(r)
	}
	r = b.call(map[string]any{"capability": "search", "path": "d", "pattern": `\ba\b`})
	if len(r["matches"].([]any)) != 2 {
		t.Error(r)
	}
	b.refuses("regular expression", map[string]any{"capability": "search", "path": "d", "pattern": "("})
	ref := b.call(map[string]any{"capability": "snapshot-directory", "path": "d"})["snapshotRef"]
	b.call(map[string]any{"capability": "write-file-range", "path": "d/a.txt", "ranges": "whole", "contentBlocks": []string{"changed"}})
	b.call(map[string]any{"capability": "write-file-range", "path": "d/new", "ranges": "head", "contentBlocks": []string{"new"}})
	if err := os.Remove(filepath.Join(b.dir, "d/e/b.go")); err != nil {
		t.Fatal(err)
	}
	r = b.call(map[string]any{"capability": "restore-directory", "path": "d", "snapshot_ref": ref})
	if text, _ := json.Marshal([]any{r["changed"], r["removed"]}); string(text) != `[["a.txt","e/b.go"],["new"]]` {
		t.Errorf("%s", text)
	}
	b.has("d/a.txt", "a\n")
	b.has("d/e/b.go", "package b // a\n")
}

func TestPatches(t *testing.T) {
	const before = "a\nb\nc\nd\ne\n\ng\n"
	for _, c := range []struct{ patch, want, wrong string }{
		{patch: "--- a/f\n+++ b/f\n@@ -2,2 +2,2 @@ fn\n-b\n+B\n c\n@@ -5,3 +5,4 @@\n e\n+f\n\n g\n", want: "a\nB\nc\nd\ne\nf\n\ng\n"},
		{patch: "@@ -0,0 +1 @@\n+top\n", want: "top\n" + before},
		{patch: "@@ -7 +7,9 @@\n g\n+h\n\\ No newline at end of file", want: before + "h"}, // a wrong count
		{patch: "@@ -2,2 +2,1 @@\n-b\n-x\n", wrong: `expects line 3 to be "x", and it is "c"; nothing was changed`},
		{patch: "@@ -1 +1 @@\n-a\n+A\n@@ -9 +9 @@\n-x\n", wrong: "has 7 lines"},
		{patch: "@@ -1,2 +1,2 @@\n-a\n-b\n+x\n@@ -2 +2 @@\n-b\n+y\n", wrong: "overlaps"},
		{patch: "no patch at all", wrong: "no hunk"},
		{patch: "@@ -1 +1 @@\n*a\n", wrong: "does not begin with"},
	} {
		b := open(t, map[string]string{"f": before}, nil)
		r := b.call(map[string]any{"capability": "patch-file", "path": "f", "patch": c.patch})
		if got, _ := r["error"].(string); !strings.Contains(got, c.wrong) || (got == "") != (c.wrong == "") {
			t.Errorf("%q: %q, want %q", c.patch, got, c.wrong)
		}
		if c.wrong != "" {
			c.want = before
		}
		b.has("f", c.want)
	}
}

func TestNothingOutsideIsReadOrWritten(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	predicate := func(text string) *developer.Predicate {
		p := &developer.Predicate{}
		if err := json.Unmarshal([]byte(text), p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	b := open(t, map[string]string{"src/a.go": "a\n", "src/b.txt": "b\n", "x": "x\n", "tool": "#!/bin/sh\n", ".git/config": "c\n"}, func(dir string, o *developer.Options) {
		o.Files = predicate(`{"tag": "Any", "contents": [{"tag": "And", "contents": [{"tag": "DirectoryRecursive", "contents": "./src"}, {"tag": "FileExtension", "contents": ["go"]}]}, {"tag": "FileExactly", "contents": "./tool"}, {"tag": "DirectoryRecursive", "contents": ".git"}]}`)
		for _, link := range [][2]string{{secret, "src/link.go"}, {outside, "src/folder"}, {filepath.Join(outside, "none"), "src/new.go"}} {
			if err := os.Symlink(link[0], filepath.Join(dir, link[1])); err != nil {
				t.Fatal(err)
			}
		}
	})
	b.set.Protect([]string{filepath.Join(b.dir, "tool")})
	if r := b.call(map[string]any{"capability": "read-file-range", "path": "src/a.go"}); r["content"] != "1\ta\n" {
		t.Error(r)
	}
	for _, path := range []string{"src/b.txt", "x", "src/link.go", "src/folder/secret", secret, "../x.go", "src/../x", "src/new.go", "/etc/passwd"} {
		for _, c := range []string{"read-file-range", "write-file-range", "patch-file", "edit-text"} {
			r := b.call(map[string]any{"capability": c, "path": path, "ranges": "whole", "contentBlocks": []string{"x"}, "patch": "@@ -1 +1 @@\n-secret\n+x\n", "old_text": "s", "new_text": "x"})
			if r["error"] == nil {
				t.Errorf("%s %s: %v", c, path, r)
			}
		}
	}
	for _, path := range []string{"tool", ".git/config", ".git/hooks/pre-commit", "src/.HG/hgrc.go"} {
		b.refuses("decides which programs are executed", map[string]any{"capability": "write-file-range", "path": path, "ranges": "whole", "contentBlocks": []string{"x"}})
	}
	if r := b.call(map[string]any{"capability": "search", "path": ".", "pattern": "."}); len(r["matches"].([]any)) != 2 { // src/a.go and tool
		t.Error(r)
	}
	if got, err := os.ReadFile(secret); err != nil || string(got) != "secret\n" {
		t.Error(string(got), err)
	}
	if _, err := os.Stat(filepath.Join(outside, "none")); err == nil {
		t.Error("a file was created outside")
	}

	b = open(t, map[string]string{"a": "a\n"}, func(_ string, o *developer.Options) {
		o.Permits = func(path string, write bool) bool { return !write }
	})
	b.refuses("sandbox", map[string]any{"capability": "write-file-range", "path": "a", "ranges": "1", "contentBlocks": []string{"x"}})
	for _, bad := range []string{`{"tag": "None"}`, `{"tag": "FilePattern", "contents": "["}`, `{"tag": "Not"}`, `{"tag": "Any", "contents": {}}`} {
		if err := json.Unmarshal([]byte(bad), &developer.Predicate{}); err == nil {
			t.Error(bad)
		}
	}
}

// TestAnEditKeepsTheRestOfTheFile: line ends, the end of the last line and the mode, of files of
// each kind, by each capability that edits.
func TestAnEditKeepsTheRestOfTheFile(t *testing.T) {
	for name, c := range map[string]map[string]any{
		"write-file-range":   {"ranges": "2", "contentBlocks": []string{"TWO"}},
		"write, CRLF block":  {"capability": "write-file-range", "ranges": "2", "contentBlocks": []string{"TWO\r\n"}},
		"edit-text":          {"old_text": "one\ntwo", "new_text": "one\nTWO"},
		"patch-file":         {"patch": "@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"},
		"a patch with CRLF":  {"capability": "patch-file", "patch": "@@ -1,3 +1,3 @@\r\n one\r\n-two\r\n+TWO\r\n three\r\n"},
		"a patch that marks": {"capability": "patch-file", "patch": "@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n\\ No newline at end of file\n"},
	} {
		for _, end := range []string{"\n", "\r\n"} {
			for _, last := range []string{"", end} {
				if strings.Contains(name, "marks") && last != "" {
					continue
				}
				t.Run(fmt.Sprintf("%s, %q, %q", name, end, last), func(t *testing.T) {
					b := open(t, map[string]string{"a.txt": "one" + end + "two" + end + "three" + last}, nil)
					file := filepath.Join(b.dir, "a.txt")
					if err := os.Chmod(file, 0o751); err != nil {
						t.Fatal(err)
					}
					args := map[string]any{"capability": name, "path": "a.txt"}
					maps.Copy(args, c)
					if r := b.call(args); r["error"] != nil {
						t.Fatal(r)
					}
					b.has("a.txt", "one"+end+"TWO"+end+"three"+last)
					if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o751 {
						t.Errorf("%v %v", info, err)
					}
				})
			}
		}
	}
}

// TestAPatchChangesTheEndOfTheLastLine: its markers say so.
func TestAPatchChangesTheEndOfTheLastLine(t *testing.T) {
	const mark = "\\ No newline at end of file\n"
	b := open(t, map[string]string{"a.txt": "one"}, nil)
	b.call(map[string]any{"capability": "patch-file", "path": "a.txt", "patch": "@@ -1 +1 @@\n-one\n" + mark + "+two\n"})
	b.has("a.txt", "two\n")
	b.call(map[string]any{"capability": "patch-file", "path": "a.txt", "patch": "@@ -1 +1 @@\n-two\n+one\n" + mark})
	b.has("a.txt", "one")
	b.call(map[string]any{"capability": "write-file-range", "path": "a.txt", "ranges": "tail", "contentBlocks": []string{"two"}})
	b.has("a.txt", "one\ntwo")
}

// TestFilesThatAreReadOnlyStay: a file without write permissions is not replaced.
func TestFilesThatAreReadOnlyStay(t *testing.T) {
	b := open(t, map[string]string{"a.txt": "one\n"}, nil)
	file := filepath.Join(b.dir, "a.txt")
	if err := os.Chmod(file, 0o444); err != nil {
		t.Fatal(err)
	}
	b.refuses("a.txt is read-only", map[string]any{"capability": "edit-text", "path": "a.txt", "old_text": "one", "new_text": "two"})
	b.has("a.txt", "one\n")
}

// TestARestoredFolderIsAsItWas: with modes, and with nothing written through links that came since.
func TestARestoredFolderIsAsItWas(t *testing.T) {
	outside := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(outside, name), []byte("outside\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, map[string]string{"d/a": "a\n", "d/sub/b": "b\n"}, func(_ string, o *developer.Options) { o.Files = developer.Everywhere() })
	top := filepath.Join(b.dir, "d")
	if err := os.Chmod(filepath.Join(top, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	ref := b.call(map[string]any{"capability": "snapshot-directory", "path": "d"})["snapshotRef"]
	for _, err := range []error{os.Remove(filepath.Join(top, "a")), os.Symlink(filepath.Join(outside, "a"), filepath.Join(top, "a"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if r := b.call(map[string]any{"capability": "restore-directory", "path": "d", "snapshot_ref": ref}); r["error"] != nil {
		t.Fatal(r)
	}
	b.has("d/a", "a\n")
	if info, err := os.Lstat(filepath.Join(top, "a")); err != nil || info.Mode() != 0o700 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	for _, err := range []error{os.RemoveAll(filepath.Join(top, "sub")), os.Symlink(outside, filepath.Join(top, "sub"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	b.refuses("a link is in the path", map[string]any{"capability": "restore-directory", "path": "d", "snapshot_ref": ref})
	for _, name := range []string{"a", "b"} {
		if got, err := os.ReadFile(filepath.Join(outside, name)); err != nil || string(got) != "outside\n" {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
}

// TestSnapshotsOfFoldersHaveALimit: the oldest are dropped.
func TestSnapshotsOfFoldersHaveALimit(t *testing.T) {
	b := open(t, map[string]string{"d/a": strings.Repeat("x", 9<<20)}, nil)
	refs := make([]any, 8)
	for i := range refs {
		refs[i] = b.call(map[string]any{"capability": "snapshot-directory", "path": "d"})["snapshotRef"]
	}
	b.refuses("was dropped", map[string]any{"capability": "restore-directory", "path": "d", "snapshot_ref": refs[0]})
	if r := b.call(map[string]any{"capability": "restore-directory", "path": "d", "snapshot_ref": refs[7]}); r["error"] != nil {
		t.Error(r)
	}
}

// TestManyWritersOfAFile: each of them succeeds, and what an interrupted one left is in nobody's way.
// TestMissingFoldersAreMade: also those whose names begin with a dot, such as .github.
func TestMissingFoldersAreMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "work")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	f := developer.OpenFiles(developer.Options{Dir: dir})
	for _, name := range []string{".github/workflows/ci.yml", "a/.b/c", "..c/d", "ä/e", "a/f/g/h"} {
		if err := f.Write(name, []byte("x")); err != nil {
			t.Errorf("Write(%q): %v", name, err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != "x" {
			t.Errorf("%s is %q, %v", name, text, err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
		t.Errorf("beside the folder there are %v (%v), want nothing", left, err)
	}
}

func TestManyWritersOfAFile(t *testing.T) {
	b := open(t, map[string]string{"a.txt": ""}, nil)
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			f := developer.OpenFiles(developer.Options{Dir: b.dir})
			for range 20 {
				if err := f.Write("a.txt", []byte(strconv.Itoa(i))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	if left, err := filepath.Glob(filepath.Join(b.dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// TestFilesOfTheSystemAreRefused: the keys of this process are in one of them.
func TestFilesOfTheSystemAreRefused(t *testing.T) {
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("there is no /proc")
	}
	dir := t.TempDir()
	if err := os.Symlink("/proc/self", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	f := developer.OpenFiles(developer.Options{Dir: dir, Files: developer.Everywhere()})
	for _, name := range []string{"/proc/self/environ", "/proc/thread-self/maps", "/proc/1/cmdline", "/proc/../proc/self/environ", "link/environ",
		"/sys/kernel/mm/transparent_hugepage/enabled", "/dev/shm/x", "/dev/../proc/self/environ"} {
		if text, err := f.Read(name); err == nil || !strings.Contains(err.Error(), "part of the system") {
			t.Errorf("Read(%q) = %.40q, %v", name, text, err)
		}
		if err := f.Write(name, []byte("x")); err == nil {
			t.Errorf("Write(%q) succeeded", name)
		}
	}
}
