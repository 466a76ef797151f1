//go:build unix

package tui

import (
	"os/exec"
	"syscall"
)

// ownSession makes the process that cmd starts independent of this terminal.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
