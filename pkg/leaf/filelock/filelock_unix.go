//go:build unix

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// noFollow makes open refuse a link.
const noFollow = syscall.O_NOFOLLOW

func try(f *os.File) error {
	err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

func unlock(f *os.File) { _ = flock(f, syscall.LOCK_UN) } // closing f unlocks it too

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

// beingRemoved returns false, as Unix never refuses to open a file because it is being removed.
func beingRemoved(error) bool { return false }
