//go:build unix

package session_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/google/go-cmp/cmp"
)

// leave locks a session and ends; a child holds the lock for a moment, like one that
// was just being started when its parent was killed.
func leave(path string) int {
	f, err := os.OpenFile(filepath.Join(path, "journal.jsonl"), os.O_RDWR, 0)
	if err != nil {
		return 1
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return 1
	}
	cmd := exec.Command("sleep", "0.3")
	cmd.ExtraFiles = []*os.File{f}
	if cmd.Start() != nil {
		return 1
	}
	return 0
}

func TestALockThatOutlivesItsProcessIsWaitedFor(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells who holds a lock")
	}
	path := closedSession(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", envLeave+"="+path)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := second(path); err != nil {
		t.Errorf("Open = %v", err)
	}
}

// A file of another program can have the name of a journal.
func TestAFileOfAnotherProgramIsNotChanged(t *testing.T) {
	for _, content := range []string{"dear diary\n", `{"level":"info","msg":"started"}` + "\n", "dear diary", "\n\n"} {
		dir := t.TempDir()
		file := filepath.Join(dir, "journal.jsonl")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{dir, file} {
			for name, err := range map[string]error{"Open": second(path), "Remove": session.Remove(path)} {
				if !errors.Is(err, session.ErrNotSession) {
					t.Errorf("%s of %q: %v", name, content, err)
				}
			}
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != content {
			t.Errorf("%q became %q, %v", content, b, err)
		}
	}
}

// A session from elsewhere may hold links.
func TestLinksInASessionsFolderLeadNowhere(t *testing.T) {
	mine := t.TempDir()
	write(t, filepath.Join(mine, "diary"), "dear diary\n")
	write(t, filepath.Join(mine, strings.Repeat("a", 64)), "looks like a blob\n")
	before := tree(t, mine)
	t.Run("journal", func(t *testing.T) {
		path := t.TempDir()
		link(t, filepath.Join(mine, "diary"), filepath.Join(path, "journal.jsonl"))
		refused(t, path)
	})
	t.Run("blobs", func(t *testing.T) {
		path := closedSession(t)
		if err := os.RemoveAll(filepath.Join(path, "blobs")); err != nil {
			t.Fatal(err)
		}
		link(t, mine, filepath.Join(path, "blobs"))
		refused(t, path)
	})
	t.Run("the folder", func(t *testing.T) {
		path := closedSession(t)
		to := filepath.Join(t.TempDir(), "link")
		link(t, path, to)
		if err := second(to); err != nil {
			t.Errorf("Open = %v", err)
		}
		before := tree(t, path)
		if err := session.Remove(to); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(before, tree(t, path)); d != "" {
			t.Error(d)
		}
		if _, err := os.Lstat(to); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the link is still there: %v", err)
		}
	})
	if d := cmp.Diff(before, tree(t, mine)); d != "" {
		t.Error(d)
	}
}

func TestRemoveLeavesWhatIsNoBlob(t *testing.T) {
	path := closedSession(t)
	mine := filepath.Join(path, "blobs", "notes.txt")
	write(t, mine, "")
	if err := session.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, path); len(got) != 1 || got["blobs/notes.txt"] != "" {
		t.Errorf("left: %v", got)
	}
}

func refused(t *testing.T, path string) {
	t.Helper()
	_, inspectErr := session.Inspect(path)
	for name, err := range map[string]error{"Open": second(path), "Remove": session.Remove(path), "Inspect": inspectErr} {
		if !errors.Is(err, session.ErrNotSession) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

// tree is what is in a folder, by path.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		found[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A file from elsewhere can say that two sessions call each other.
func TestSessionsThatCallEachOther(t *testing.T) {
	dir := t.TempDir()
	j := session.Create(dir, session.Options{})
	prompt := agent.UserText("go")
	for _, e := range []agent.Event{
		{Kind: agent.EventSession, Session: "20260101-000000-aaaaaaaaaa"},
		{Kind: agent.EventMessage, Session: "20260101-000000-aaaaaaaaaa", Message: &prompt},
		{Kind: agent.EventSession, Session: "b", Parent: "c.1.0"},
		{Kind: agent.EventSession, Session: "c", Parent: "b.1.0"},
		{Kind: agent.EventSession, Session: "d", Parent: "d.1.0"},
		{Kind: agent.EventMessage, Session: "b", Message: &prompt},
		{Kind: agent.EventMessage, Session: "c", Message: &prompt},
		{Kind: agent.EventMessage, Session: "d", Message: &prompt},
	} {
		if err := j.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	again, past, err := session.Open(j.Path(), session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if len(past.Session.Messages) != 1 || len(past.Pending) != 0 {
		t.Errorf("%d messages, nested %v", len(past.Session.Messages), past.Pending)
	}
}
