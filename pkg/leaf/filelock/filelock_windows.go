package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// A lock here keeps others from reading what it covers, so it covers one byte far
// behind the end of every file.
var place = windows.Overlapped{OffsetHigh: 1 << 30}

const noFollow = 0 // open looks for links before

func try(f *os.File) error {
	ov := place
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &ov)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}

func unlock(f *os.File) {
	ov := place
	_ = windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &ov) // closing f unlocks it too
}

// beingRemoved reports whether err can mean that another process or goroutine is removing the file.
func beingRemoved(err error) bool {
	return errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED) ||
		errors.Is(err, windows.ERROR_DELETE_PENDING)
}
