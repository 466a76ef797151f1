//go:build unix

package observe

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestOpenLogDoesNotWaitForAReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	f, err := OpenLog(path)
	if err == nil {
		f.Close()
	}
	if err == nil || !strings.HasSuffix(err.Error(), "pipe: no such device or address") {
		t.Errorf("OpenLog of a pipe that nobody reads: %v", err)
	}
}
