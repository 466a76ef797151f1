package archive

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/google/go-cmp/cmp"
)

func host(t *testing.T, s store.Store) *Workspaces {
	return &Workspaces{Store: s, Dir: filepath.Join(t.TempDir(), "workspaces"), Environ: os.Environ()}
}

func prepare(t *testing.T, w *Workspaces, spec string) *Workspace {
	t.Helper()
	ws, err := w.Prepare(t.Context(), "run", spec)
	if err != nil {
		t.Fatal(err)
	}
	return ws
}

func snapshots(t *testing.T, s store.Store) int {
	t.Helper()
	events, err := s.Read(t.Context(), "run/workspace", 0)
	if err != nil {
		t.Fatal(err)
	}
	return len(events)
}

func TestAnotherHostTakesTheWorkspaceOver(t *testing.T) {
	s, dir := folderStore(t), t.TempDir()
	create(t, dir, "start=1", ".git/HEAD=ref")
	spec, err := Spec(t.Context(), s, "run", dir)
	if err != nil {
		t.Fatal(err)
	}
	one, two := host(t, s), host(t, s)
	first := prepare(t, one, spec)
	if diff := cmp.Diff(list(t, dir), list(t, first.Dir)); diff != "" {
		t.Errorf("the workspace (-want +got):\n%s", diff)
	}
	for range 2 { // the second has nothing new
		create(t, first.Dir, "work=1")
		if err := first.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := snapshots(t, s); n != 2 {
		t.Errorf("the record has %d events, want the host and a snapshot", n)
	}
	want := list(t, first.Dir)
	create(t, first.Dir, "unsaved=1")
	second := prepare(t, two, spec)
	if diff := cmp.Diff(want, list(t, second.Dir)); diff != "" {
		t.Errorf("the workspace on another host (-want +got):\n%s", diff)
	}
	if err := first.Snapshot(t.Context()); !errors.Is(err, store.ErrSuperseded) {
		t.Errorf("Snapshot on the host that was replaced = %v, want ErrSuperseded", err)
	}
	if err := os.Remove(filepath.Join(second.Dir, "start")); err != nil {
		t.Fatal(err)
	}
	if err := second.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(list(t, second.Dir), list(t, prepare(t, one, spec).Dir)); diff != "" {
		t.Errorf("the workspace back on the first host (-want +got):\n%s", diff)
	}
}

func TestTheSameHostKeepsItsFiles(t *testing.T) {
	s := folderStore(t)
	w := host(t, s)
	first := prepare(t, w, Empty)
	create(t, first.Dir, "unsaved=1")
	restarted := &Workspaces{Store: s, Dir: w.Dir}
	for _, w := range []*Workspaces{w, restarted} {
		if got := list(t, prepare(t, w, Empty).Dir); len(got) != 1 {
			t.Errorf("the workspace has %v, want what was written", got)
		}
	}
	if err := prepare(t, restarted, Empty).Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := list(t, prepare(t, host(t, s), Empty).Dir); len(got) != 1 {
		t.Errorf("the workspace on another host has %v, want what was stored", got)
	}
	if err := first.Remove(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(w.Dir); len(left) != 0 || err != nil {
		t.Errorf("Remove left %v, %v", left, err)
	}
}

// Calls of one turn run at the same time, and each is followed by a snapshot.
func TestSnapshotsAtTheSameTime(t *testing.T) {
	s := folderStore(t)
	ws := prepare(t, host(t, s), Empty)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			err := os.WriteFile(filepath.Join(ws.Dir, string(rune('a'+i))), []byte("x"), 0o600)
			if err == nil {
				err = ws.Snapshot(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := list(t, prepare(t, host(t, s), Empty).Dir); len(got) != 8 {
		t.Errorf("the snapshot has %v, want 8 files", got)
	}
}

// A host that dies between storing a snapshot and noting it restores the snapshot.
func TestSnapshotThatWasNotNoted(t *testing.T) {
	s := folderStore(t)
	w := host(t, s)
	ws := prepare(t, w, Empty)
	note, err := os.ReadFile(ws.note())
	if err != nil {
		t.Fatal(err)
	}
	create(t, ws.Dir, "work=1")
	if err := ws.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ws.note(), note, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := list(t, prepare(t, &Workspaces{Store: s, Dir: w.Dir}, Empty).Dir); len(got) != 1 {
		t.Errorf("the workspace has %v, want the snapshot", got)
	}
}

// Tools make links to places outside, as Python's virtual environments do.
func TestSnapshotLeavesOutLinksThatLeave(t *testing.T) {
	s := folderStore(t)
	ws := prepare(t, host(t, s), Empty)
	create(t, ws.Dir, "python->/usr/bin/python3", "inside->work", "work=1")
	if err := ws.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := list(t, prepare(t, host(t, s), Empty).Dir)
	if _, ok := got["python"]; ok || len(got) != 2 {
		t.Errorf("the snapshot has %v, want the file and the link inside", got)
	}
}

func TestWorkspaceFromGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	s, repository := folderStore(t), t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", repository, "-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	create(t, repository, "file=1")
	git("add", ".")
	git("commit", "-q", "-m", "one")
	commit := git("rev-parse", "HEAD")
	create(t, repository, "file=2")
	git("commit", "-q", "-a", "-m", "two")
	spec, err := Spec(t.Context(), s, "run", "git+file://"+repository+"#"+commit)
	if err != nil {
		t.Fatal(err)
	}
	ws := prepare(t, host(t, s), spec)
	if text, err := os.ReadFile(filepath.Join(ws.Dir, "file")); string(text) != "1" || err != nil {
		t.Errorf("the file is %q, %v, want that of the commit", text, err)
	}
	status, err := exec.Command("git", "-C", ws.Dir, "status", "--porcelain").CombinedOutput()
	if len(status) > 0 || err != nil {
		t.Errorf("git status in the workspace = %s, %v, want nothing", status, err)
	}
	missing := strings.Repeat("0", 40)
	w := host(t, s)
	if _, err := w.Prepare(t.Context(), "other", "git+file://"+repository+"#"+missing); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("Prepare at a commit that is missing = %v", err)
	}
	if left, err := os.ReadDir(w.Dir); len(left) != 0 || err != nil {
		t.Errorf("it left %v, %v", left, err)
	}
}

func TestSpecRefuses(t *testing.T) {
	commit := "#" + strings.Repeat("a", 40)
	for _, source := range []string{
		"git+https://user:hunter2@example.com/x" + commit, "git+https://hunter2@example.com/x" + commit,
		"git+ssh://git:hunter2@example.com/x" + commit, "git+https://example.com/x", "git+https://example.com/x#main",
		"git+https://hunter2@%zz" + commit, "git+ext::sh -c id" + commit, "git+" + commit, filepath.Join(t.TempDir(), "missing"), "",
	} {
		spec, err := Spec(t.Context(), folderStore(t), "run", source)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Spec(%q) = %s, %v", source, spec, err)
		}
	}
	w := host(t, folderStore(t))
	for _, run := range []string{"", ".", "..", "a/b"} {
		if _, err := w.Prepare(t.Context(), run, Empty); err == nil {
			t.Errorf("Prepare(%q) succeeded", run)
		}
	}
}
