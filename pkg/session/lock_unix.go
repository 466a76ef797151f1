//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package session

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// A lock can outlive its process for a moment: a child that was just being started
// has it until it executes its program. One whose process is not known (it may be in
// another container) is waited for as well.
const (
	lockPatience = 2 * time.Second
	lockPause    = 5 * time.Millisecond
)

// lock makes this the one writer of f, until f is closed. A second one is refused
// with an InUseError, in the same process as well.
func lock(f *os.File) error {
	for start := time.Now(); ; time.Sleep(lockPause) {
		err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		inUse := &InUseError{Path: f.Name()}
		if info, err := f.Stat(); err == nil {
			inUse.PID = holders().of(info)
		}
		if !ended(inUse.PID) {
			return inUse
		}
		if time.Since(start) > lockPatience {
			inUse.PID = 0
			return inUse
		}
	}
}

// unlock gives f free at once. Closing it would do so only when no child process
// that is just being started has it any more.
func unlock(f *os.File) { flock(f, syscall.LOCK_UN) }

func flock(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var lockErr error
	err = conn.Control(func(fd uintptr) {
		for {
			if lockErr = syscall.Flock(int(fd), how); !errors.Is(lockErr, syscall.EINTR) {
				return
			}
		}
	})
	return errors.Join(err, lockErr)
}
