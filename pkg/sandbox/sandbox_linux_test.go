package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	os.Exit(m.Run())
}

// ladder is one with a single rung.
func ladder(t *testing.T, rung string) *Ladder {
	t.Helper()
	l := &Ladder{Helper: []string{"/proc/self/exe", helperFlag}, Only: []string{rung}}
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
	p := Place{Dir: root + "/work", Home: root + "/home", Ladder: l, Environ: []string{"PATH=" + os.Getenv("PATH")}}
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

func TestSmoke(t *testing.T) {
	l := &Ladder{Helper: []string{"/proc/self/exe", helperFlag}}
	t.Log("\n" + l.String())
	onEach(t, func(t *testing.T, l *Ladder) {
		b := box(t, l, Config{Workspace: true})
		r := run(t, b, `id -u; cat ~/x; ls -la $HOME; ps ax | head; echo hi > f; cat f; echo x > ../home/notes/a; cat `+b.place.Home+`/.ssh/id; cat ../home/notes/a; echo $TMPDIR; echo y > $TMPDIR/z; cat $TMPDIR/z; exit 7`)
		t.Logf("%s: %s", b.Summary(), b)
		t.Logf("out %s\nerr %s\n%v %v", r.out, r.err, r.exit, r.fail)
		t.Log(strings.Join(b.Refused(r.err), "\n"))
	}, Namespaces, Bubblewrap, Landlock, Limits)
}

func BenchmarkCall(b *testing.B) {
	for _, rung := range []string{"", "helper", "bare", Namespaces, Bubblewrap, Landlock} {
		name := rung
		if rung == "" {
			name = "none"
		}
		b.Run(name, func(b *testing.B) {
			l := &Ladder{Helper: []string{"/proc/self/exe", helperFlag}, Only: []string{rung}}
			dir := b.TempDir()
			c := &process.Command{Path: "/bin/true", Dir: dir}
			if rung == "bare" {
				l.Only = []string{Namespaces}
				c.Sandbox = New(Place{Dir: dir, Home: "/nonexistent", Ladder: l}, Config{Write: []string{"."}})
			} else if rung == "helper" {
				l.Only = []string{Limits}
				c.Sandbox = New(Place{Dir: dir, Home: "/nonexistent", Ladder: l}, Config{OpenFiles: 100})
			} else if rung != "" {
				c.Sandbox = New(Place{Dir: dir, Home: "/root", Ladder: l}, Config{Workspace: true})
			}
			for b.Loop() {
				if e, err := process.Run(b.Context(), c); err != nil || e.Code != 0 {
					b.Fatal(e, err)
				}
			}
		})
	}
}
