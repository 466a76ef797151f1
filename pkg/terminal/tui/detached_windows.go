package tui

import (
	"os/exec"
	"syscall"
)

// ownSession makes the process that cmd starts independent of this terminal.
func ownSession(cmd *exec.Cmd) {
	const newProcessGroup, detached = 0x200, 0x8
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: newProcessGroup | detached}
}

// continuable reports false: the system cannot suspend a program.
func continuable() bool { return false }
