package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"syscall"
)

// ReadRegular reads a regular file of at most limit bytes. A pipe or a device is not
// opened: it could block or never end. Its errors are of type *fs.PathError.
func ReadRegular(path string, limit int) ([]byte, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err == nil {
		err = checkRegular(path, info)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe by now
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if info, err = f.Stat(); err == nil {
		err = checkRegular(path, info)
	}
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(text) > limit {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is longer than %d bytes", limit)}
	}
	return text, info, err
}

func checkRegular(path string, info fs.FileInfo) error {
	kind := "device"
	switch m := info.Mode(); {
	case m.IsRegular():
		return nil
	case m.IsDir():
		kind = "folder"
	case m&fs.ModeNamedPipe != 0:
		kind = "named pipe"
	case m&fs.ModeSocket != 0:
		kind = "socket"
	}
	return &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file but a " + kind)}
}

// readSecret reads a file with secrets, which kind names. A world-writable file is
// refused; one that others can read, or its group can write, is a warning.
// Permissions mean nothing on Windows.
func readSecret(kind, path string) (text []byte, warnings []string, err error) {
	text, info, err := ReadRegular(path, maxBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", kind, err)
	}
	mode := info.Mode().Perm()
	switch {
	case runtime.GOOS == "windows":
	case mode&0o002 != 0:
		return nil, nil, fmt.Errorf("%s %s: it is world-writable (mode %04o), and is not used: chmod 600 %[2]s", kind, path, mode)
	case mode&0o020 != 0:
		warnings = []string{fmt.Sprintf("%[2]s: its group can read and write this %[1]s (mode %04[3]o); better: chmod 600 %[2]s", kind, path, mode)}
	case mode&0o044 != 0:
		warnings = []string{fmt.Sprintf("%[2]s: others can read this %[1]s (mode %04[3]o); better: chmod 600 %[2]s", kind, path, mode)}
	}
	return text, warnings, nil
}
