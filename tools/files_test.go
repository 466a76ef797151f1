package tools_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// odd are names that something on the way could take for something else.
var odd = []string{"-n", "--", "--path=x", "a b", "a\nb", "*", "$(touch x)", "ünï", "'\"", "a\\b", " x "}

func TestOddNames(t *testing.T) {
	needs(t, "python3")
	for _, name := range odd {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.ok("write_file", args{"path": name, "content": name})
			b.ok("edit_file", args{"path": name, "old": name, "new": "--new=" + name})
			b.has(map[string]string{name: "--new=" + name})
			if got := b.ok("grep", args{"pattern": "--new", "path": name}); !strings.Contains(got, ":1:--new=") {
				t.Errorf("grep = %q", got)
			}
		})
	}
}

func TestReadFile(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	b := newBox(t)
	b.write("three", "one\ntwo\nthree")
	b.write("crlf", "a\r\nb\r\n")
	b.write("empty", "")
	b.write("latin1", "a long line and then caf\xe9\n")
	b.write("binary", "\x89PNG\r\n\x1a\n\x00\x00")
	b.write("utf16", "\xff\xfea\x00")
	b.write("late", strings.Repeat("text\n", 4000)+"\x00")
	if err := exec.Command("mkfifo", b.path("fifo")).Run(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args args
		want string
	}{
		{args{"path": "three"}, "one\ntwo\nthree"},
		{args{"path": b.path("three"), "start": 2}, "two\nthree"},
		{args{"path": "three", "start": 2, "end": 2}, "two\n"},
		{args{"path": "three", "end": 99, "numbers": true}, "     1\tone\n     2\ttwo\n     3\tthree"},
		{args{"path": "three", "offset": 8}, "three"},
		{args{"path": "crlf"}, "a\r\nb\r\n"},
		{args{"path": "latin1"}, "a long line and then caf�\n"},
		{args{"path": "empty"}, "The file is empty."},
	} {
		if got := b.ok("read_file", test.args); got != test.want {
			t.Errorf("read_file %v = %q, want %q", test.args, got, test.want)
		}
	}
	for _, test := range []struct {
		args   args
		status int
		want   string
	}{
		{args{"path": "none"}, 1, "read-file: none: No such file or directory"},
		{args{"path": ""}, 2, "path is missing or empty"},
		{args{"path": "."}, 1, ". is a folder, not a regular file; list_files shows"},
		{args{"path": "fifo"}, 1, "fifo is a FIFO, not a regular file"},
		{args{"path": "/dev/zero"}, 1, "/dev/zero is a device"},
		{args{"path": "three/x"}, 1, "three/x: Not a directory"},
		{args{"path": "binary"}, 1, "binary is binary (PNG image): 10 bytes, a NUL byte at 8"},
		{args{"path": "utf16"}, 1, "utf16 is UTF-16 text; convert it first"},
		{args{"path": "late", "start": 4000}, 1, "late is binary here"},
		{args{"path": "three", "start": 4}, 1, "three has 3 lines; start 4 is behind its end"},
		{args{"path": "crlf", "start": 3}, 1, "crlf has 2 lines; start 3"},
		{args{"path": "three", "offset": 14}, 1, "three has 13 bytes; offset 14 is behind its end"},
		{args{"path": "three", "start": 0}, 2, "start must be 1 to"},
		{args{"path": "three", "start": 2, "end": 1}, 2, "end must be 2 to"},
		{args{"path": "three", "start": 2, "offset": 1}, 2, "offset counts bytes"},
		{args{"path": strings.Repeat("x", 5000)}, 1, "File name too long"},
	} {
		b.fails("read_file", test.args, test.status, test.want)
	}
}

// What does not fit into one answer is read to its end by doing what the answer
// says.
func TestReadFileGoesOn(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	b := newBox(t)
	var lines strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&lines, "line %d of the file\n", i+1)
	}
	contents := map[string]string{"lines": lines.String(), "one line": strings.Repeat("äöü€", 15_000)}
	for name, want := range contents {
		b.write(name, want)
		var got strings.Builder
		next := args{"path": name}
		for calls := 1; next != nil; calls++ {
			if calls > 10 {
				t.Fatalf("%s: still not at the end after %d calls", name, calls)
			}
			text := b.ok("read_file", next)
			next = nil
			if at := strings.LastIndex(text, "[read_file: "); at >= 0 {
				var n int
				_, hint, _ := strings.Cut(text[at:], "go on with ")
				text = text[:at]
				switch {
				case strings.HasPrefix(hint, "start="):
					fmt.Sscanf(hint, "start=%d", &n)
					next = args{"path": name, "start": n}
				default:
					fmt.Sscanf(hint, "offset=%d", &n)
					next = args{"path": name, "offset": n}
					text = strings.TrimSuffix(text, "\n")
				}
			}
			got.WriteString(text)
		}
		if got.String() != want {
			t.Errorf("%s: %d bytes came, want %d", name, got.Len(), len(want))
		}
	}
}

func TestReadFileIsHuge(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	b := newBox(t)
	b.write("huge", "first\n")
	if err := os.Truncate(b.path("huge"), 1<<33); err != nil { // a hole, without a newline
		t.Skipf("no sparse files here: %v", err)
	}
	b.fails("read_file", args{"path": "huge"}, 1, "huge is binary: 8,589,934,592 bytes")
}

func TestWriteFile(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	b := newBox(t)
	for _, content := range []string{"", "no newline", "two\n\n", "\n", "ünï \U0001F600\n"} {
		b.ok("write_file", args{"path": "new/deep/f", "content": content})
		if got := b.read("new/deep/f"); got != content {
			t.Errorf("content = %q, want %q", got, content)
		}
	}
	b.has(map[string]string{"new/deep/f": "ünï \U0001F600\n"})
	if got := b.ok("write_file", args{"path": "new/deep/f", "content": "ünï \U0001F600\n"}); !strings.Contains(got, "already") {
		t.Errorf("the same content again: %q", got)
	}
	big := strings.Repeat("0123456789abcde\n", 1<<16)
	b.ok("write_file", args{"path": "big", "content": big})
	if b.read("big") != big {
		t.Error("1 MiB did not arrive")
	}
	b.fails("write_file", args{"path": "big", "content": "x", "overwrite": false}, 1, "big is there already")
}

func TestWritingKeepsModes(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	b := newBox(t)
	b.write("script", "old")
	if err := os.Chmod(b.path("script"), 0o750); err != nil {
		t.Fatal(err)
	}
	b.ok("write_file", args{"path": "script", "content": "old text"})
	b.ok("edit_file", args{"path": "script", "old": "text", "new": "words"})
	b.ok("patch", args{"patch": "--- script\n+++ script\n@@ -1 +1 @@\n-old words\n\\ No newline at end of file\n+new\n"})
	info, err := os.Stat(b.path("script"))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o750 || b.read("script") != "new\n" {
		t.Errorf("mode = %o, want 750; content %q", got, b.read("script"))
	}
	b.write("closed", "x")
	if err := os.Chmod(b.path("closed"), 0o444); err != nil {
		t.Fatal(err)
	}
	b.fails("write_file", args{"path": "closed", "content": "y"}, 1, "closed is read-only")
	b.fails("edit_file", args{"path": "closed", "old": "x", "new": "y"}, 1, "closed is read-only")
}

// Each way out of the folder is refused by each tool that writes.
func TestWritingStaysBelow(t *testing.T) {
	needs(t, "python3")
	b := newBox(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "f"), []byte("old\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.write("file", "old\n")
	b.write("folder/f", "old\n")
	links := map[string]string{"link": filepath.Join(outside, "f"), "dangling": filepath.Join(outside, "new"), "out": outside, "loop": "loop", "in": "folder"}
	for name, to := range links {
		if err := os.Symlink(to, b.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := exec.Command("mkfifo", b.path("fifo")).Run(); err != nil {
		t.Fatal(err)
	}
	up, err := filepath.Rel(b.dir, filepath.Join(outside, "f"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path, want string
		all        bool // not only write_file
	}{
		{filepath.Join(outside, "f"), "outside", false},
		{up, "outside", true},
		{"folder/../../f", "outside", false},
		{"link", "outside", true},
		{"dangling", "outside", false},
		{"out/f", "outside", true},
		{"in/../out/f", "outside", false},
		{"loop", "loop", false},
		{"fifo", "fifo is a FIFO", true},
		{"folder", "folder is a folder", false},
		{"folder/", "names a folder", false},
		{".", "names a folder", false},
		{"file/f", "file", false},
		{".git/config", ".git belongs to git", true},
		{".hg/hgrc", ".hg belongs to Mercurial", true},
		{"folder/.GIT/hooks/x", ".GIT belongs to git", false},
		{".g\u200cit/config", "belongs to git", false},
		{strings.Repeat("x", 300), "File name too long", false},
	} {
		t.Run(test.path, func(t *testing.T) {
			t.Parallel()
			b := &box{t: t, dir: b.dir, tools: b.tools}
			want := test.want
			calls := map[string]args{"write_file": {"path": test.path, "content": "new\n"}}
			if test.all {
				calls["edit_file"] = args{"path": test.path, "old": "old", "new": "new"}
				calls["patch"] = args{"patch": fmt.Sprintf("--- %[1]s\n+++ %[1]s\n@@ -1 +1 @@\n-old\n+new\n", test.path)}
			}
			for slug, a := range calls {
				text, err := b.call(slug, a)
				if err == nil || !strings.Contains(text, want) || strings.Contains(text, "Traceback") {
					t.Errorf("%s: %v\n%s\nwant %q", slug, err, text, want)
				}
			}
		})
	}
	t.Cleanup(func() {
		data, err := os.ReadFile(filepath.Join(outside, "f"))
		if entries, _ := os.ReadDir(outside); err != nil || string(data) != "old\n" || len(entries) != 1 {
			t.Errorf("outside: %q, %v, %v", data, entries, err)
		}
		b.has(map[string]string{"file": "old\n", "folder/f": "old\n"})
	})
}

func TestWritingFollowsLinksInside(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	b := newBox(t)
	b.write("real/f", "old")
	if err := os.Symlink("real/f", b.path("link")); err != nil {
		t.Fatal(err)
	}
	b.ok("write_file", args{"path": "link", "content": "new"})
	if got, err := os.Readlink(b.path("link")); err != nil || got != "real/f" || b.read("real/f") != "new" {
		t.Errorf("link leads to %q, %v; content %q", got, err, b.read("real/f"))
	}
}

func TestToolRoot(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	b := newBox(t, "AGENTS_TOOL_ROOT=out")
	b.fails("write_file", args{"path": "f", "content": "x"}, 1, "AGENTS_TOOL_ROOT: ", "No such file")
	if err := os.Mkdir(b.path("out"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.fails("write_file", args{"path": "f", "content": "x"}, 1, "outside", "AGENTS_TOOL_ROOT")
	b.ok("write_file", args{"path": "out/f", "content": "x"})
	b.ok("remember", args{"note": "n"})
	if b.read("out/f") != "x" || !strings.Contains(b.read("out/agents-notes.md"), "\n  n\n") {
		t.Error("the files are not below out")
	}
}

func TestEditFile(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	b := newBox(t)
	const text = "one\ntwo\nthree\ntwo\naaa\n"
	b.write("f", text)
	b.write("crlf", "a\r\nb\r\n")
	b.write("binary", "a\x00b")
	for _, test := range []struct {
		args   args
		status int
		want   string
	}{
		{args{"path": "none", "old": "a", "new": "b"}, 1, "none: no such file"},
		{args{"path": "no/such/folder", "old": "a", "new": "b"}, 1, "no/such/folder: no such file"},
		{args{"path": "f", "old": "two", "new": "2"}, 1, "old is in f 2 times (line 2, 4); nothing is changed"},
		{args{"path": "f", "old": "aa", "new": "b"}, 1, "old is in f 2 times (line 5, 5)"},
		{args{"path": "f", "old": "four", "new": "4"}, 1, "old is not in f; nothing is changed; read the file"},
		{args{"path": "f", "old": "one  two", "new": "4"}, 1, "only its white space differs"},
		{args{"path": "f", "old": "Three", "new": "4"}, 1, "other upper and lower case"},
		{args{"path": "crlf", "old": "a\nb", "new": "c"}, 1, "end in CR LF"},
		{args{"path": "f", "old": "", "new": "x"}, 2, "old is missing or empty"},
		{args{"path": "f", "old": "one", "new": "one"}, 2, "old and new are the same"},
		{args{"path": "binary", "old": "a", "new": "b"}, 1, "binary is binary (a NUL byte at 1)"},
	} {
		b.fails("edit_file", test.args, test.status, test.want)
	}
	if b.read("f") != text {
		t.Errorf("f was changed: %q", b.read("f"))
	}
	b.ok("edit_file", args{"path": "f", "old": "three\ntwo\n", "new": "--\n\\1 $x\n"})
	b.ok("edit_file", args{"path": "f", "old": "a", "new": "é", "all": true})
	b.ok("edit_file", args{"path": "f", "old": "one\n", "new": ""})
	b.ok("edit_file", args{"path": "crlf", "old": "a\r\n", "new": ""})
	b.has(map[string]string{"f": "two\n--\n\\1 $x\nééé\n", "crlf": "b\r\n", "binary": "a\x00b"})
}

// Many edits of one file at the same time: none is lost.
func TestEditsTakeTurns(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	b := newBox(t)
	const n = 12
	var before, after strings.Builder
	for i := range n {
		fmt.Fprintf(&before, "<%d>\n", i)
		fmt.Fprintf(&after, "changed %d\n", i)
	}
	b.write("f", before.String())
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if text, err := b.call("edit_file", args{"path": "f", "old": fmt.Sprintf("<%d>", i), "new": fmt.Sprintf("changed %d", i)}); err != nil {
				t.Errorf("edit %d: %v %s", i, err, text)
			}
		})
	}
	wg.Wait()
	b.has(map[string]string{"f": after.String()})
}

func TestListFiles(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	b := newBox(t)
	for _, name := range []string{"b.go", "a.txt", ".hidden", "sub/c.go", "sub/deep/d.go", ".git/config", "new\nline", "[x]"} {
		b.write(name, "x")
	}
	for name, to := range map[string]string{"up": "..", "gone": "nowhere"} {
		if err := os.Symlink(to, b.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := exec.Command("mkfifo", b.path("fifo")).Run(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args args
		want string
	}{
		{args{}, "[x]\na.txt\nb.go\nfifo (a FIFO)\ngone -> nowhere\n\"new\\nline\"\nsub/\nup -> ..\n"},
		{args{"pattern": "*.go"}, "b.go\nsub/c.go\nsub/deep/d.go\n"},
		{args{"pattern": "sub/*.go"}, "sub/c.go\n"},
		{args{"pattern": "**/d.go"}, "sub/deep/d.go\n"},
		{args{"pattern": "[x]", "hidden": true}, "Nothing is there that matches."},
		{args{"pattern": "[[]x]"}, "[x]\n"},
		{args{"pattern": "[!a-z]hidden", "hidden": true}, ".hidden\n"},
		{args{"pattern": "?.go", "recursive": false}, "b.go\n"},
		{args{"path": "sub", "recursive": true}, "c.go\ndeep/\ndeep/d.go\n"},
		{args{"path": "up", "pattern": "--none"}, "Nothing is there that matches."},
	} {
		if diff := cmp.Diff(test.want, b.ok("list_files", test.args)); diff != "" {
			t.Errorf("list_files %v (-want +got):\n%s", test.args, diff)
		}
	}
	if got := b.ok("list_files", args{"limit": 2}); !strings.HasPrefix(got, "[x]\na.txt\n[list_files: stopped after 2 entries") {
		t.Errorf("limit 2: %s", got)
	}
	if got := b.ok("list_files", args{"pattern": "b.go", "details": true}); !strings.Contains(got, "Z -rw-r--r--            1 b.go\n") {
		t.Errorf("details: %s", got)
	}
	b.fails("list_files", args{"path": "b.go"}, 1, "b.go is a regular file, not a folder")
	b.fails("list_files", args{"path": "none"}, 1, "none: No such file or directory")
	b.fails("list_files", args{"limit": 0}, 2, "limit must be 1 to 10000, not 0")
}

func TestGrep(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	b := newBox(t)
	b.write("a.txt", "Alpha\nbeta\ngamma (x)\nbeta\n")
	b.write("sub/b.go", "func beta() {}\r\n")
	b.write(".hidden", "beta\n")
	b.write("binary", "beta\x00")
	b.write("long", strings.Repeat("x", 10_000)+"needle"+strings.Repeat("y", 10_000))
	b.write("many", strings.Repeat("hit "+strings.Repeat("z", 400)+"\n", 1000))
	if err := exec.Command("mkfifo", b.path("fifo")).Run(); err != nil {
		t.Fatal(err)
	}
	const skipped = "[grep: %d matches; skipped: 1 binary]\n"
	for _, test := range []struct {
		args args
		want string
	}{
		{args{"pattern": "^bet.$"}, "a.txt:2:beta\na.txt:4:beta\n" + fmt.Sprintf(skipped, 2)},
		{args{"pattern": "beta", "include": "*.go"}, "sub/b.go:1:func beta() {}\n"},
		{args{"pattern": "alpha", "ignore_case": true, "path": "a.txt"}, "a.txt:1:Alpha\n"},
		{args{"pattern": "(x", "fixed": true, "path": "a.txt"}, "a.txt:3:gamma (x)\n"},
		{args{"pattern": "beta", "path": ".", "include": ".hid*", "hidden": true}, ".hidden:1:beta\n"},
		{args{"pattern": "gamma", "path": "a.txt", "context": 1}, "a.txt-2-beta\na.txt:3:gamma (x)\na.txt-4-beta\n"},
		{args{"pattern": "A|m.a", "path": "a.txt", "context": 0}, "a.txt:1:Alpha\na.txt:3:gamma (x)\n"},
		{args{"pattern": "--", "include": "*.txt"}, "No line matches."},
	} {
		if diff := cmp.Diff(test.want, b.ok("grep", test.args)); diff != "" {
			t.Errorf("grep %v (-want +got):\n%s", test.args, diff)
		}
	}
	if got := b.ok("grep", args{"pattern": "needle"}); len(got) > 700 || !strings.Contains(got, "…x") || !strings.Contains(got, "needle") {
		t.Errorf("a long line: %d bytes", len(got))
	}
	if got := b.ok("grep", args{"pattern": "hit", "limit": 3}); strings.Count(got, "hit") != 3 || !strings.Contains(got, "stopped after 3 matches") {
		t.Errorf("limit 3: %s", got)
	}
	if got := b.ok("grep", args{"pattern": "hit", "limit": 10000}); len(got) > 49_000 || !strings.Contains(got, "stopped after") {
		t.Errorf("%d bytes, want a notice and fewer", len(got))
	}
	b.fails("grep", args{"pattern": "(x"}, 2, "is no regular expression", "fixed=true")
	b.fails("grep", args{"pattern": ""}, 2, "pattern is missing or empty")
	b.fails("grep", args{"pattern": "x", "path": "none"}, 1, "none: No such file or directory")
	b.fails("grep", args{"pattern": "x", "path": "fifo"}, 1, "fifo is a FIFO")
}
