//go:build !linux && !windows

package process

import "syscall"

func become(path string, argv, env []string) error { return syscall.Exec(path, argv, env) }
