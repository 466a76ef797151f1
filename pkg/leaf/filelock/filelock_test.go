package filelock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agents-exe/agents/pkg/leaf/filelock"
)

func TestTryExcludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	a, b := open(), open()
	if err := filelock.Try(a); err != nil {
		t.Fatalf("Try(a) = %v", err)
	}
	if err := filelock.Try(b); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("Try(b) while a holds it = %v, want ErrLocked", err)
	}
	filelock.Unlock(a)
	if err := filelock.Try(b); err != nil {
		t.Errorf("Try(b) after Unlock(a) = %v", err)
	}
	b.Close()
	if err := filelock.Try(a); err != nil {
		t.Errorf("Try(a) after b.Close() = %v", err)
	}
}

func TestAcquireTakesTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var holders atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				release, err := filelock.Acquire(t.Context(), path)
				if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				holders.Add(-1)
				release()
			}
		})
	}
	wg.Wait()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat after the last release = %v, want that the file is gone", err)
	}
}

func TestAcquireEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release, err := filelock.Acquire(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("no more")
	cancel(cause)
	if _, err := filelock.Acquire(ctx, path); !errors.Is(err, cause) {
		t.Errorf("Acquire = %v, want the context's cause", err)
	}
}

func TestAcquireLeavesWhatALinkNamesAlone(t *testing.T) {
	dir := t.TempDir()
	other, link := filepath.Join(dir, "other"), filepath.Join(dir, "lock")
	if err := errors.Join(os.WriteFile(other, []byte("text"), 0o600), os.Symlink(other, link)); err != nil {
		t.Skip(err)
	}
	if release, err := filelock.Acquire(t.Context(), link); err == nil {
		release()
		t.Error("Acquire of a link succeeded")
	}
	if text, _ := os.ReadFile(other); string(text) != "text" {
		t.Errorf("the file that the link names contains %q, want text", text)
	}
}
