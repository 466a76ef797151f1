package exectool

import (
	"io/fs"
	"os"
	"syscall"
	"time"
)

// identify fills in what the file system says of an executable. Without all of
// it a description cannot be kept.
func identify(real string, info fs.FileInfo) (identity, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}, false
	}
	return identity{
		real: real, dev: uint64(st.Dev), ino: st.Ino, size: st.Size,
		mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), mode: st.Mode,
	}, true
}

// age is the time since the file or its metadata changed last.
func (id identity) age() time.Duration {
	return time.Since(time.Unix(0, id.ctime))
}

// isForeign reports whether the file belongs to a user other than root and
// that of this process.
func isForeign(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid != 0 && int(st.Uid) != os.Geteuid()
}
