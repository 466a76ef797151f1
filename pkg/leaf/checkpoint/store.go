package checkpoint

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/folder"
)

const (
	logName    = "log.jsonl"
	packSuffix = ".pack"
)

// The kinds of lines.
const (
	kindStore  = "store"  // the first: which session it is of; a copy has another, with the turns that it took over
	kindBefore = "before" // an interval begins; what others changed since the last one
	kindAfter  = "after"  // it has ended; what it changed
	kindNone   = "none"   // from here on nothing is kept
)

// A line of the log. In the file, the CRC-32 of its JSON and a space precede it.
type line struct {
	Kind    string   `json:"kind"`
	Session string   `json:"session,omitempty"`
	N       int      `json:"n,omitempty"` // of the interval
	Turn    int      `json:"turn,omitempty"`
	Undo    bool     `json:"undo,omitempty"` // the interval is an undo
	Late    bool     `json:"late,omitempty"` // the process died in the interval; a later one wrote this
	Full    bool     `json:"full,omitempty"` // the changes are all that there is
	Folder  string   `json:"folder,omitempty"`
	Time    int64    `json:"time,omitempty"` // when the scan began, in nanoseconds
	Why     string   `json:"why,omitempty"`
	Changes []change `json:"changes,omitempty"`
}

// A change of one path, below the folder and with slashes. nil means that nothing is there.
type change struct {
	Path string `json:"path"`
	Was  *state `json:"was,omitempty"` // not in kindBefore
	Is   *state `json:"is,omitempty"`
}

// A Store is open for writing. Only one process may have it open, which the lock of the
// session ensures.
type Store struct {
	dir, folder string
	skip        map[string]bool // paths below the folder
	limits      limits
	fail        func(op string) error // for tests: before each change of the store

	root *os.Root // of folder
	log  *os.File
	size int64 // of the log
	n    int   // of the last interval
	open *line // the interval that has not ended

	index   map[string]*entry
	gen     int
	watches int
	watch   *folder.Watch     // nil if every scan looks at everything
	linked  map[string]bool   // the folders of files that have another name, through which they can change unseen
	objects map[string]object // by the digest of the content

	mu    sync.Mutex // guards objects and what follows, while files are read
	pack  *os.File
	name  string // of pack
	end   int64  // of pack
	dirty bool   // pack is not synced
	used  int64  // bytes in all packs
}

// Open opens the Store at a place for a folder, and creates it. One of another session, which
// was at the same place, is emptied. If the process that used it last died between the two
// lines of an interval, what has changed since is that interval's.
func Open(ctx context.Context, p Place, dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open checkpoints: %w", err)
	}
	s := &Store{dir: p.Dir, folder: dir, limits: defaults(), skip: map[string]bool{}, index: map[string]*entry{}, objects: map[string]object{}, fail: func(string) error { return nil }}
	for _, path := range folder.Below(dir, p.Skip) {
		s.skip[path] = true
	}
	if err := s.load(ctx, p.Session); err != nil {
		return nil, errors.Join(fmt.Errorf("open checkpoints: %w", err), s.Close())
	}
	return s, nil
}

func (s *Store) load(ctx context.Context, session string) error {
	h, err := read(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if h == nil || h.session != session {
		if err := errors.Join(Remove(s.dir), os.MkdirAll(s.dir, 0o700)); err != nil {
			return err
		}
		h = &history{}
	}
	if s.root, err = os.OpenRoot(s.folder); err != nil {
		return err
	}
	if s.log, err = os.OpenFile(filepath.Join(s.dir, logName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err := s.log.Truncate(int64(len(h.text))); err != nil { // an incomplete last line
		return err
	}
	packs, _ := filepath.Glob(filepath.Join(s.dir, "*"+packSuffix))
	for _, p := range packs {
		if info, err := os.Lstat(p); err == nil {
			s.used += info.Size()
		}
	}
	s.size = int64(len(h.text))
	s.replay(h)
	if s.size == 0 {
		return errors.Join(s.append(line{Kind: kindStore, Session: session}), syncDir(s.dir), syncDir(filepath.Dir(s.dir)))
	}
	if s.open != nil && h.damaged == 0 { // with a damaged line the index may have gaps
		s.open.Late = true
		return s.after(ctx)
	}
	s.open = nil
	return nil
}

// replay makes the index of the lines so far.
func (s *Store) replay(h *history) {
	for i := range h.lines {
		l := &h.lines[i]
		s.n = max(s.n, l.N)
		for _, c := range l.Changes {
			for _, st := range []*state{c.Was, c.Is} {
				if st != nil && st.Pack != "" {
					s.objects[st.Sum] = st.object
				}
			}
		}
		if l.Folder != s.folder {
			continue
		}
		if l.Full {
			clear(s.index)
		}
		switch l.Kind {
		case kindBefore:
			s.open = &line{N: l.N, Turn: l.Turn, Undo: l.Undo}
		case kindAfter:
			s.open = nil
		}
		for _, c := range l.Changes {
			if c.Is == nil {
				delete(s.index, c.Path)
			} else {
				s.index[c.Path] = &entry{state: *c.Is, seen: l.Time}
			}
		}
	}
}

// Close closes the Store.
func (s *Store) Close() (err error) {
	if s.root != nil {
		err = s.root.Close()
	}
	s.unwatch()
	for _, f := range []*os.File{s.log, s.pack} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// before begins an interval.
func (s *Store) before(ctx context.Context, turn int, undo bool) error {
	at, full := time.Now().UnixNano(), len(s.index) == 0
	changes, err := s.scan(ctx)
	if err != nil {
		return err
	}
	s.open = nil
	for i := range changes {
		changes[i].Was = nil
	}
	s.n++
	l := line{Kind: kindBefore, N: s.n, Turn: turn, Undo: undo, Folder: s.folder, Time: at, Full: full, Changes: changes}
	if err := s.append(l); err != nil {
		return err
	}
	s.open = &l
	return nil
}

// after ends the interval.
func (s *Store) after(ctx context.Context) error {
	if s.open == nil {
		return nil
	}
	at, o := time.Now().UnixNano(), s.open
	changes, err := s.scan(ctx)
	if err != nil {
		return err
	}
	s.open = nil
	return s.append(line{Kind: kindAfter, N: o.N, Turn: o.Turn, Undo: o.Undo, Late: o.Late, Folder: s.folder, Time: at, Changes: changes})
}

// append writes a line, after the contents that it names are on disk. Lines after which a call
// runs are synced; a kindAfter that is lost is made again.
func (s *Store) append(l line) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write checkpoint: %w", err)
			s.index = map[string]*entry{} // the log has not got what it may have
		}
	}()
	if s.dirty {
		if err := s.fail("sync pack"); err != nil {
			return err
		}
		if err := errors.Join(s.pack.Sync(), syncDir(s.dir)); err != nil {
			return err
		}
		s.dirty = false
	}
	text, err := l.encode()
	if err != nil {
		return err
	}
	if s.size+int64(len(text)) > s.limits.log {
		return fmt.Errorf("%w: the log has %d MiB", errLimit, s.size>>20)
	}
	if err = s.fail("write log"); err == nil {
		_, err = s.log.WriteAt(text, s.size)
	}
	if err != nil {
		_ = s.log.Truncate(s.size) // otherwise the next process cuts it off
		return err
	}
	s.size += int64(len(text))
	if l.Kind == kindAfter && !l.Undo {
		return nil
	}
	if err := s.fail("sync log"); err != nil {
		return err
	}
	return s.log.Sync()
}

// An object is where a pack has a content.
type object struct {
	Pack string `json:"pack,omitempty"` // "" if the content is not kept
	At   int64  `json:"at,omitempty"`
	Len  int64  `json:"len,omitempty"` // compressed
}

// keep stores a content. The object is empty if there is no room for it.
func (s *Store) keep(sum string, content []byte, z *flate.Writer, buf *bytes.Buffer) (object, error) {
	s.mu.Lock()
	o, ok := s.objects[sum]
	s.mu.Unlock()
	if ok {
		return o, nil
	}
	buf.Reset()
	z.Reset(buf)
	_, _ = z.Write(content) // to a buffer
	_ = z.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.objects[sum]; ok {
		return o, nil
	}
	if s.used+int64(buf.Len()) > s.limits.store {
		return object{}, nil
	}
	if s.pack == nil {
		s.name = rand.Text()[:10]
		f, err := os.OpenFile(filepath.Join(s.dir, s.name+packSuffix), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return object{}, fmt.Errorf("write checkpoint: %w", err)
		}
		s.pack = f
	}
	if err := s.fail("write pack"); err != nil {
		return object{}, err
	}
	if _, err := s.pack.WriteAt(buf.Bytes(), s.end); err != nil {
		return object{}, fmt.Errorf("write checkpoint: %w", err)
	}
	o = object{Pack: s.name, At: s.end, Len: int64(buf.Len())}
	s.objects[sum], s.dirty = o, true
	s.end, s.used = s.end+o.Len, s.used+o.Len
	return o, nil
}

// content returns what is kept of a file. What does not have the digest is an error.
func (s *Store) content(st *state) ([]byte, error) {
	if !validPack(st.Pack) {
		return nil, errors.New("its content is not kept")
	}
	f, err := os.OpenFile(filepath.Join(s.dir, st.Pack+packSuffix), os.O_RDONLY|folder.OpenFlags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z := flate.NewReader(io.NewSectionReader(f, st.At, st.Len))
	text, err := io.ReadAll(io.LimitReader(z, s.limits.file+1))
	if sum := sha256.Sum256(text); err != nil || hex.EncodeToString(sum[:]) != st.Sum {
		return nil, errors.New("its content in the checkpoints is damaged")
	}
	return text, nil
}

// validPack reports whether the name of a pack is one that keep makes: it becomes a path.
func validPack(name string) bool {
	for _, r := range name {
		if (r < 'A' || r > 'Z') && (r < '2' || r > '7') {
			return false
		}
	}
	return name != ""
}

// Remove removes the Store at dir, if there is one.
func Remove(dir string) error {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(dir, logName)); err != nil {
		return nil
	}
	return os.RemoveAll(dir)
}

// Copy makes a Store of another session from the Store at from, if there is one. turns is how
// many turns of the conversation the other session begins with, negative for all.
func Copy(from string, to Place, turns int) error {
	h, err := read(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if turns < 0 {
		turns = math.MaxInt
	}
	fork := line{Kind: kindStore, Session: to.Session, Turn: turns}
	last, encodeErr := fork.encode()
	if err = errors.Join(err, encodeErr, os.MkdirAll(to.Dir, 0o700)); err != nil {
		return fmt.Errorf("copy checkpoints: %w", err)
	}
	packs, _ := filepath.Glob(filepath.Join(from, "*"+packSuffix))
	for _, p := range packs { // only the process that began one appends to it
		target := filepath.Join(to.Dir, filepath.Base(p))
		if os.Link(p, target) != nil { // the file system has no hard links
			text, readErr := os.ReadFile(p)
			err = errors.Join(err, readErr, os.WriteFile(target, text, 0o600))
		}
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(to.Dir, logName), append(h.text, last...), 0o600))
	if err != nil {
		return fmt.Errorf("copy checkpoints: %w", err)
	}
	return nil
}

// encode returns the line with its checksum.
func (l *line) encode() ([]byte, error) {
	text, err := json.Marshal(l)
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(text), text), err
}

// syncDir writes the entries of a folder to disk, where the system can do that.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil && folder.OpenFlags != 0 {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}
