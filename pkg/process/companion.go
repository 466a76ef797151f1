package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Companion returns the path of a program that is installed with this one: beside it, or
// in PATH.
func Companion(name string) (string, error) {
	if self, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		beside := filepath.Join(filepath.Dir(self), name) // absolute: LookPath checks this file, on Windows with .exe
		if path, err := exec.LookPath(beside); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("cannot find the program %s beside agents or in PATH", name)
	}
	return filepath.Abs(path)
}
