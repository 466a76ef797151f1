//go:build unix && !linux

package process

import (
	"os"
	"syscall"
)

// A handle is how a program ended, once it was waited for.
type handle struct {
	status syscall.WaitStatus
	err    error
	exited chan struct{} // closed then
}

// sysProcAttr asks for a session of its own, which is a process group too.
func (h *handle) sysProcAttr() *syscall.SysProcAttr {
	h.exited = make(chan struct{})
	return &syscall.SysProcAttr{Setsid: true}
}

// waitExit waits for the program and reaps it. Its number is free from then on;
// finish kills the group a few microseconds later, and only if it has members.
func (e *entry) waitExit() error {
	defer close(e.handle.exited)
	for {
		_, err := syscall.Wait4(e.pid, &e.status, 0, nil)
		if err != syscall.EINTR {
			e.err = os.NewSyscallError("wait4", err)
			return e.err
		}
	}
}

func (e *entry) hasExited() bool {
	select {
	case <-e.handle.exited:
		return true
	default:
		return false
	}
}

// waitStatus returns what waitExit found.
func (e *entry) waitStatus() (syscall.WaitStatus, error) { return e.status, e.err }

// members returns the leader of the process group if it has any members.
func (e *entry) members() []int {
	if !e.hasMembers() {
		return nil
	}
	return []int{e.pid}
}

func (e *entry) isMember(int) bool { return e.hasMembers() }
