//go:build unix

package cachefile

import (
	"io/fs"
	"os"
	"syscall"
)

// foreign reports whether a file belongs to somebody other than root and the user
// of this process, or has one of the permissions.
func foreign(info fs.FileInfo, permissions fs.FileMode) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return info.Mode()&permissions != 0 || ok && st.Uid != 0 && int(st.Uid) != os.Geteuid()
}
