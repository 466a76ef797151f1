//go:build unix

package process

import (
	"errors"
	"syscall"
)

// fork starts the program and returns its number.
func (e *entry) fork(path string, argv []string, attr *syscall.ProcAttr) (int, error) {
	pid, _, err := syscall.StartProcess(path, argv, attr)
	return pid, err
}

func (e *entry) ask() {
	syscall.Kill(-e.pid, syscall.SIGTERM)
	syscall.Kill(-e.pid, syscall.SIGCONT) // a stopped process could not answer
}

func (e *entry) kill() error { return syscall.Kill(-e.pid, syscall.SIGKILL) }

// hasMembers reports whether the process group has any members, dead or alive.
func (e *entry) hasMembers() bool { return syscall.Kill(-e.pid, 0) != syscall.ESRCH }

// release does nothing: there is nothing to close.
func (e *entry) release() {}

// IsBrokenPipe reports whether a write failed because there is no reader.
func IsBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
