package sandbox

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mounts is what a mount namespace changes.
type mounts struct {
	// ReadOnly makes everything but Write read-only.
	ReadOnly bool     `json:"readOnly,omitempty"`
	Write    []string `json:"write,omitempty"`
	// Hide are files and folders that become empty.
	Hide []string `json:"hide,omitempty"`
}

// mount changes what is mounted. What may be written is copied first, then the rest
// becomes read-only, then the copies go on top.
func (m *mounts) mount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	var copies []int
	var paths []string
	if m.ReadOnly {
		for _, path := range m.Write {
			fd, err := openPath(path)
			if err != nil {
				continue // it does not exist, or became a link
			}
			tree, err := unix.OpenTree(fd, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
			unix.Close(fd)
			if err != nil {
				return fmt.Errorf("mount %s: %w", path, err)
			}
			copies, paths = append(copies, tree), append(paths, path)
		}
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &attr); err != nil {
			return fmt.Errorf("mount everything read-only: %w", err)
		}
	}
	for i, tree := range copies {
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
