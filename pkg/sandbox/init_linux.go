package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// mapIDs gives a new user namespace the one user and group that it can have without
// privileges, under their own numbers.
func mapIDs(user, group int) error {
	for _, m := range []struct{ file, text string }{
		{"setgroups", "deny"},
		{"uid_map", fmt.Sprintf("%d %d 1", user, user)},
		{"gid_map", fmt.Sprintf("%d %d 1", group, group)},
	} {
		if err := os.WriteFile("/proc/self/"+m.file, []byte(m.text), 0); err != nil {
			return fmt.Errorf("user namespace: %w", err)
		}
	}
	return nil
}

// ambient are the capabilities in its namespaces that a helper needs to enter a sandbox.
var ambient = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETUID, unix.CAP_SETGID,
	unix.CAP_SETPCAP, unix.CAP_SYS_PTRACE, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH,
	unix.CAP_CHOWN, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_NET_BIND_SERVICE} // for what root executes

// ofRoot are the capabilities that root keeps in a sandbox: those that concern its files.
var ofRoot = map[int]bool{unix.CAP_CHOWN: true, unix.CAP_DAC_OVERRIDE: true, unix.CAP_FOWNER: true, unix.CAP_FSETID: true,
	unix.CAP_SETUID: true, unix.CAP_SETGID: true, unix.CAP_KILL: true, unix.CAP_NET_BIND_SERVICE: true}

// dropCapabilities takes from what this thread executes all capabilities, or from root all
// but a few.
func dropCapabilities(root bool) error {
	for c := 0; c <= unix.CAP_LAST_CAP+8; c++ {
		if root && ofRoot[c] {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && err != unix.EINVAL && err != unix.EPERM {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	// What is inheritable comes back to root, whatever the bounding set says.
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	if err == nil {
		data[0].Inheritable, data[1].Inheritable = 0, 0
		err = unix.Capset(&header, &data[0])
	}
	if err == nil {
		err = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	}
	if err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// ignoreSignals keeps the signals that end a process from this one: they are for the
// program, which is in the same process group. It reports whether there was one.
func ignoreSignals() *atomic.Bool {
	var terminated atomic.Bool
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM)
	go func() {
		for s := range c {
			if s == unix.SIGTERM {
				terminated.Store(true)
			}
		}
	}()
	return &terminated
}

// A pipeID identifies a pipe.
type pipeID struct{ dev, inode uint64 }

// standardOutputs are the pipes that are stdout and stderr.
func standardOutputs() map[pipeID]bool {
	ids := map[pipeID]bool{}
	for _, fd := range []int{1, 2} {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil {
			ids[pipeID{st.Dev, st.Ino}] = true
		}
	}
	return ids
}

// replaceStdio closes the standard descriptors of this process, so that their ends are
// those of the program.
func replaceStdio() error {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	for fd := range 3 {
		if err := unix.Dup3(null, fd, 0); err != nil {
			return fmt.Errorf("close stdio: %w", err)
		}
	}
	return nil
}

// awaitRest waits for processes that the program left, as package process does: those that
// hold its output have the time limit to end, those of its process group, if it was asked
// to end, the time until they are killed. It returns how many are left then.
func awaitRest(outputs map[pipeID]bool, limit time.Duration, terminated *atomic.Bool) (left int) {
	const pause = 2 * time.Millisecond
	for end := time.Now().Add(limit); ; time.Sleep(pause) {
		for reaped := true; reaped; { // zombies do not count
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if errors.Is(err, unix.ECHILD) {
				return 0
			}
			reaped = pid > 0
		}
		pids := others()
		holding := false
		for _, pid := range pids {
			group, err := unix.Getpgid(pid)
			if terminated.Load() && err == nil && group == unix.Getpgrp() ||
				time.Now().Before(end) && holds(pid, outputs) {
				holding = true
			}
		}
		if !holding {
			return len(pids)
		}
	}
}

// others are the processes of this PID namespace but this one.
func others() (pids []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// holds reports whether a process has one of the pipes open.
func holds(pid int, outputs map[pipeID]bool) bool {
	links, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	for _, link := range links {
		var st unix.Stat_t
		if unix.Stat(link, &st) == nil && outputs[pipeID{st.Dev, st.Ino}] {
			return true
		}
	}
	return false
}
