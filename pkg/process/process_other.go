//go:build unix && !linux

package process

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// BecomeSubreaper returns errors.ErrUnsupported: only Linux has subreapers.
func BecomeSubreaper() error { return errors.ErrUnsupported }

// HideEnviron returns errors.ErrUnsupported.
func HideEnviron() error { return errors.ErrUnsupported }

// sysProcAttr asks for a session of its own, which is a process group too.
func sysProcAttr(pidfd *int) *syscall.SysProcAttr {
	*pidfd = -1
	return &syscall.SysProcAttr{Setsid: true}
}

// closeOnExec does nothing: what Go opens is marked already.
func closeOnExec() error { return nil }

// bootTime is not needed where there are no sweeps.
func bootTime() time.Duration { return 0 }

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

// waitStatus returns what waitExit found.
func (p *child) waitStatus() (syscall.WaitStatus, error) { return p.status, p.waitErr }

// reapOrphans does nothing: orphans go to init.
func (r *registry) reapOrphans() {}

// clean waits until the group of the command has no members any more.
func (r *registry) clean(ended *entry, _ bool) (left, alive int) {
	const limit, pause = 2 * time.Second, time.Millisecond
	for begin := time.Now(); syscall.Kill(-ended.pid, 0) == nil; time.Sleep(pause) {
		if left = 1; time.Since(begin) > limit {
			return 0, 1
		}
	}
	return left, 0
}
