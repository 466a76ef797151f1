package checkpoint

import (
	"io/fs"
	"syscall"
)

// openFlags keep a link or a pipe, put in place of a file, from being followed or waited for.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// changed returns the time of the last change of a file or its attributes, in nanoseconds, and
// its inode.
func changed(info fs.FileInfo) (ctime int64, inode uint64) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return syscall.TimespecToNsec(s.Ctim), s.Ino
	}
	return 0, 0
}
