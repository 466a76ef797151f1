//go:build unix && !linux

package process

import (
	"errors"
	"os"
	"syscall"
)

// BecomeSubreaper returns errors.ErrUnsupported: only Linux has subreapers.
func BecomeSubreaper() error { return errors.ErrUnsupported }

// HideEnviron returns errors.ErrUnsupported.
func HideEnviron() error { return errors.ErrUnsupported }

// A handle is how a child ended, once it was waited for.
type handle struct {
	status syscall.WaitStatus
}

// sysProcAttr asks for a session of its own, which is a process group too.
func (h *handle) sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// closeOnExec does nothing: what Go opens is marked already.
func closeOnExec() {}

// forkWithCode calls fork: no limit carries a code.
func forkWithCode(_ code, fork func() (int, error)) (int, error) { return fork() }

// waitExit waits for the program and reaps it. Its number is free from then on;
// finish kills the group a few microseconds later, and only if it has members.
func (p *child) waitExit() error {
	for {
		_, err := syscall.Wait4(p.pid, &p.status, 0, nil)
		if err != syscall.EINTR {
			return os.NewSyscallError("wait4", err)
		}
	}
}

// hasExited reports whether the program has exited.
func (p *child) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// waitStatus returns what waitExit found.
func (p *child) waitStatus() (syscall.WaitStatus, error) { return p.status, p.waitErr }

// listGroup returns the leader of the process group if it has any members.
func listGroup(group int) []int {
	if syscall.Kill(-group, 0) == syscall.ESRCH {
		return nil
	}
	return []int{group}
}

// inGroup reports whether the group has any members.
func inGroup(_, group int) bool { return len(listGroup(group)) > 0 }

// clean waits until the group of the command has no members any more.
func (r *registry) clean(ended *entry, members []int, _ func() bool) (left, alive int) {
	if left = len(members); left == 0 {
		members = listGroup(ended.pid)
	}
	return left, waitGroup(members, ended.pid)
}

// endStrangers does nothing: what left its group is not found.
func (r *registry) endStrangers() {}

// offMainThread calls f; the thread does not matter here.
func offMainThread(f func()) { f() }

// EndLeft ends what an earlier process of this program left running. Only Linux
// can find it.
func EndLeft(mark string) (ended, alive int) { return 0, 0 }
