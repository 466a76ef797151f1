// Package filelock locks files among processes and within one. The system
// releases a lock when its process ends, however it ends.
//
// [Try] locks an open file whose content one process may write, and [Wait] waits for
// such a lock. [Acquire] waits for a lock that is only a name.
//
// Where the system duplicates open files into a child (Unix), a child that is just
// being started holds the lock until it executes its program.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
)

// ErrLocked is the error of Try when the lock is held elsewhere.
var ErrLocked = errors.New("locked")

// The pause between two attempts of Acquire grows between these.
const (
	minPause = time.Millisecond
	maxPause = 50 * time.Millisecond
)

// waitQuietly is how long acquire waits before it says so.
const waitQuietly = time.Second

// Try locks f exclusively until Unlock or f.Close, or returns ErrLocked at once.
// Two open files of one process exclude each other too.
func Try(f *os.File) error { return try(f) }

// Unlock releases the lock at once; closing f releases it only when no child that
// is being started holds it too.
func Unlock(f *os.File) { unlock(f) }

// Remove closes f, which is locked, and removes it: before its lock is released, except on
// Windows, which removes no file that is open.
func Remove(f *os.File) error {
	if runtime.GOOS == "windows" {
		return errors.Join(f.Close(), os.Remove(f.Name()))
	}
	return errors.Join(os.Remove(f.Name()), f.Close())
}

// Acquire waits for the lock named path, a file that it creates, until ctx ends.
// release gives the lock back and removes the file: names that are used once would
// fill the folder.
func Acquire(ctx context.Context, path string) (release func(), err error) {
	return acquire(ctx, path, "", nil)
}

// acquire writes holder into the file once it has the lock. If it has to wait for longer than
// waitQuietly, it calls waits once, with what the holder wrote.
func acquire(ctx context.Context, path, holder string, waits func(holder string)) (release func(), err error) {
	if waits != nil {
		told := time.AfterFunc(waitQuietly, func() {
			text, _ := os.ReadFile(path) // "" is a holder that does not say who it is
			waits(string(text))
		})
		defer told.Stop()
	}
	for {
		f, err := open(ctx, path)
		if err != nil {
			return nil, err
		}
		if err := Wait(ctx, f); err != nil {
			f.Close()
			return nil, err
		}
		// Its last holder has removed the file, so it is the lock only if it still
		// has its name.
		named, err := sameFile(f, path)
		if named {
			err = f.Truncate(0)
			if err == nil && holder != "" {
				_, err = f.WriteString(holder)
			}
			if err != nil {
				f.Close()
				return nil, err
			}
			return func() { _ = Remove(f) }, nil // it may stay
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
}

// open opens or creates the file at path. Windows refuses to open a file while its last holder
// removes it, so open retries for at most waitQuietly.
func open(ctx context.Context, path string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, waitQuietly)
	defer cancel()
	for {
		if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("lock %s: it is not a regular file", path) // a link would have another file emptied
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
		if err == nil || !beingRemoved(err) {
			return f, err
		}
		select {
		case <-time.After(minPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// Wait locks f like Try once it is free, or fails when ctx ends. A file that nobody
// removes may be on NFS: Linux locks it among hosts, if f is open for writing.
func Wait(ctx context.Context, f *os.File) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := Try(f)
		if !errors.Is(err, ErrLocked) {
			return err
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("another call holds it: %w", context.Cause(ctx))
		}
	}
}

// sameFile reports whether f is the file at path, where there need not be any.
func sameFile(f *os.File, path string) (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) || beingRemoved(err) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, now), err
}
