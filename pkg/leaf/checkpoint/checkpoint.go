// Package checkpoint keeps what calls change below a folder, so that it can be put back.
//
// A Store is a folder beside a session. It has a log, with a line before and a line after each
// interval in which calls ran, and packs, which hold the contents of files. What an interval
// changed is known by comparing the folder with an index before and after it: the first scan
// reads every file, later ones only those whose size, times, inode or mode changed. In a large
// folder on Linux, scans after the second look only at the folders that the system reports (see
// [folder.Watch]), and at those of files with several names.
//
// A run has a Keeper. A Plan says what an undo would do, and Store.Undo does it, as an interval
// of its own, so that it can be taken back too.
//
// Not kept are folders such as .git and node_modules (see ignored), files of more than 10 MiB,
// anything in a folder with more than 100,000 files, and contents beyond 1 GiB of one Store;
// nor owners, times, extended attributes and hard links.
package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// limits of a Store. Tests have smaller ones.
type limits struct {
	files int   // in the folder, with folders and links
	file  int64 // bytes of one file
	store int64 // bytes of all packs
	log   int64 // bytes of the log
	watch int   // files and folders in the folder, from which on the system tells what changes
}

func defaults() limits {
	return limits{files: 100_000, file: 10 << 20, store: 1 << 30, log: 256 << 20, watch: 2000}
}

// ignored reports whether a name is one of those that are never looked into: the data of
// version control, and what package managers and builds download or generate.
func ignored(name string) bool {
	switch name {
	case ".git", ".hg", ".svn", ".jj", "node_modules", "bower_components", ".venv", "venv", "__pycache__",
		".tox", ".mypy_cache", ".pytest_cache", ".ruff_cache", "target", ".gradle", ".terraform", ".next", ".cache":
		return true
	}
	return false
}

// A Place says where the Store of a session is.
type Place struct {
	Dir     string   // of the Store
	Session string   // the id of the session
	Skip    []string // absolute paths that are never touched: where sessions are
}

// A Keeper makes the checkpoints of one run. It is safe for concurrent use.
type Keeper struct {
	// Folder is what is kept.
	Folder string
	// Place returns the place of the Store, when the first call begins.
	Place func() Place

	mu     sync.Mutex
	store  *Store
	active int    // calls in the interval
	off    bool   // no checkpoints can be made
	failed string // the last failure, which is reported once
}

// Before makes a checkpoint, unless a call is running: calls that overlap share an interval.
// ended must be called when the call has ended. The error says, once, why there is no
// checkpoint; the call can run in spite of it. turn is that of the session.
func (k *Keeper) Before(ctx context.Context, turn int) (ended func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.active == 0 && !k.off {
		err = k.begin(ctx, turn)
	}
	if k.off || err != nil {
		if err != nil && err.Error() == k.failed {
			err = nil
		} else if err != nil {
			k.failed = err.Error()
		}
		return func() {}, err
	}
	k.active++
	return k.end, nil
}

func (k *Keeper) begin(ctx context.Context, turn int) error {
	if k.store == nil {
		s, err := Open(ctx, k.Place(), k.Folder)
		if err != nil {
			return err
		}
		k.store = s
	}
	err := k.store.before(ctx, turn, false)
	if errors.Is(err, errLimit) {
		k.off = true
		return errors.Join(err, k.store.append(line{Kind: kindNone, Turn: turn, Why: err.Error()}))
	}
	return err
}

func (k *Keeper) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.active--; k.active > 0 || k.store == nil {
		return
	}
	if err := k.store.after(context.Background()); err != nil {
		k.failed = "" // the next checkpoint reports what is wrong
	}
}

// Close ends the use of the Store.
func (k *Keeper) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.store == nil {
		return nil
	}
	s := k.store
	k.store, k.off = nil, true
	return s.Close()
}

// errLimit is the error of a folder that is too large.
var errLimit = errors.New("limit of checkpoints")

func (l limits) exceeded(folder string) error {
	return fmt.Errorf("%w: %s has more than %d files and folders", errLimit, folder, l.files)
}
