package process

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Exec replaces this process by the program at path, with the arguments behind its
// name and the environment. It returns only if that fails: with a *StartError.
// What BecomeSubreaper did does not reach the program.
func Exec(path string, args, env []string) error {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	err := syscall.Exec(path, append([]string{path}, args...), env)
	return newStartError(&Command{Path: path, Args: args, Env: env}, err)
}
