package developer_test

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTheAccessControlListStays: without it, the group would get the rights of its mask.
func TestTheAccessControlListStays(t *testing.T) {
	b := open(t, map[string]string{"a.txt": "one\n"}, nil)
	file := filepath.Join(b.dir, "a.txt")
	// Version 2: the owner and user 12345 may read and write, nobody else may do anything.
	const attr, list = "system.posix_acl_access", "\x02\x00\x00\x00\x01\x00\x06\x00\xff\xff\xff\xff\x02\x00\x06\x00\x39\x30\x00\x00\x04\x00\x00\x00\xff\xff\xff\xff\x10\x00\x06\x00\xff\xff\xff\xff\x20\x00\x00\x00\xff\xff\xff\xff"
	if err := unix.Setxattr(file, attr, []byte(list), 0); errors.Is(err, unix.ENOTSUP) {
		t.Skip("this file system has no access control lists")
	} else if err != nil {
		t.Fatal(err)
	}
	b.call(map[string]any{"capability": "edit-text", "path": "a.txt", "old_text": "one", "new_text": "two"})
	b.has("a.txt", "two\n")
	got := make([]byte, 256)
	if n, err := unix.Getxattr(file, attr, got); err != nil || string(got[:n]) != list {
		t.Errorf("the list is %x (%v), want %x", got[:max(n, 0)], err, list)
	}
}
