package load

import "golang.org/x/sys/unix"

// local reports whether the system of this process sets the times of the files in dir.
func local(dir string) bool {
	var s unix.Statfs_t
	return unix.Statfs(dir, &s) == nil && s.Flags&unix.MNT_LOCAL != 0
}
