package session

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// A lockList is what the kernel tells about locks: the process by the file's
// inode.
type lockList map[uint64]int

// holders reads /proc/locks, whose lines look like
//
//	1: FLOCK  ADVISORY  WRITE 1234 fe:00:56789 0 EOF
//
// The device is not compared: some file systems show another one there.
func holders() lockList {
	b, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil
	}
	list := lockList{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || f[3] != "WRITE" {
			continue
		}
		pid, err := strconv.Atoi(f[4])
		inode, inodeErr := strconv.ParseUint(f[5][strings.LastIndexByte(f[5], ':')+1:], 10, 64)
		if err == nil && inodeErr == nil && pid > 0 {
			list[inode] = pid
		}
	}
	return list
}

// of is the process that holds the lock of a file, 0 if it is not known.
func (l lockList) of(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return l[st.Ino]
	}
	return 0
}

// gone reports whether the process that made a lock has come to its end. A lock
// that is not listed any more has been given up meanwhile.
func gone(pid int) bool {
	if pid == 0 {
		return true
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat") // 1 (name) S …
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	rest := b[bytes.LastIndexByte(b, ')')+1:]
	return bytes.HasPrefix(rest, []byte(" Z")) || bytes.HasPrefix(rest, []byte(" X"))
}
