package session

import (
	"errors"
	"os"
	"syscall"
)

// syncData waits until what was written to f, and its size, are on the disk. A
// call that a signal interrupted did nothing, and no error is lost by repeating it.
func syncData(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = conn.Control(func(fd uintptr) {
		for {
			if syncErr = syscall.Fdatasync(int(fd)); !errors.Is(syncErr, syscall.EINTR) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if syncErr != nil {
		return &os.PathError{Op: "sync", Path: f.Name(), Err: syncErr}
	}
	return nil
}

func syncFolder(f *os.File) error { return f.Sync() }
