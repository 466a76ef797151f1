//go:build linux || darwin || freebsd

package system

import "syscall"

// disk tells how much room the file system of a folder has, in bytes.
func disk(dir string) (any, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return nil, err
	}
	return map[string]any{"path": dir, "total": s.Blocks * uint64(s.Bsize), "available": uint64(s.Bavail) * uint64(s.Bsize)}, nil
}
