package process

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownLimit is the limit that this process was started with: by an outer process of
// this kind, for the call that it answers, or none.
var ownLimit = sync.OnceValues(func() (limit unix.Rlimit, err error) {
	err = unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &limit)
	return limit, err
})

// forkWithCode calls fork while this process has the limit that is c, which the
// child inherits. Nothing else may be started meanwhile. Where the system does not
// allow the limit, the environment alone carries the mark.
func forkWithCode(c code, fork func() (int, error)) (int, error) {
	own, err := ownLimit()
	if c == 0 || err != nil {
		return fork()
	}
	limit := unix.Rlimit{Cur: uint64(c), Max: own.Max}
	if unix.Prlimit(0, unix.RLIMIT_RTTIME, &limit, nil) == nil {
		defer unix.Prlimit(0, unix.RLIMIT_RTTIME, &own, nil)
	}
	return fork()
}

// limitCode returns the code that the limit of a process carries. What it has in
// common with this process does not count as a mark.
func limitCode(pid int) code {
	own, err := ownLimit()
	var limit unix.Rlimit
	if err != nil || unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &limit) != nil || limit.Cur>>62 != 1 || limit.Cur == own.Cur {
		return 0
	}
	return code(limit.Cur)
}

// envCode returns the code of the mark in the environment that the process was
// started with. There is none if the process may not be read, has overwritten it
// or is about to end.
func envCode(pid int) code {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return 0
	}
	for kv := range bytes.SplitSeq(b, []byte{0}) {
		if mark, ok := bytes.CutPrefix(kv, []byte(MarkVariable+"=")); ok {
			return markCode(string(mark))
		}
	}
	return 0
}

// hasCode reports whether the process is alive and carries the code.
func hasCode(pid int, c code) bool {
	if limitCode(pid) == c {
		st, err := readStat(pid)
		return err == nil && !st.dead
	}
	return envCode(pid) == c
}

// sessionOf returns the session of a process, 0 if there is no such process. The
// process 0 is this one.
func sessionOf(pid int) int {
	id, _, errno := syscall.RawSyscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	if errno != 0 {
		return 0
	}
	return int(id)
}
