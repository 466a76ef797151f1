package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/folder"
)

// A history is what a log has.
type history struct {
	session string
	lines   []line
	damaged int    // lines that cannot be read
	text    []byte // the whole lines
}

// read reads the log of a Store, which may come from elsewhere: paths that leave the folder are
// dropped. A line that is damaged does not affect others, and an incomplete last one does not
// count.
func read(dir string) (*history, error) {
	path := filepath.Join(dir, logName)
	for _, p := range []string{dir, path} {
		if info, err := os.Lstat(p); err != nil {
			return nil, err
		} else if p == dir && !info.IsDir() || p == path && !info.Mode().IsRegular() || info.Size() > defaults().log {
			return nil, fmt.Errorf("read checkpoints: %s is not a log of at most %d MiB in a folder", p, defaults().log>>20)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read checkpoints: %w", err)
	}
	h := &history{text: text[:bytes.LastIndexByte(text, '\n')+1]}
	for text := range bytes.Lines(h.text) {
		var l line
		sum, doc, _ := bytes.Cut(bytes.TrimSuffix(text, []byte("\n")), []byte(" "))
		if fmt.Sprintf("%08x", crc32.ChecksumIEEE(doc)) != string(sum) || json.Unmarshal(doc, &l) != nil {
			h.damaged++
			continue
		}
		if l.Kind == kindStore {
			h.session = l.Session
		}
		l.Changes = slices.DeleteFunc(l.Changes, func(c change) bool { return !validPath(c.Path) })
		h.lines = append(h.lines, l)
	}
	return h, nil
}

// validPath reports whether a path is one that a scan can have found.
func validPath(p string) bool {
	if !filepath.IsLocal(p) || path.Clean(p) != p || p == "." {
		return false
	}
	parts := strings.Split(p, "/")
	last := len(parts) - 1
	return !slices.ContainsFunc(parts[:last], ignored) && parts[last] != ".git"
}

// since returns the lines of the calls of a turn and of what followed, or with turn 0 that of
// the last undo. In a copy, turns that it did not take over are not those of their number.
func (h *history) since(turn int) []line {
	first, last := len(h.lines), math.MaxInt
	for i, l := range slices.Backward(h.lines) {
		switch {
		case l.Kind == kindStore && i > 0:
			last = min(last, l.Turn)
		case l.Undo && turn == 0 && l.Kind == kindAfter:
			return h.lines[i : i+1]
		case l.Turn > 0 && turn > 0 && l.Turn >= turn && l.Turn <= last:
			first = i
		}
	}
	return h.lines[first:]
}

// A Plan is what an undo would do.
type Plan struct {
	Folder string
	Items  []Item   // in the order of their paths
	Stays  []Item   // what cannot be put back
	Notes  []string // what else a person should know
}

// An Item is one path of a Plan.
type Item struct {
	Path string
	Do   string // "put back", "remove" or "create", for Items
	Why  string // it stays, for Stays

	was *state // to put back
	is  *state // now
	not bool   // somebody else changed it in between
}

// ErrNone means that there are no checkpoints.
var ErrNone = errors.New("the session has no checkpoints")

// OpenLast opens the Store at a place to undo something in the folder of its last calls. The
// error is ErrNone if there is no Store of the session.
func OpenLast(ctx context.Context, p Place) (*Store, error) {
	h, err := read(p.Dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && h.session != p.Session {
		return nil, ErrNone
	}
	if err != nil {
		return nil, err
	}
	for _, l := range slices.Backward(h.lines) {
		if l.Folder != "" {
			s, err := Open(ctx, p, l.Folder)
			if err == nil {
				s.limits.files *= 10 // what calls created can be removed
			}
			return s, err
		}
	}
	return nil, ErrNone
}

// Plan returns what would put the folder back to where it was before the calls of a turn of the
// session; turn 0 is before the last undo. What others changed since is not touched.
func (s *Store) Plan(turn int) (*Plan, error) {
	h, err := read(s.dir)
	if err != nil {
		return nil, err
	}
	p := &Plan{Folder: s.folder}
	items := map[string]*Item{}
	for _, l := range h.since(turn) {
		switch {
		case l.Kind == kindNone:
			p.note("nothing was kept from turn %d on: %s", l.Turn, l.Why)
		case l.Kind != kindAfter:
		case l.Folder != s.folder:
			p.note("what calls changed in %s stays", l.Folder)
		default:
			if l.Late && l.Undo {
				p.note("the program ended during an undo: what changed until it was started again counts as changed by the undo")
			} else if l.Late {
				p.note("the program ended during a call of turn %d: what changed until it was started again counts as changed by the call", l.Turn)
			}
			collect(items, l.Changes)
		}
	}
	if h.damaged > 0 {
		p.note("%d lines of %s are damaged: changes that they name are not known", h.damaged, filepath.Join(s.dir, logName))
	}
	for _, i := range items {
		s.judge(p, i)
	}
	for _, list := range [][]Item{p.Items, p.Stays} {
		slices.SortFunc(list, func(a, b Item) int { return strings.Compare(a.Path, b.Path) })
	}
	return p, nil
}

func (p *Plan) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(p.Notes, text) {
		p.Notes = append(p.Notes, text)
	}
}

// collect adds the changes of an interval to those of earlier ones.
func collect(items map[string]*Item, changes []change) {
	for _, c := range changes {
		i := items[c.Path]
		if i == nil {
			i = &Item{Path: c.Path, was: c.Was, is: c.Was}
			items[i.Path] = i
		}
		i.not = i.not || !same(i.is, c.Was)
		i.is = c.Is
	}
}

// judge adds an item to the plan.
func (s *Store) judge(p *Plan, i *Item) {
	now, err := s.look(i.Path)
	switch {
	case err == nil && same(now, i.was):
		return // it is as it was
	case err != nil:
		i.Why = err.Error()
	case i.not || !same(now, i.is):
		i.Why = "it was changed by somebody else since"
	case !kept(i.was) || !kept(i.is):
		i.Why = "not kept"
		if !sameContent(i.was, i.is) {
			break
		}
		fallthrough // only the mode differs
	default:
		i.Why = ""
		switch {
		case i.was == nil:
			i.Do = "remove"
		case i.is == nil:
			i.Do = "create"
		default:
			i.Do = "put back"
		}
		p.Items = append(p.Items, *i)
		return
	}
	p.Stays = append(p.Stays, *i)
}

// kept reports whether a state can be made again.
func kept(st *state) bool {
	return st == nil || st.Kind == isDir || st.Kind == isLink || st.Kind == isFile && st.Pack != ""
}

func sameContent(a, b *state) bool {
	return a != nil && b != nil && a.Kind == isFile && b.Kind == isFile && a.Sum == b.Sum && a.Sum != ""
}

// look returns the present state of a path, nil if nothing is there. A folder above it that is
// a link does not count as one.
func (s *Store) look(p string) (*state, error) {
	for i, r := range p {
		if r == '/' {
			if info, err := s.root.Lstat(p[:i]); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
				return nil, nil
			} else if err != nil {
				return nil, err
			}
		}
	}
	info, err := s.root.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !s.exactName(p) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	st := stateOf(folder.Of(info))
	if st.Kind == isFile && st.Size > s.limits.file {
		return &st, nil
	}
	var content bytes.Buffer
	return &st, s.fill(&st, p, &content)
}

// exactName reports whether a path that exists is spelled so in its folder: some file systems
// find it in another case too.
func (s *Store) exactName(p string) bool {
	if runtime.GOOS != "darwin" && runtime.GOOS != "windows" {
		return true
	}
	dir, err := s.root.Open(path.Dir(p))
	if err != nil {
		return true
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	return err != nil || slices.Contains(names, path.Base(p))
}
