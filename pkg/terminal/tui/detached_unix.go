//go:build unix

package tui

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownSession makes the process that cmd starts independent of this terminal.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// continuable reports whether a shell can continue this program if it is suspended: a shell gives its
// jobs a process group of their own. Without one, as in a container or in a terminal that was opened
// for this program, the system does not stop it, and it would wait for a signal that nobody sends.
func continuable() bool {
	session, err := unix.Getsid(0)
	return err != nil || syscall.Getpgrp() != session
}
