//go:build unix

package developer_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestTheOwnerStays: of a file of another user, when root edits it.
func TestTheOwnerStays(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("root only can make a file of another user")
	}
	b := open(t, map[string]string{"a.txt": "one\n"}, nil)
	file := filepath.Join(b.dir, "a.txt")
	if err := os.Chown(file, 12345, 54321); err != nil {
		t.Fatal(err)
	}
	b.call(map[string]any{"capability": "edit-text", "path": "a.txt", "old_text": "one", "new_text": "two"})
	b.has("a.txt", "two\n")
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Sys().(*syscall.Stat_t); s.Uid != 12345 || s.Gid != 54321 {
		t.Errorf("the file belongs to %d:%d", s.Uid, s.Gid)
	}
}
