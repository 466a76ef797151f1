//go:build !linux

package session

import (
	"os"
	"runtime"
)

// syncData waits until what was written to f is on the disk.
func syncData(f *os.File) error { return f.Sync() }

// syncFolder does nothing on Windows, where a folder cannot be synced.
func syncFolder(f *os.File) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	return f.Sync()
}
