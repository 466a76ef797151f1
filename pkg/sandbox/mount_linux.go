package sandbox

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// mounts is what a mount namespace changes.
type mounts struct {
	// ReadOnly makes everything but Write read-only.
	ReadOnly bool     `json:"readOnly,omitempty"`
	Write    []string `json:"write,omitempty"`
	// Protect are files, folders and links in Write that stay read-only. Pin are folders
	// that cannot be renamed, because one of them is inside.
	Protect []string `json:"protect,omitempty"`
	Pin     []string `json:"pin,omitempty"`
	// Hide are files and folders that become empty.
	Hide []string `json:"hide,omitempty"`
}

// mount changes what is mounted. What is to differ from the rest is copied first, then the
// rest becomes read-only, then the copies go on top, folders before what is in them. A
// mount point can be neither renamed nor removed.
func (m *mounts) mount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	paths := slices.Concat(m.Write, m.Pin, m.Protect)
	slices.Sort(paths)
	paths = slices.Compact(paths)
	copies := make([]int, len(paths))
	for i, path := range paths {
		tree, err := copyTree(path, slices.Contains(m.Protect, path))
		if err != nil {
			return fmt.Errorf("mount %s: %w", path, err)
		}
		copies[i] = tree
	}
	if m.ReadOnly {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &attr); err != nil {
			return fmt.Errorf("mount everything read-only: %w", err)
		}
	}
	for i, tree := range copies {
		if tree < 0 {
			continue
		}
		if err := cover(tree, paths[i]); err != nil {
			return err
		}
		unix.Close(tree)
	}
	if err := m.hide(); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// copyTree copies what is mounted at path and below it. It is -1 if there is nothing, or
// a link that is not to be protected.
func copyTree(path string, readOnly bool) (tree int, err error) {
	fd, err := openPath(path)
	if err != nil {
		return -1, nil // it does not exist, or a folder above it became a link
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK && !readOnly {
		return -1, nil
	}
	tree, err = unix.OpenTree(fd, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil || !readOnly {
		return tree, err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	return tree, unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr)
}

// cover mounts a tree on path, which has no link in it.
func cover(tree int, path string) error {
	fd, err := openPath(path)
	if err == nil {
		err = unix.MoveMount(tree, "", fd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
		unix.Close(fd)
	}
	if err != nil {
		return fmt.Errorf("mount %s: %w", path, err)
	}
	return nil
}

// hide puts an empty folder on folders, and /dev/null on all else.
func (m *mounts) hide() error {
	for _, path := range m.Hide {
		fd, err := openPath(path)
		if err != nil {
			continue // it does not exist any more
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		target := fmt.Sprintf("/proc/self/fd/%d", fd)
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			err = unix.Mount("tmpfs", target, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "size=4096,mode=000")
		} else if err == nil {
			err = unix.Mount(os.DevNull, target, "", unix.MS_BIND, "")
		}
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	return nil
}

// tempSize limits a private folder for temporary files that is in memory.
const tempSize = 1 << 30

// mountTemp mounts the private folder, and another one for shared memory.
func mountTemp(temp string) error {
	if temp == "" {
		return nil
	}
	for _, path := range []string{temp, "/dev/shm"} {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,mode=700", tempSize)); err != nil {
			return fmt.Errorf("mount %s: %w", path, err)
		}
	}
	return nil
}
