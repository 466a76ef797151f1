package filelock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// A Set is the locks of one folder, each with a name of its own. All processes that
// use the folder take turns.
type Set struct {
	// Dir is created if need be. Without one nothing is locked.
	Dir string
	// Held are the ids of locks that are held on behalf of this process, by one
	// above it. They are not waited for.
	Held []string
	// Holder says who takes the locks, for those who wait for them; it may be "".
	Holder string
	// Waits, if it is not nil, is called with the holder of a lock that is not free after a
	// second, on a goroutine of its own.
	Waits func(name, holder string)
}

// Acquire waits until it has the locks of all names, or ctx ends. It takes them in
// the order of the names, so names that are sorted never wait for each other. ids
// are those of Held and of the new ones; release gives the new ones back. The system
// does so when the process ends.
func (s Set) Acquire(ctx context.Context, names ...string) (ids []string, release func(), err error) {
	if len(names) == 0 || s.Dir == "" {
		return nil, func() {}, nil
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("locks: %w", err)
	}
	var releases []func()
	release = func() {
		for _, r := range releases {
			r()
		}
	}
	ids = slices.Clone(s.Held)
	for _, name := range names {
		if s.Holds(name) {
			continue
		}
		var waits func(string)
		if s.Waits != nil {
			waits = func(holder string) { s.Waits(name, holder) }
		}
		r, err := acquire(ctx, filepath.Join(s.Dir, lockID(name)), s.Holder, waits)
		if err != nil {
			release()
			return nil, nil, fmt.Errorf("lock %s: %w", name, err)
		}
		releases, ids = append(releases, r), append(ids, lockID(name))
	}
	return ids, release, nil
}

// Holds reports whether the lock is one of Held.
func (s Set) Holds(name string) bool { return slices.Contains(s.Held, lockID(name)) }

// lockID is the name of a lock as a file name.
func lockID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}
