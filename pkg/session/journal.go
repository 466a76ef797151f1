package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/filelock"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
)

// Options configure a Journal. The zero value is usable.
type Options struct {
	// Dir is the working folder of the program. A new session records it: see
	// Info.Dir.
	Dir string
	// Client names the client of a server whose session a new one is: see ClientOf. ""
	// is local use.
	Client string
	// Fail is for tests. It is called before every change of the disk, with the
	// kind of the change ("mkdir", "create", "write", "sync", "sync folder",
	// "rename", "truncate") and its number, from 1. A write has two calls, one
	// before each of its halves. If Fail returns an error, the change fails with
	// it. A sync and a write may call it at the same time.
	Fail func(op string, n int) error
}

// The names in a session's folder.
const (
	fileName       = "journal.jsonl"
	blobsDir       = "blobs"
	checkpointsDir = "checkpoints"
)

// A Journal is a session on disk that is open for writing, an agent.Journal. It is
// safe for concurrent use. After an error that may have left a part of an event on
// the disk, all methods fail with this error.
type Journal struct {
	disk  disk
	dir   string // for the session's folder; "" for a session in one file
	path  string // of the file; "" until it is known
	blobs blobs
	cwd   string // Options.Dir
	of    string // Options.Client

	mu      sync.Mutex
	synced  sync.Cond // a sync has ended
	f       *os.File  // nil until it is created
	id      string
	buf     []byte
	size    int64    // bytes written
	ends    ends     // of the lines so far
	durable int64    // bytes synced
	mark    bool     // the next line notes durable
	folders []string // with entries that are not synced
	syncing bool
	fresh   bool // this Journal created the file
	written bool // something was appended
	broken  error
	closed  bool
}

var errClosed = errors.New("the journal is closed")

// Create returns a journal that creates its folder DIR/ID at the first Append; ID is
// the session of that event. A run that fails before leaves nothing.
func Create(dir string, o Options) *Journal {
	return newJournal(&Journal{dir: dir}, o)
}

// CreateFile is like Create for a session in one file, which must be empty if it
// exists.
func CreateFile(path string, o Options) *Journal {
	return newJournal(&Journal{path: path}, o)
}

func newJournal(j *Journal, o Options) *Journal {
	j.disk.fail = o.Fail
	j.cwd, j.of = realDir(o.Dir), o.Client
	j.synced.L = &j.mu
	go encoders()
	return j
}

// realDir is a folder without symbolic links in its path, so that it can be compared.
func realDir(dir string) string {
	if path, err := filepath.EvalSymlinks(dir); err == nil && dir != "" {
		return path
	}
	return dir
}

// ID returns the id of the root session, or "" before the first Append.
func (j *Journal) ID() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.id
}

// Path returns the folder of the session, or its file, or "" before the first Append.
func (j *Journal) Path() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.dir != "" && j.path != "" {
		return filepath.Dir(j.path)
	}
	return j.path
}

// Chain returns the chain up to the last line: see link.
func (j *Journal) Chain() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ends.link.String()
}

// NewID is for Runner.NewID. It is like the function NewID, except that a session
// without events keeps the id of its folder.
func (j *Journal) NewID() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.size == 0 && j.id != "" {
		return j.id
	}
	return NewID()
}

// Append writes e, with a single write. If it cannot be written, Append fails and
// changes nothing.
func (j *Journal) Append(_ context.Context, e agent.Event) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil {
		return err
	}
	if j.f == nil {
		if err := j.create(e.Session); err != nil {
			j.broken = err
			return err
		}
	}
	b, ends := j.buf[:0], j.ends
	if !j.written {
		first := fileLine{Kind: kindOpened, Time: time.Now(), owner: thisProcess()}
		if j.size == 0 {
			first = fileLine{Kind: kindJournal, Format: formatName, Version: Version, ID: j.id, Dir: j.cwd, Client: j.of, owner: first.owner}
		}
		b, _ = encode(b, first)
		b = ends.seal(b, 0, -1)
	}
	start := len(b)
	e, err := j.blobs.move(&j.disk, e)
	if err == nil {
		b, err = encode(b, &e)
	}
	if err != nil {
		j.broken = fmt.Errorf("write session %s: %w", j.path, err)
		return j.broken
	}
	return j.write(b, start, ends)
}

// write seals the line that begins at start in buf, behind the lines of ends, and writes
// buf.
func (j *Journal) write(buf []byte, start int, ends ends) error {
	mark := int64(-1)
	if j.mark {
		mark = j.durable
	}
	buf = ends.seal(buf, start, mark)
	if len(buf)-start > maxBytes {
		return fmt.Errorf("write session %s: an event of %d bytes is larger than a line may be (%d)", j.path, len(buf)-start, maxBytes)
	}
	if j.buf = buf[:0]; cap(buf) > 1<<20 {
		j.buf = nil // most lines are smaller
	}
	if err := j.disk.write(j.f, buf, j.size); err != nil {
		j.disk.truncate(j.f, j.size) // if possible
		if j.fresh && j.size == 0 {
			remove(j.path, j.blobs)
		}
		j.broken = fmt.Errorf("write session %s: %w", j.path, wholefile.Cause(err))
		return j.broken
	}
	j.size += int64(len(buf))
	j.ends, j.mark, j.written = ends, false, true
	return nil
}

func (j *Journal) usable() error {
	if j.closed {
		return errClosed
	}
	return j.broken
}

func (j *Journal) create(id string) (err error) {
	if !ValidID(id) {
		return fmt.Errorf("create session: %q is not a valid id", id)
	}
	var folders []string
	if j.dir != "" {
		folder := filepath.Join(j.dir, id)
		if folders, err = j.disk.makeDir(folder); err != nil {
			return fmt.Errorf("create session: %w", err)
		}
		j.path = filepath.Join(folder, fileName)
		j.blobs = blobs(filepath.Join(folder, blobsDir))
		defer func() {
			if err != nil {
				os.Remove(folder) // unless it has files
			}
		}()
	}
	f, err := j.disk.create(j.path)
	fresh := err == nil
	if errors.Is(err, fs.ErrExist) && j.dir == "" {
		f, err = os.OpenFile(j.path, os.O_RDWR, 0)
	}
	if err != nil {
		return fmt.Errorf("create session: %w", err)
	}
	if err := lock(f); err != nil {
		f.Close()
		if _, inUse := errors.AsType[*InUseError](err); fresh && !inUse {
			os.Remove(j.path)
		}
		return err
	}
	if info, err := f.Stat(); err != nil || info.Size() > 0 {
		filelock.Unlock(f)
		return errors.Join(fmt.Errorf("create session: %s: %w", j.path, cmp.Or(err, fs.ErrExist)), f.Close())
	}
	j.f, j.fresh, j.id, j.folders = f, fresh, id, append(folders, filepath.Dir(j.path))
	return nil
}

// Sync returns when all appended events are on disk. Calls during a sync share the
// next one. A failed sync is never retried: the system may have discarded data that
// it could not write.
func (j *Journal) Sync(context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.syncTo(j.size)
}

func (j *Journal) syncTo(size int64) error {
	for {
		switch {
		case j.usable() != nil:
			return j.usable()
		case j.durable >= size:
			return nil
		case j.syncing:
			j.synced.Wait()
		default:
			j.sync()
		}
	}
}

// sync syncs the file. Events may be appended meanwhile.
func (j *Journal) sync() {
	size, folders := j.size, j.folders
	j.syncing = true
	j.mu.Unlock()
	err := j.disk.sync(j.f)
	for _, dir := range folders {
		if err == nil {
			err = j.disk.syncDir(dir)
		}
	}
	j.mu.Lock()
	j.syncing, j.folders = false, nil
	if err != nil {
		if j.broken == nil {
			j.broken = fmt.Errorf("sync session %s: %w", j.path, wholefile.Cause(err))
		}
	} else {
		j.durable, j.mark = size, true
	}
	j.synced.Broadcast()
}

// Close syncs the appended events, records that in a last line and releases the
// session. It may be called twice.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	var err error
	if j.f != nil && j.broken == nil && j.written {
		if err = j.syncTo(j.size); err == nil {
			// The last line. Nothing is lost if it cannot be written.
			b, _ := encode(j.buf[:0], fileLine{Kind: kindClosed, Time: time.Now()})
			j.mark = true
			j.write(b, 0, j.ends)
		}
	}
	for j.syncing {
		j.synced.Wait()
	}
	j.closed = true
	if j.f != nil {
		filelock.Unlock(j.f)
		err = errors.Join(err, j.f.Close())
	}
	return err
}
