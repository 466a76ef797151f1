//go:build linux

package workspace

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestACopySharesBlocks: where the file system can share blocks, the copy of a large file takes no
// space, and a change of one of the two is not in the other.
func TestACopySharesBlocks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this needs root and loop devices")
	}
	for _, system := range []string{"xfs", "btrfs"} {
		t.Run(system, func(t *testing.T) {
			dir, image := t.TempDir(), filepath.Join(t.TempDir(), "disk")
			if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 400<<20)); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("mkfs."+system, "-q", image).CombinedOutput(); err != nil {
				t.Skipf("this needs mkfs.%s: %v: %s", system, err, out)
			}
			if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
				t.Skipf("%s cannot be mounted here: %v: %s", system, err, out)
			}
			t.Cleanup(func() { exec.Command("umount", dir).Run() })
			free := func() int {
				var s syscall.Statfs_t
				syscall.Sync()
				if err := syscall.Statfs(dir, &s); err != nil {
					t.Fatal(err)
				}
				return int(s.Bfree) * int(s.Bsize)
			}
			content := make([]byte, 32<<20)
			rand.Read(content)
			from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
			if err := errors.Join(os.Mkdir(from, 0o755), os.Mkdir(to, 0o755), os.WriteFile(filepath.Join(from, "large"), content, 0o644)); err != nil {
				t.Fatal(err)
			}
			before := free()
			if err := copyTree(from, ".", to, nil); err != nil {
				t.Fatal(err)
			}
			if used := before - free(); used > len(content)/4 {
				t.Errorf("a copy of %d bytes takes %d", len(content), used)
			}
			f, err := os.OpenFile(filepath.Join(to, "large"), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.WriteAt([]byte("changed"), 1<<20)
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(from, "large")); err != nil || !bytes.Equal(got, content) {
				t.Errorf("a change of the copy is in the original: %v", err)
			}
		})
	}
}
