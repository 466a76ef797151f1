package session

import (
	"bytes"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// A lockList has the process that holds the lock of a file, by the file's inode.
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

// startOf returns when a process was started, in clock ticks since boot, see
// proc_pid_stat(5). It is 0 if the process has ended.
func startOf(pid int) uint64 {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat") // 1 (name) S …
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return 0
	}
	n, _ := strconv.ParseUint(f[19], 10, 64)
	return n
}

// ended reports whether the process that made a lock has ended. A lock that is no
// longer listed has been released.
func ended(pid int) bool { return pid == 0 || startOf(pid) == 0 }
