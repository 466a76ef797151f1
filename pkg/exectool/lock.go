package exectool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// EnvLocks names, for a tool that starts `agents` again, the locks that its call
// holds: their ids, joined by spaces. A call below it does not wait for them.
const EnvLocks = "AGENTS_LOCKS"

// The pause between two attempts to get a lock grows between these.
const (
	minLockPause = time.Millisecond
	maxLockPause = 50 * time.Millisecond
)

// lockNames are the names of the locks of a call, with its arguments filled in,
// sorted and each once. "{arg}" of an absent argument is empty.
func (d *Description) lockNames(args map[string]json.RawMessage) []string {
	var names []string
	for _, lock := range d.Locks {
		names = append(names, fillLock(lock, args))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// fillLock puts the arguments into a lock's name, in one pass.
func fillLock(lock string, args map[string]json.RawMessage) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(lock, "{")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			b.WriteString("{" + rest)
			return b.String()
		}
		if raw := args[name]; len(raw) > 0 && string(raw) != "null" {
			if text, err := agent.ArgText(raw); err == nil {
				b.WriteString(text)
			}
		}
		lock = after
	}
}

// A held is the set of locks of one call.
type held struct {
	files []*os.File
	ids   []string
}

// acquire gets the locks of a call, which takes turns with every other call that
// shares one: of this process, and of all others that use the same folder. They
// are taken in the order of their names, so that no two calls wait for each
// other; those that a call above holds already are skipped. The system releases
// them when the process ends, however it does.
func (t *Tool) acquire(ctx context.Context, names []string) (*held, error) {
	h := &held{}
	if len(names) == 0 || t.opts.LockDir == "" {
		return h, nil
	}
	if err := os.MkdirAll(t.opts.LockDir, 0o700); err != nil {
		return nil, fmt.Errorf("locks: %w", err)
	}
	above := strings.Fields(lookup(t.opts.Environ, EnvLocks))
	h.ids = above
	for _, name := range names {
		id := lockID(name)
		if slices.Contains(above, id) {
			continue
		}
		f, err := lockFile(ctx, filepath.Join(t.opts.LockDir, id))
		if err != nil {
			h.release()
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		h.files, h.ids = append(h.files, f), append(slices.Clip(h.ids), id)
	}
	return h, nil
}

// Lock takes a lock that tools declare, for something that is no call of a tool,
// and waits for it until ctx ends. What a call above holds, as environ says, is
// not waited for. release gives it back.
func Lock(ctx context.Context, dir string, environ []string, name string) (release func(), err error) {
	t := &Tool{opts: &shared{Options: Options{LockDir: dir, Environ: environ}}}
	h, err := t.acquire(ctx, []string{name})
	if err != nil {
		return nil, err
	}
	return h.release, nil
}

// Holds reports whether a call above this process holds the lock.
func Holds(environ []string, name string) bool {
	return slices.Contains(strings.Fields(lookup(environ, EnvLocks)), lockID(name))
}

func lockID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// release gives the locks back and removes their files: names with arguments in
// them would fill the folder.
func (h *held) release() {
	for _, f := range h.files {
		os.Remove(f.Name()) // it may stay
		f.Close()           // which unlocks it
	}
}

// lockFile waits for the lock on a file until ctx ends. Whoever had it before has
// removed the file, so it is the lock only if it still has its name.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := flock(ctx, f); err != nil {
			f.Close()
			return nil, err
		}
		named, err := sameFile(f, path)
		if named {
			return f, nil
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
}

// sameFile says whether f is the file at path, where there need not be any.
func sameFile(f *os.File, path string) (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, now), err
}

// flock waits for the lock on an open file until ctx ends.
func flock(ctx context.Context, f *os.File) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := minLockPause; ; pause = min(2*pause, maxLockPause) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
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

// lookup is the value of a variable, "" if there is none.
func lookup(environ []string, name string) string {
	for _, e := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}
