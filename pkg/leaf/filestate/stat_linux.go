package filestate

import (
	"io/fs"
	"syscall"
)

// openFlags keep an open from blocking on a FIFO, and from following a link.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

func statOf(info fs.FileInfo) stat {
	s := stat{size: info.Size(), mtime: info.ModTime().UnixNano(), mode: info.Mode()}
	s.ctime = s.mtime
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.ctime, s.inode = sys.Ctim.Nano(), sys.Ino
	}
	return s
}
