package exectool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func openDir(t *testing.T, src Source, opts Options) *Toolset {
	t.Helper()
	if opts.Environ == nil {
		opts.Environ = os.Environ()
	}
	set, err := Open(t.Context(), []Source{src}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func names(set *Toolset) []string {
	var list []string
	for _, t := range set.List() {
		list = append(list, t.Spec().Name+" "+filepath.Base(t.Path()))
	}
	return list
}

func TestOpenFindsExecutables(t *testing.T) {
	dir := t.TempDir()
	script(t, dir+"/b.sh", describing(plain("beta"), ""))
	script(t, dir+"/a.sh", describing(plain("alpha"), ""))
	script(t, dir+"/agent.json", describing(plain("json"), ""))
	script(t, dir+"/folder/inner.sh", describing(plain("inner"), ""))
	script(t, dir+"/folder/linked.sh", describing(plain("linked"), ""))
	if err := os.WriteFile(dir+"/README.md", []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"link.sh": "folder/linked.sh", "dangling.sh": "gone.sh", "linkdir": "folder"} {
		if err := os.Symlink(target, dir+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	mkfifo(t, dir+"/fifo", 0o755)
	set := openDir(t, Source{Path: dir}, Options{})
	if diff := cmp.Diff([]string{"bash_alpha a.sh", "bash_beta b.sh", "bash_linked link.sh"}, names(set)); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if got, want := problemTexts(set, dir), "tool DIR/dangling.sh: a dangling link to gone.sh\n"; got != want {
		t.Errorf("problems =\n%s, want\n%s", got, want)
	}
	tools, err := set.Tools(t.Context())
	if err != nil || len(tools) != 3 || tools[0].Spec().Source != dir+"/a.sh" {
		t.Errorf("Tools() = %v, %v", tools, err)
	}
}

func TestOpenRelativePathsAndWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	script(t, "tools/pwd.sh", describing(plain("pwd"), "pwd"))
	for _, path := range []string{"tools", "./tools/", "tools/pwd.sh"} {
		set := openDir(t, Source{Path: path, Dir: "/"}, Options{})
		if len(set.List()) != 1 {
			t.Fatalf("%s: problems: %v", path, set.Problems())
		}
		res, err := set.List()[0].Call(t.Context(), invocation("{}"))
		if err != nil || res.Text() != "/\n" {
			t.Errorf("%s: Call = %q, %v, want /", path, res.Text(), err)
		}
	}
}

func TestFilterComesBeforeExecution(t *testing.T) {
	dir := t.TempDir()
	script(t, dir+"/git-log.sh", describing(plain("log"), ""))
	script(t, dir+"/other.sh", "touch '"+dir+"/executed'\n"+describing(plain("other"), ""))
	set := openDir(t, Source{Path: dir, Filter: "git-"}, Options{})
	if diff := cmp.Diff([]string{"bash_log git-log.sh"}, names(set)); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(dir + "/executed"); err == nil {
		t.Error("a tool that the filter leaves out was executed")
	}
}

func TestProblemsOfTools(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"fails", "#!/bin/sh\nset -x\necho 'grep: command not found' >&2\nexit 2\n",
			"describe DIR/t: exit status 2: grep: command not found"},
		{"fails silently", "#!/bin/sh\nexit 3\n", "describe DIR/t: exit status 3"},
		{"many lines", "#!/bin/sh\nseq 1 10000 >&2\nexit 1\n", "describe DIR/t: exit status 1: 10000"},
		{"forged lines", "#!/bin/sh\nprintf 'x\\nleft out: good\\rerror: bad\\n\\n \\n' >&2\nexit 1\n", "describe DIR/t: exit status 1: error: bad"},
		{"signal", "#!/bin/sh\nkill -SEGV $$\n", "describe DIR/t: signal: segmentation fault"},
		{"garbage", "#!/bin/sh\necho hello\n", `describe DIR/t: a JSON object is expected, not "hello"`},
		{"nothing", "#!/bin/sh\n", `describe DIR/t: a JSON object is expected, and there is nothing`},
		{"garbage behind", "#!/bin/sh\necho '" + plain("x") + "'\necho ready\n", `describe DIR/t: not valid JSON: there is text behind the JSON value near "\"does x\",\"args\":[]}\nready"`},
		{"no field", "#!/bin/sh\necho '{\"slug\":\"x\"}'\n", `describe DIR/t: the field "description" is missing`},
		{"endless", "#!/bin/sh\nexec yes\n", `describe DIR/t: it prints more than 1048576 bytes`},
		{"reads stdin", "#!/bin/sh\ncat\n", `describe DIR/t: a JSON object is expected, and there is nothing`},
		{"no interpreter line", "echo\n", `describe DIR/t: cannot start: exec format error: the file has no #! line`},
		{"no interpreter", "#!/no/such/sh\n", `describe DIR/t: cannot start: no such file or directory: the interpreter of its #! line, /no/such/sh, does not exist`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(dir+"/t", []byte(tt.body), 0o755); err != nil {
				t.Fatal(err)
			}
			script(t, dir+"/good.sh", describing(plain("good"), ""))
			set := openDir(t, Source{Path: dir}, Options{})
			if got := problemTexts(set, dir); got != tt.want+"\n" {
				t.Errorf("problems =\n%s, want\n%s", got, tt.want)
			}
			if diff := cmp.Diff([]string{"bash_good good.sh"}, names(set)); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			if p := set.Problems()[0].Path; p != dir+"/t" {
				t.Errorf("Path = %s, want %s/t", p, dir)
			}
		})
	}
}

func TestDescribeHasATimeLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script(t, dir+"/slow.sh", "echo thinking >&2\nsleep 1000 & sleep 1000\n")
	// The tool needs time to say something: on a busy machine more.
	for limit := 200 * time.Millisecond; ; limit *= 4 {
		set := openDir(t, Source{Path: dir}, Options{DescribeTimeout: limit, Grace: 100 * time.Millisecond})
		got, want := problemTexts(set, dir), "describe DIR/slow.sh: timed out after "+seconds(limit)
		if got == want+": thinking\n" {
			return
		}
		if got != want+"\n" || limit > time.Minute {
			t.Fatalf("problems = %q, want %q", got, want+": thinking\n")
		}
	}
}

func TestSlowDescriptionsAreReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script(t, dir+"/slow.sh", "while [ ! -e '"+dir+"/reported' ]; do sleep 0.05; done\n"+describing(plain("slow"), ""))
	var slow []string
	set := openDir(t, Source{Path: dir}, Options{Slow: func(path string) {
		slow = append(slow, strings.TrimPrefix(path, dir+"/"))
		if err := os.WriteFile(dir+"/reported", nil, 0o600); err != nil {
			t.Error(err)
		}
	}})
	if len(set.List()) != 1 || len(slow) != 1 || slow[0] != "slow.sh" {
		t.Errorf("slow = %q, problems = %s", slow, problemTexts(set, dir))
	}
}

func TestProgramsThatAreNotExecutableAreNamed(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"forgotten.py": "#!/usr/bin/env python3\n", "forgotten": "\x7fELF\x02", "README.md": "# Tools\n", "go.sum": "", "helper.py": "import os\n",
		"x.json": "#!", "package-lock.json": "{}",
	} {
		if err := os.WriteFile(dir+"/"+name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	set := openDir(t, Source{Path: dir}, Options{})
	want := "tool DIR/forgotten: not executable; chmod +x makes it a tool\ntool DIR/forgotten.py: not executable; chmod +x makes it a tool\n"
	if got := problemTexts(set, dir); got != want {
		t.Errorf("problems =\n%s, want\n%s", got, want)
	}
}

func TestNoiseOnStderrIsNoError(t *testing.T) {
	dir := t.TempDir()
	script(t, dir+"/t.sh", "set -x\n"+describing(plain("noisy"), ""))
	set := openDir(t, Source{Path: dir}, Options{})
	if diff := cmp.Diff([]string{"bash_noisy t.sh"}, names(set)); diff != "" {
		t.Errorf("tools (-want +got):\n%s%s", diff, problemTexts(set, dir))
	}
}

func TestProblemsOfSources(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/text", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	mkfifo(t, dir+"/fifo", 0o755)
	if err := os.Symlink("gone", dir+"/dangling"); err != nil {
		t.Fatal(err)
	}
	var sources []Source
	for _, name := range []string{"text", "missing", "fifo", "dangling"} {
		sources = append(sources, Source{Path: dir + "/" + name})
	}
	set, err := Open(t.Context(), sources, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := "read tools: stat DIR/dangling: no such file or directory\n" +
		"tool DIR/fifo: it is not a regular file (p---------)\n" +
		"read tools: stat DIR/missing: no such file or directory\n" +
		"tool DIR/text: it is not executable (chmod +x)\n"
	if got := problemTexts(set, dir); got != want {
		t.Errorf("problems =\n%s, want\n%s", got, want)
	}
	if !errors.Is(set.Problems()[2].Err, os.ErrNotExist) {
		t.Errorf("%v is not os.ErrNotExist", set.Problems()[2].Err)
	}
}

func TestCollisionsNameBothSources(t *testing.T) {
	dir := t.TempDir()
	script(t, dir+"/one/a.sh", describing(plain("same"), ""))
	script(t, dir+"/two/b.sh", describing(plain("same"), ""))
	script(t, dir+"/two/c.sh", describing(plain("other"), ""))
	set, err := Open(t.Context(), []Source{{Path: dir + "/one"}, {Path: dir + "/two"}, {Path: dir + "/one/a.sh"}}, Options{Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"bash_other c.sh"}, names(set)); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	want := "tool DIR/one/a.sh: two tools have one name, bash_same, and are left out: this one and DIR/two/b.sh\n" +
		"tool DIR/two/b.sh: two tools have one name, bash_same, and are left out: this one and DIR/one/a.sh\n"
	if got := problemTexts(set, dir); got != want {
		t.Errorf("problems =\n%s, want\n%s", got, want)
	}
	if p := set.Problems()[0]; !errors.Is(p.Err, ErrCollision) {
		t.Errorf("%v is not ErrCollision", p.Err)
	}
}

func TestNothingThatEverybodyMayWriteIsExecuted(t *testing.T) {
	tests := []struct {
		name  string
		build func(t *testing.T, dir string) // tools are in dir/tools
		want  string
	}{
		{"file", func(t *testing.T, dir string) {
			chmod(t, dir+"/tools/t.sh", 0o777)
		}, "tool DIR/tools/t.sh: world-writable file; it is not executed (chmod o-w)\n"},
		{"folder", func(t *testing.T, dir string) {
			chmod(t, dir+"/tools", 0o777)
		}, "tools DIR/tools: world-writable folder DIR/tools; nothing in it is executed (chmod o-w)\n"},
		{"folder with the sticky bit", func(t *testing.T, dir string) {
			chmod(t, dir+"/tools", 0o777|os.ModeSticky)
		}, ""},
		{"target of a link", func(t *testing.T, dir string) {
			rename(t, dir+"/tools/t.sh", dir+"/elsewhere/t.sh")
			chmod(t, dir+"/elsewhere/t.sh", 0o757)
			symlink(t, "../elsewhere/t.sh", dir+"/tools/t.sh")
		}, "tool DIR/tools/t.sh: world-writable file; it is not executed (chmod o-w)\n"},
		{"folder of a link's target", func(t *testing.T, dir string) {
			rename(t, dir+"/tools/t.sh", dir+"/elsewhere/t.sh")
			symlink(t, "../elsewhere/t.sh", dir+"/tools/t.sh")
			chmod(t, dir+"/elsewhere", 0o777)
		}, "tool DIR/tools/t.sh: it is a link to DIR/elsewhere/t.sh: world-writable folder DIR/elsewhere; nothing in it is executed (chmod o-w)\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			script(t, dir+"/tools/t.sh", "touch '"+dir+"/executed'\n"+describing(plain("t"), ""))
			script(t, dir+"/elsewhere/x", "")
			tt.build(t, dir)
			set := openDir(t, Source{Path: dir + "/tools"}, Options{})
			if got := problemTexts(set, dir); got != tt.want {
				t.Errorf("problems =\n%s, want\n%s", got, tt.want)
			}
			_, err := os.Stat(dir + "/executed")
			if executed := err == nil; executed != (tt.want == "") {
				t.Errorf("executed = %v", executed)
			}
			if tt.want != "" && !errors.Is(set.Problems()[0].Err, ErrWritable) {
				t.Errorf("%v is not ErrWritable", set.Problems()[0].Err)
			}
		})
	}
}

func TestForeignFileInOpenFolderIsNotExecuted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	dir := t.TempDir()
	script(t, dir+"/t.sh", describing(plain("t"), ""))
	if err := os.Chown(dir+"/t.sh", 4711, 4711); err != nil {
		t.Fatal(err)
	}
	if set := openDir(t, Source{Path: dir}, Options{}); len(set.List()) != 1 {
		t.Errorf("in a folder of our own: problems %v, want the tool", set.Problems())
	}
	chmod(t, dir, 0o777|os.ModeSticky)
	set := openDir(t, Source{Path: dir}, Options{})
	want := "tool DIR/t.sh: world-writable folder, and a file of another user; it is not executed\n"
	if got := problemTexts(set, dir); got != want {
		t.Errorf("problems = %s, want %s", got, want)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func TestOpenEndsWithContext(t *testing.T) {
	dir := t.TempDir()
	mkfifo(t, dir+"/ready", 0o600)
	script(t, dir+"/tools/t.sh", "echo > '"+dir+"/ready'\nsleep 1000\n")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		os.ReadFile(dir + "/ready") // returns when the tool has opened it
		cancel()
	}()
	_, err := Open(ctx, []Source{{Path: dir + "/tools"}}, Options{Environ: os.Environ()})
	if !errors.Is(err, context.Canceled) || err.Error() != "read tools: context canceled" {
		t.Errorf("error = %v, want read tools: context canceled", err)
	}
}

func TestToolTellsWhatItKnows(t *testing.T) {
	dir := t.TempDir()
	text := `{"slug":"x","description":"d","args":[],"extra":1,"effects":"none","locks":["l"]}`
	script(t, dir+"/tools/t.sh", describing(text, ""))
	for _, start := range []string{"cold", "warm"} {
		tool := openDir(t, Source{Path: dir + "/tools"}, Options{CacheDir: dir + "/cache"}).List()[0]
		if got := strings.TrimSpace(string(tool.Raw())); got != text {
			t.Errorf("%s: Raw() = %s, want %s", start, got, text)
		}
		if diff := cmp.Diff([]string{`unknown field "extra" is ignored`}, tool.Notes()); diff != "" {
			t.Errorf("%s: Notes (-want +got):\n%s", start, diff)
		}
		d, err := tool.Description()
		if err != nil || d.Slug != "x" {
			t.Errorf("%s: Description() = %v, %v", start, d, err)
		}
		spec := tool.Spec()
		if spec.Effects != "none" || len(spec.Locks) != 1 || spec.Source != dir+"/tools/t.sh" || spec.Description != "d" {
			t.Errorf("%s: Spec() = %+v", start, spec)
		}
	}
}
