//go:build !linux

package process

import "syscall"

// Exec replaces this process by the program at path, with the arguments behind its
// name and the environment. It returns only if that fails: with a *StartError.
func Exec(path string, args, env []string) error {
	err := syscall.Exec(path, append([]string{path}, args...), env)
	return newStartError(&Command{Path: path, Args: args, Env: env}, err)
}
