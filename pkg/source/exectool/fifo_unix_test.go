//go:build unix

package exectool

import (
	"syscall"
	"testing"
)

func mkfifo(t *testing.T, path string, mode uint32) {
	t.Helper()
	if err := syscall.Mkfifo(path, mode); err != nil {
		t.Fatal(err)
	}
}
