//go:build unix

package ask

import (
	"os"

	"golang.org/x/sys/unix"
)

// notControlling opens a terminal without making it that of this process.
const notControlling = unix.O_NOCTTY

// background reports whether a read from the terminal would stop this process.
func background(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	var group int
	var groupErr error
	if err := raw.Control(func(fd uintptr) { group, groupErr = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) }); err != nil {
		return false
	}
	return groupErr == nil && group != unix.Getpgrp()
}
