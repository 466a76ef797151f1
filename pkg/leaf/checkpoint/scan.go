package checkpoint

import (
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/leaf/folder"
)

// The kinds of states.
const (
	isFile  = "file"
	isDir   = "dir"
	isLink  = "link"
	isOther = "other" // a pipe, a socket, a device: never opened, never put back
)

// A state is what is at a path.
type state struct {
	Kind  string      `json:"kind"`
	Mode  fs.FileMode `json:"mode,omitempty"` // the permissions, and setuid, setgid and sticky
	Size  int64       `json:"size,omitempty"`
	MTime int64       `json:"mtime,omitempty"`
	CTime int64       `json:"ctime,omitempty"`
	Inode uint64      `json:"inode,omitempty"`
	Sum   string      `json:"sum,omitempty"`  // the SHA-256 of a file that was read
	Link  string      `json:"link,omitempty"` // the target of a link
	object
}

const modeBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

func stateOf(f folder.Stat) state {
	st := state{Kind: isOther, MTime: f.MTime, CTime: f.CTime, Inode: f.Inode}
	switch {
	case f.Mode.IsRegular():
		st.Kind, st.Mode, st.Size = isFile, f.Mode&modeBits, f.Size
	case f.Mode.IsDir():
		return state{Kind: isDir, Mode: f.Mode & modeBits} // its times change with what is in it
	case f.Mode&fs.ModeSymlink != 0:
		st.Kind = isLink
	}
	return st
}

// sameStat reports whether nothing indicates that the contents differ.
func (st *state) sameStat(o *state) bool {
	return st.Kind == o.Kind && st.Mode == o.Mode && st.Size == o.Size && st.MTime == o.MTime && st.CTime == o.CTime && st.Inode == o.Inode
}

// same reports whether two states are the same to a person. Files that were not read are
// compared by their size and times.
func same(a, b *state) bool {
	switch {
	case a == nil || b == nil:
		return a == b
	case a.Kind == isFile && a.Sum == "" && b.Sum == "":
		return a.sameStat(b)
	}
	return a.Kind == b.Kind && a.Mode == b.Mode && a.Sum == b.Sum && a.Link == b.Link
}

// An entry of the index. Its gen is that of the last scan that found it.
type entry struct {
	state
	seen int64 // when a scan that read it began, in nanoseconds
	gen  int
}

// recent reports whether the file changed so shortly before it was read that a later change
// could have left the same times: the clocks of file systems are coarse.
func (e *entry) recent() bool {
	last := max(e.MTime, e.CTime)
	tick := 100 * time.Millisecond
	if last%int64(time.Second) == 0 {
		tick = 2 * time.Second
	}
	return e.Kind != isDir && last > e.seen-int64(tick)
}

// A walk is the first part of a scan: it compares what stat says with the index.
type walk struct {
	*Store
	ctx    context.Context
	places chan struct{} // for goroutines besides the first
	wg     sync.WaitGroup
	count  atomic.Int64
	known  atomic.Int64 // entries of the index that were found

	partly map[string]bool // the folders that were looked at; nil for all
	whole  map[string]bool // folders that are looked at with all that is in them

	mu         sync.Mutex
	differs    []found
	unreadable []string // folders, with a slash
	err        error
}

type found struct {
	path string
	state
	again bool // it must be read again at the next scan
}

// scan brings the index up to date and returns what has changed, sorted by path. Contents are
// kept.
func (s *Store) scan(ctx context.Context) ([]change, error) {
	at := time.Now().UnixNano()
	s.gen++
	w := &walk{Store: s, ctx: ctx, places: make(chan struct{}, runtime.GOMAXPROCS(0)-1)}
	if err := w.look(); err != nil {
		return nil, err
	}
	w.wg.Wait()
	if w.err == nil {
		w.err = s.readAll(ctx, w.differs)
	}
	if w.err != nil {
		s.unwatch() // what it told is lost
		return nil, w.err
	}
	var list []change
	for _, f := range w.differs {
		if f.Kind == "" {
			continue // it is gone by now
		}
		old := s.index[f.path]
		e := &entry{state: f.state, seen: at, gen: s.gen}
		if f.again {
			e.seen = 0
		}
		if old == nil {
			list = append(list, change{Path: f.path, Is: &e.state})
		} else if w.known.Add(1); !same(&old.state, &e.state) {
			list = append(list, change{Path: f.path, Was: &old.state, Is: &e.state})
		}
		s.index[f.path] = e
	}
	if w.partly != nil || int(w.known.Load())+len(list) < len(s.index) || len(w.unreadable) > 0 || len(w.differs) > 0 {
		list = append(list, w.removed()...)
	}
	slices.SortFunc(list, func(a, b change) int { return cmp.Compare(a.Path, b.Path) })
	return list, nil
}

// look looks at the folders that may have changed: at all of them if the system does not tell.
func (w *walk) look() error {
	const maxLinked, maxWatches = 100, 10
	if w.watch != nil && len(w.index) > 0 && len(w.linked) <= maxLinked {
		if dirs, below, ok := w.watch.Take(); ok {
			maps.Copy(dirs, w.linked)
			w.partly, w.whole = map[string]bool{}, below
			w.count.Store(int64(len(w.index)))
			for _, at := range slices.Sorted(maps.Keys(dirs)) {
				w.again(at)
			}
			return nil
		}
	}
	dir, err := folder.OpenRoot(w.root)
	if err != nil {
		return err
	}
	w.unwatch()
	if w.gen > 1 && len(w.index) >= w.limits.watch && w.watches < maxWatches {
		w.watches++
		w.watch, w.linked = folder.NewWatch(dir), map[string]bool{}
	}
	w.dir(dir, "")
	return nil
}

// again looks at a folder of which the system says that something in it changed.
func (w *walk) again(at string) {
	if w.partly[at] {
		return // with the one above it
	}
	dir, err := folder.OpenRoot(w.root)
	for rest := at; err == nil && rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		above := dir
		dir, err = above.Open(name)
		above.Close()
	}
	switch {
	case err == nil:
		w.dir(dir, at)
		w.wg.Wait()
	case !errors.Is(err, syscall.ENOTDIR): // otherwise the folder above has changed too
		w.failed(at, err)
	}
}

func (s *Store) unwatch() {
	if s.watch != nil {
		_ = s.watch.Close()
		s.watch = nil
	}
}

// removed takes out of the index what the walk did not find.
func (w *walk) removed() (list []change) {
	remove := func(path string, e *entry) {
		list = append(list, change{Path: path, Was: &e.state})
		delete(w.index, path)
	}
	above := func(path string) string { return path[:strings.LastIndexByte(path, '/')+1] }
	for path, e := range w.index {
		hidden := func(dir string) bool { return strings.HasPrefix(path, dir) }
		if e.gen != w.gen && (w.partly == nil || w.partly[above(path)]) && !slices.ContainsFunc(w.unreadable, hidden) {
			remove(path, e)
		}
	}
	if len(w.whole) == 0 {
		return list
	}
	for path, e := range w.index { // what was in a folder that is gone
		for dir := above(path); dir != "" && e.gen != w.gen; dir = above(dir) {
			dir = strings.TrimSuffix(dir, "/")
			if e := w.index[dir]; e == nil || e.Kind != isDir {
				remove(path, w.index[path])
				break
			}
		}
	}
	return list
}

// dir looks at a folder and those in it. at is its path, with a slash, or "". It closes dir.
func (w *walk) dir(dir folder.Dir, at string) {
	defer dir.Close()
	if w.watch != nil { // before it is read, so that nothing is missed
		w.watch.Add(dir, at)
	}
	if w.partly != nil {
		w.mu.Lock()
		w.partly[at] = true
		w.mu.Unlock()
	}
	var below []string
	var failed error
	err := dir.List(func(e folder.Entry) bool {
		path := at + e.Name
		f, err := e.Stat()
		isFolder := err == nil && f.Mode.IsDir()
		if errors.Is(err, fs.ErrNotExist) || err == nil && ignored(e.Name) && (isFolder || e.Name == ".git") || w.skip[path] || !utf8.ValidString(e.Name) {
			return true
		}
		old := w.index[path]
		if err == nil && (w.partly == nil || old == nil) && w.count.Add(1) > int64(w.limits.files) {
			err = w.limits.exceeded(w.folder)
		}
		if failed = cmp.Or(err, w.ctx.Err()); failed != nil {
			return false
		}
		w.compare(path, stateOf(f), old)
		if w.watch != nil && f.Links > 1 && !isFolder {
			w.mu.Lock()
			w.linked[at] = true
			w.mu.Unlock()
		}
		if isFolder && (w.partly == nil || old == nil || old.Kind != isDir || w.deep(path)) {
			below = append(below, e.Name)
		}
		return true
	})
	if err = cmp.Or(failed, err); err != nil {
		w.failed(at, err)
	}
	for _, name := range below {
		w.below(dir, name, at+name+"/")
	}
}

// below looks at a folder in dir, in another goroutine if there is a place for one.
func (w *walk) below(dir folder.Dir, name, at string) {
	sub, err := dir.Open(name)
	if err != nil {
		w.failed(at, err)
		return
	}
	select {
	case w.places <- struct{}{}:
		w.wg.Go(func() {
			w.dir(sub, at)
			<-w.places
		})
	default:
		w.dir(sub, at)
	}
}

// failed notes why a folder cannot be read. What is gone is no failure.
func (w *walk) failed(at string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case errors.Is(err, fs.ErrPermission) && at != "":
		w.unreadable = append(w.unreadable, strings.TrimSuffix(at, "/")+"/")
	case errors.Is(err, fs.ErrNotExist) && at != "":
	case w.err == nil:
		w.err = err
	}
}

// deep reports whether all that is in a folder is looked at.
func (w *walk) deep(path string) bool {
	for i := range path {
		if path[i] == '/' && w.whole[path[:i]] {
			return true
		}
	}
	return w.whole[path]
}

func (w *walk) compare(path string, st state, old *entry) {
	if old != nil && old.sameStat(&st) && !old.recent() {
		old.gen = w.gen
		w.known.Add(1)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.differs = append(w.differs, found{path: path, state: st})
}

// readAll reads what differs, and keeps it.
func (s *Store) readAll(ctx context.Context, list []found) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, min(runtime.GOMAXPROCS(0), len(list)))
	for worker := range errs {
		wg.Go(func() {
			z, _ := flate.NewWriter(nil, flate.BestSpeed) // the level is valid
			var content, packed bytes.Buffer
			for errs[worker] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(list) {
					return
				}
				if errs[worker] = ctx.Err(); errs[worker] == nil {
					errs[worker] = s.read(&list[i], &content, z, &packed)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// read reads one file or link and keeps its content. What is gone loses its Kind, and what
// cannot be read has no Sum.
func (s *Store) read(f *found, content *bytes.Buffer, z *flate.Writer, packed *bytes.Buffer) error {
	err := s.fill(&f.state, f.path, content)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.Kind = ""
		return nil
	case errors.Is(err, errMoving):
		f.again = true
	case err != nil: // for example no permission: it is not kept
		return nil
	}
	if f.Sum != "" {
		f.object, err = s.keep(f.Sum, content.Bytes(), z, packed)
		return err
	}
	return nil
}

// errMoving is the error of a file that changes while it is read.
var errMoving = errors.New("it is changing")

// fill adds to a state what only reading tells. The content of a file that is not too large is
// in content.
func (s *Store) fill(st *state, path string, content *bytes.Buffer) (err error) {
	if st.Kind == isLink {
		if st.Link, err = s.root.Readlink(path); !utf8.ValidString(st.Link) {
			st.Kind, st.Link = isOther, "" // JSON would change it
		}
		return err
	}
	if st.Kind != isFile || st.Size > s.limits.file {
		return nil
	}
	f, err := s.root.OpenFile(path, os.O_RDONLY|folder.OpenFlags, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if opened := stateOf(folder.Of(info)); opened.Kind != isFile || opened.Inode != st.Inode {
		return errMoving // and perhaps a pipe, which blocks
	}
	content.Reset()
	if _, err := content.ReadFrom(io.LimitReader(f, s.limits.file+1)); err != nil || int64(content.Len()) > s.limits.file {
		return err
	}
	sum := sha256.Sum256(content.Bytes())
	st.Sum = hex.EncodeToString(sum[:])
	if info, err = f.Stat(); err != nil {
		return err
	}
	if read := stateOf(folder.Of(info)); !read.sameStat(st) {
		return errMoving
	}
	return nil
}
