//go:build unix

package process

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Folders of killed processes are removed, and those in use are not, however old they are.
func TestFoldersThatWereLeftAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	old := time.Now().Add(-time.Hour)
	age := func(dir string) {
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Fatal(err)
		}
	}
	for _, prefix := range []string{"tmp-", "context-"} {
		used, err := NewTemp(prefix)
		if err != nil {
			t.Fatal(err)
		}
		parent := filepath.Dir(used.Dir)
		left, fresh := filepath.Join(parent, prefix+"left"), filepath.Join(parent, prefix+"fresh")
		for _, dir := range []string{left, fresh} {
			if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		age(left)
		age(used.Dir)
		removeLeft(parent, time.Now().Add(-sweepAge))
		for dir, want := range map[string]bool{used.Dir: true, fresh: true, left: false} {
			if _, err := os.Stat(dir); (err == nil) != want {
				t.Errorf("%s exists: %v, want %v", filepath.Base(dir), err == nil, want)
			}
		}
		if err := used.Remove(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(used.Dir); err == nil {
			t.Errorf("%s is there after Remove", used.Dir)
		}
	}
}

// Root does not use a folder that another user has created with the expected name.
func TestPrivateTempOfAnotherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a folder to another user")
	}
	t.Setenv("TMPDIR", t.TempDir())
	dir, err := PrivateTemp()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if _, err := PrivateTemp(); err == nil {
		t.Error("PrivateTemp accepts the folder of another user")
	}
	if _, err := NewTemp("tmp-"); err == nil {
		t.Error("NewTemp accepts the folder of another user")
	}
}
