//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package session

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock makes this the one writer of f, until f is closed. A second one is refused
// with an InUseError, in the same process as well.
func lock(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var lockErr error
	err = conn.Control(func(fd uintptr) {
		for {
			if lockErr = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(lockErr, syscall.EINTR) {
				return
			}
		}
	})
	switch {
	case err != nil:
		return err
	case errors.Is(lockErr, syscall.EWOULDBLOCK):
		inUse := &InUseError{Path: f.Name()}
		if info, err := f.Stat(); err == nil {
			inUse.PID = holders().of(info)
		}
		return inUse
	case lockErr != nil:
		return fmt.Errorf("lock %s: %w", f.Name(), lockErr)
	}
	return nil
}
