//go:build unix

package observe

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
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

// A pipe whose reader does not read fails a write after a limit: it does not stop the run.
func TestALogThatNobodyReadsHasALimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	log, err := OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	log.(*logFile).limit = time.Millisecond
	for range 1000 { // more than a pipe holds
		if _, err = log.Write(make([]byte, 4096)); err != nil {
			break
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write to a full pipe = %v, want %v", err, os.ErrDeadlineExceeded)
	}
}
