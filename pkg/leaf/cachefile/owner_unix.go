//go:build unix

package cachefile

import (
	"os"
	"syscall"
)

// foreign reports whether a file belongs to somebody other than root and the user
// of this process.
func foreign(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid != 0 && int(st.Uid) != os.Geteuid()
}
