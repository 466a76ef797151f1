package tools_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAChangeKeepsWhoMayReadAFile: its mode, owner, group and access control list, for each tool that
// changes files.
func TestAChangeKeepsWhoMayReadAFile(t *testing.T) {
	needs(t, "python3")
	for name, change := range map[string]func(b *box){
		"edit_file":  func(b *box) { b.ok("edit_file", args{"path": "f", "old": "one", "new": "two"}) },
		"write_file": func(b *box) { b.ok("write_file", args{"path": "f", "content": "two\n"}) },
		"patch":      func(b *box) { b.ok("patch", args{"patch": "--- f\n+++ f\n@@ -1 +1 @@\n-one\n+two\n"}) },
	} {
		for kind, prepare := range map[string]func(file string) error{
			"mode":  func(file string) error { return os.Chmod(file, 0o640) },
			"owner": func(file string) error { return errors.Join(os.Chmod(file, 0o660), os.Chown(file, 12345, 54321)) },
			"list": func(file string) error {
				// Version 2: the owner and user 12345 may read and write, nobody else may do anything.
				list := "\x02\x00\x00\x00\x01\x00\x06\x00\xff\xff\xff\xff\x02\x00\x06\x00\x39\x30\x00\x00\x04\x00\x00\x00\xff\xff\xff\xff\x10\x00\x06\x00\xff\xff\xff\xff\x20\x00\x00\x00\xff\xff\xff\xff"
				return unix.Setxattr(file, "system.posix_acl_access", []byte(list), 0)
			},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				b := newBox(t)
				b.write("f", "one\n")
				if err := prepare(b.path("f")); kind == "owner" && os.Getuid() != 0 || errors.Is(err, unix.ENOTSUP) {
					t.Skip("it cannot be set here")
				} else if err != nil {
					t.Fatal(err)
				}
				before := rightsOf(t, b.path("f"))
				change(b)
				b.has(map[string]string{"f": "two\n"})
				if got := rightsOf(t, b.path("f")); got != before {
					t.Errorf("after the change: %s\nbefore: %s", got, before)
				}
			})
		}
	}
}

func rightsOf(t *testing.T, file string) string {
	t.Helper()
	var s unix.Stat_t
	if err := unix.Stat(file, &s); err != nil {
		t.Fatal(err)
	}
	list := make([]byte, 256)
	n, err := unix.Getxattr(file, "system.posix_acl_access", list)
	return fmt.Sprintf("%o %d:%d %x %v", s.Mode, s.Uid, s.Gid, list[:max(n, 0)], err)
}
