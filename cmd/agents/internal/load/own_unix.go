//go:build linux || darwin

package load

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// private returns when a file or folder was last changed in any way, zero if it is not there. It
// is an error if another user can change it. Group-writable is private if the group has the number of the user, as
// where each user has a group.
func private(path string, file bool) (changed time.Time, err error) {
	var s unix.Stat_t
	if err := unix.Lstat(path, &s); err != nil {
		return time.Time{}, err
	}
	kind := uint32(unix.S_IFDIR)
	if file {
		kind = unix.S_IFREG
	}
	mode := uint32(s.Mode)
	switch {
	case mode&unix.S_IFMT != kind:
		err = errors.New("it is a link, or of another kind")
	case s.Uid != uint32(os.Geteuid()), mode&0o002 != 0, mode&0o020 != 0 && s.Gid != s.Uid:
		err = errors.New("another user can write it")
	}
	return time.Unix(s.Ctim.Unix()), err
}
