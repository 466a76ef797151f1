package sandbox

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/process"
)

// helperFlag makes the test binary a helper.
const helperFlag = "--sandbox-helper"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == helperFlag {
		os.Exit(Helper(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == clientFlag {
		os.Exit(client(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == attackFlag {
		os.Exit(attack(os.Args[2], os.Args[3:]))
	}
	code := m.Run()
	if cache, err := ladders(); err == nil {
		os.RemoveAll(cache)
	}
	os.Exit(code)
}

// ladders is the folder in which the tests of this process keep what they find out.
var ladders = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "agents-ladders-") })

// ladder is one with a single rung.
func ladder(t *testing.T, rung string) *Ladder {
	t.Helper()
	cache, err := ladders()
	if err != nil {
		t.Fatal(err)
	}
	l := &Ladder{Helper: []string{"/proc/self/exe", helperFlag}, Only: []string{rung}, CacheDir: cache}
	t.Cleanup(l.Close)
	if got := l.Rung(); got != rung {
		t.Skipf("this machine has no %s:\n%s", rung, l)
	}
	return l
}

// A result is what a script printed and how it ended.
type result struct {
	out, err string
	exit     process.Exit
	fail     error
}

// run runs a shell script in a sandbox.
func run(t *testing.T, b *Box, script string) result {
	t.Helper()
	var out, errs bytes.Buffer
	e, err := process.Run(t.Context(), &process.Command{
		Path: "/bin/sh", Args: []string{"-c", script}, Dir: b.place.Dir, Env: b.place.Environ,
		Stdout: &out, Stderr: &errs, Sandbox: b, Mark: t.Name(),
	})
	return result{out.String(), errs.String(), e, err}
}

// box makes a sandbox for a fresh working directory and home folder.
func box(t *testing.T, l *Ladder, c Config) *Box {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := Place{Dir: root + "/work", Home: root + "/home", Ladder: l, // The race detector sleeps a second at the end of every process.
		Environ: []string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}}
	for _, dir := range []string{p.Dir, p.Home + "/.ssh", p.Home + "/notes"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{".ssh/id": "the key", "notes/a": "a note", ".netrc": "a password"} {
		if err := os.WriteFile(filepath.Join(p.Home, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return New(p, c)
}

// onEach runs a test on each rung.
func onEach(t *testing.T, f func(t *testing.T, l *Ladder), rungs ...string) {
	for _, rung := range rungs {
		t.Run(rung, func(t *testing.T) { f(t, ladder(t, rung)) })
	}
}

// TestAFailureIsRememberedForMinutes: a start in a bad moment does not weaken the later ones.
func TestAFailureIsRememberedForMinutes(t *testing.T) {
	ladder(t, Namespaces) // or skip
	cache, helper := t.TempDir(), filepath.Join(t.TempDir(), "helper")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	rung := func(script string) string {
		t.Helper()
		if err := os.WriteFile(helper, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		l := &Ladder{Helper: []string{helper, helperFlag}, CacheDir: cache}
		defer l.Close()
		return l.Rung()
	}
	const broken = "exit 1"
	healthy := "exec " + exe + ` "$@"`
	if got := rung(broken); got == Namespaces {
		t.Fatalf("with a broken helper: %s", got)
	}
	if got := rung(healthy); got == Namespaces {
		t.Errorf("a moment after a failure: %s, want it to be remembered", got)
	}
	files, _ := filepath.Glob(cache + "/*")
	for _, file := range files {
		then := time.Now().Add(-failureAge - time.Second)
		if err := os.Chtimes(file, then, then); err != nil {
			t.Fatal(err)
		}
	}
	if got := rung(healthy); got != Namespaces || len(files) == 0 {
		t.Errorf("minutes after a failure: %s (%d files), want %s", got, len(files), Namespaces)
	}
	if got := rung(broken); got != Namespaces {
		t.Errorf("after a success: %s, want it to be remembered", got)
	}
	t.Setenv("TMPDIR", t.TempDir())
	if got := rung(broken); got == Namespaces {
		t.Errorf("with another folder for temporary files: %s, want it to be tried", got)
	}
}

// TestLadderOfThisMachine shows in the log what each rung enforces here.
func TestLadderOfThisMachine(t *testing.T) {
	l := &Ladder{Helper: []string{"/proc/self/exe", helperFlag}}
	t.Log("\n" + l.String())
	all := Config{Workspace: true, Environment: []string{}, Memory: 1 << 30, FileSize: 1 << 20, CPUSeconds: 9, Processes: 99, OpenFiles: 99}
	for _, rung := range rungs {
		b := box(t, l, all)
		for _, e := range b.enforcedBy(rung) {
			by := e.By
			by = cmp.Or(by, "nothing")
			t.Logf("%-10s  %-11s  by %s", rung, e.What, by)
		}
	}
}

// BenchmarkCall is what a sandbox costs a call.
func BenchmarkCall(b *testing.B) {
	for _, rung := range []string{"none", Namespaces, Bubblewrap, Landlock} {
		b.Run(rung, func(b *testing.B) {
			dir := b.TempDir()
			c := &process.Command{Path: "/bin/true", Dir: dir}
			if rung != "none" {
				l := &Ladder{Helper: []string{"/proc/self/exe", helperFlag}, Only: []string{rung}}
				defer l.Close()
				c.Sandbox = New(Place{Dir: dir, Home: "/nonexistent", Ladder: l}, Config{Workspace: true})
			}
			call := func() {
				if e, err := process.Run(b.Context(), c); err != nil || e.Code != 0 {
					b.Fatal(e, err)
				}
			}
			call() // finds out what this machine has
			for b.Loop() {
				call()
			}
		})
	}
}
