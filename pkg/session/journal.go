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
	"github.com/agents-exe/agents/pkg/filelock"
)

// Options configure a Journal. The zero value can be used.
type Options struct {
	// Dir is the working folder of the program, which a new session notes as the
	// one in which it began: see Info.Dir.
	Dir string
	// Fail is for tests. It is called before everything that changes the disk,
	// with the kind of the change ("mkdir", "create", "write", "sync",
	// "sync folder", "rename", "truncate") and its number, from 1. A write is
	// seen twice, in front of each of its halves. The change then fails with
	// the error, if there is one. A sync and a write may call it at the same
	// time.
	Fail func(op string, n int) error
}

// The names in a session's folder.
const (
	fileName = "journal.jsonl"
	blobsDir = "blobs"
)

// A Journal is a session on disk that is open for writing, an agent.Journal. Its
// methods may be called at the same time. After one of them failed with something
// that may have reached the disk in part, all that follow fail in the same way.
type Journal struct {
	disk  disk
	dir   string // in which the session's folder is made; "" if it has none
	path  string // of the file; "" until it is known
	blobs blobs
	cwd   string // Options.Dir

	mu      sync.Mutex
	synced  sync.Cond // a sync is over
	f       *os.File  // nil until there is one
	id      string
	buf     []byte
	size    int64    // of what was written
	sum     uint32   // of the last line
	lasting int64    // how much is synced
	mark    bool     // the next line says so
	folders []string // with entries that are not synced
	syncing bool
	fresh   bool // the file is new
	written bool // since the journal was opened
	broken  error
	closed  bool
}

var errClosed = errors.New("the journal is closed")

// Create returns a journal that makes its folder DIR/ID with the first Append; ID
// is the session of that event. A run that fails before leaves nothing.
func Create(dir string, o Options) *Journal {
	return newJournal(&Journal{dir: dir}, o)
}

// CreateFile is as Create for a session in one file, which must not exist or be
// empty.
func CreateFile(path string, o Options) *Journal {
	return newJournal(&Journal{path: path}, o)
}

func newJournal(j *Journal, o Options) *Journal {
	j.disk.fail = o.Fail
	j.cwd = realDir(o.Dir)
	j.synced.L = &j.mu
	return j
}

// realDir is a folder without symbolic links in its path, so that it can be compared.
func realDir(dir string) string {
	if path, err := filepath.EvalSymlinks(dir); err == nil {
		return path
	}
	return dir
}

// ID is the id of the root session, and "" before the first Append.
func (j *Journal) ID() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.id
}

// Path is the folder of the session, or its file; it is "" while it is not known.
func (j *Journal) Path() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.dir != "" && j.path != "" {
		return filepath.Dir(j.path)
	}
	return j.path
}

// NewID is for Runner.NewID. It is as the function NewID, but a session that was
// created and has no event yet keeps the id that its folder has.
func (j *Journal) NewID() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.size == 0 && j.id != "" {
		return j.id
	}
	return NewID()
}

// Append writes e at once, with one write. It fails and changes nothing if e
// cannot be kept.
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
	b, sum := j.buf[:0], j.sum
	if !j.written {
		first := fileLine{Kind: kindOpened, Time: time.Now(), owner: thisProcess()}
		if j.size == 0 {
			first = fileLine{Kind: kindJournal, Format: formatName, Version: Version, ID: j.id, Dir: j.cwd, owner: first.owner}
		}
		b, _ = encode(b, first)
		b, sum = seal(b, 0, -1, sum)
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
	return j.write(b, start, sum)
}

// write seals a line, of which buf holds what is behind start, and writes buf.
func (j *Journal) write(buf []byte, start int, sum uint32) error {
	mark := int64(-1)
	if j.mark {
		mark = j.lasting
	}
	buf, sum = seal(buf, start, mark, sum)
	if len(buf)-start > maxBytes {
		return fmt.Errorf("write session %s: an event of %d bytes is larger than a line may be (%d)", j.path, len(buf)-start, maxBytes)
	}
	if j.buf = buf[:0]; cap(buf) > 1<<20 {
		j.buf = nil // it was an exception
	}
	if err := j.disk.write(j.f, buf, j.size); err != nil {
		j.disk.truncate(j.f, j.size) // as well as it can be done
		if j.fresh && j.size == 0 {
			j.leave()
		}
		j.broken = fmt.Errorf("write session %s: %w", j.path, cause(err))
		return j.broken
	}
	j.size += int64(len(buf))
	j.sum, j.mark, j.written = sum, false, true
	return nil
}

// leave removes a session in which nothing was written.
func (j *Journal) leave() {
	os.Remove(j.path)
	if j.dir != "" {
		os.Remove(filepath.Dir(j.path)) // if nothing is in it
	}
}

// cause leaves the path out of an error that is said with it.
func cause(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

func (j *Journal) usable() error {
	if j.closed {
		return errClosed
	}
	return j.broken
}

// create makes the file of a new session.
func (j *Journal) create(id string) (err error) {
	if !ValidID(id) {
		return fmt.Errorf("create session: %q cannot be an id", id)
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
				os.Remove(folder) // if nothing is in it
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
		if _, inUse := errors.AsType[*InUseError](err); fresh && !inUse {
			os.Remove(j.path)
		}
		f.Close()
		return err
	}
	if info, err := f.Stat(); err != nil || info.Size() > 0 {
		filelock.Unlock(f)
		return errors.Join(fmt.Errorf("create session: %s: %w", j.path, cmp.Or(err, fs.ErrExist)), f.Close())
	}
	j.f, j.fresh, j.id, j.folders = f, fresh, id, append(folders, filepath.Dir(j.path))
	return nil
}

// Sync returns when everything that was appended before is on the disk. Callers
// that come while a sync runs share the next one. A failed sync is never
// repeated: the system may have dropped what it could not write.
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
		case j.lasting >= size:
			return nil
		case j.syncing:
			j.synced.Wait()
		default:
			j.sync()
		}
	}
}

// sync syncs the file while others may append to it.
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
			j.broken = fmt.Errorf("sync session %s: %w", j.path, cause(err))
		}
	} else {
		j.lasting, j.mark = size, true
	}
	j.synced.Broadcast()
}

// Close syncs what was appended, says so in a last line and gives the session
// free. It may be called twice.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	var err error
	if j.f != nil && j.broken == nil && j.written {
		if err = j.syncTo(j.size); err == nil {
			j.end()
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

// end writes the last line. Nothing is lost if it cannot be written.
func (j *Journal) end() {
	b, _ := encode(j.buf[:0], fileLine{Kind: kindClosed, Time: time.Now()})
	j.mark = true
	j.write(b, 0, j.sum)
}
