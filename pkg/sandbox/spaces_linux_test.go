package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/agents-exe/agents/pkg/process"
)

// only is the one namespaces of a ladder.
func only(t *testing.T, l *Ladder) *spaces {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.spaces) != 1 {
		t.Fatalf("there are %d namespaces, want 1", len(l.spaces))
	}
	for _, s := range l.spaces {
		return s
	}
	return nil
}

// TestCallsShareNamespaces: what a call costs most is done once.
func TestCallsShareNamespaces(t *testing.T) {
	l := ladder(t, Namespaces)
	b := box(t, l, Config{Workspace: true})
	run(t, b, "true")
	first := only(t, l)
	run(t, b, "true")
	if second := only(t, l); second != first || second.calls != 0 {
		t.Errorf("the second call has namespaces of its own, or %d calls are there", second.calls)
	}
	l.Close()
	if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", first.init)); err == nil {
		t.Error("the namespaces are there after Close")
	}
	if r := run(t, b, "echo again"); r.out != "again\n" {
		t.Errorf("after Close: %+v", r)
	}
}

// TestEscapedProcessesEnd: what leaves its session and drops every mark ends with its
// call, or with the last that is there.
func TestEscapedProcessesEnd(t *testing.T) {
	b := box(t, ladder(t, Namespaces), Config{Workspace: true})
	for i, script := range []string{
		"setsid sleep %d </dev/null >/dev/null 2>&1 & sleep 0.1",
		"setsid env -i sleep %d </dev/null >/dev/null 2>&1 & sleep 0.1",
		self(t, "hide") + "%d",
	} {
		seconds := 40000 + 10*os.Getpid()%10000 + i
		r := run(t, b, fmt.Sprintf(script, seconds))
		if r.fail != nil || r.exit.Code != 0 {
			t.Fatalf("%s: %+v", script, r)
		}
		if pid := running(t, "sleep\x00"+strconv.Itoa(seconds)); pid != 0 {
			t.Errorf("%s: process %d is alive after the call", script, pid)
		}
	}
}

// running returns the process with a command line, 0 if there is none.
func running(t *testing.T, line string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if text, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && strings.Contains(string(text), line) {
			pid, _ := strconv.Atoi(e.Name())
			return pid
		}
	}
	return 0
}

// TestCallsAreApart: calls in the same namespaces do not reach each other.
func TestCallsAreApart(t *testing.T) {
	l := ladder(t, Namespaces)
	b := box(t, l, Config{Workspace: true})
	var other sync.WaitGroup
	defer other.Wait()
	other.Go(func() {
		run(t, b, "echo secret >$TMPDIR/file; echo $$ $TMPDIR >pid.new; mv pid.new pid; until [ -e over ]; do sleep 0.01; done")
	})
	defer os.WriteFile(b.place.Dir+"/over", nil, 0o600)
	r := run(t, b, `until [ -e pid ]; do sleep 0.01; done; read pid temp <pid
		[ -d /proc/$pid ] || echo there is no $pid
		cat $temp/file /proc/$pid/environ /proc/$pid/root/$temp/file; kill $pid && echo killed; kill 1 && echo ended; true`)
	if l.landlock < 6 {
		r.out = strings.ReplaceAll(r.out, "killed\n", "")
	}
	if r.out != "" || r.fail != nil {
		t.Errorf("a call reached another: %+v", r)
	}
}

// TestReplacedFiles: a secret that is replaced stays hidden, and a folder that is made
// again can be written.
func TestReplacedFiles(t *testing.T) {
	b := box(t, ladder(t, Namespaces), Config{Read: []string{"/"}, Write: []string{"out"}})
	keys, out := b.place.Home+"/.netrc", b.place.Dir+"/out"
	for range 2 {
		if err := os.WriteFile(keys+".new", []byte("a password"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(keys+".new", keys); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(out, 0o755); err != nil {
			t.Fatal(err)
		}
		if r := run(t, b, "cat "+keys+"; echo x >out/file && cat out/file"); r.out != "x\n" {
			t.Errorf("printed %q (%s), want only what it wrote", r.out, r.err)
		}
	}
}

// TestRelativeFolder: a working directory is that of this process.
func TestRelativeFolder(t *testing.T) {
	b := box(t, ladder(t, Namespaces), Config{Workspace: true})
	t.Chdir(filepath.Dir(b.place.Dir))
	for _, dir := range []string{"", "work"} {
		want, err := filepath.Abs(dir)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if _, err := process.Run(t.Context(), &process.Command{Path: "/bin/pwd", Dir: dir, Stdout: &out, Sandbox: b}); err != nil || out.String() != want+"\n" {
			t.Errorf("in %q: %q, %v; want %s", dir, &out, err, want)
		}
	}
}

// TestKilledHelper: the next call starts another.
func TestKilledHelper(t *testing.T) {
	l := ladder(t, Namespaces)
	b := box(t, l, Config{Workspace: true})
	run(t, b, "true")
	s := only(t, l)
	if err := syscall.Kill(s.helper.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.helper.Done()
	if r := run(t, b, "echo fine"); r.out != "fine\n" {
		t.Errorf("after its helper was killed: %+v", r)
	}
}
