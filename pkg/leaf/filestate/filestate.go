// Package filestate finds the files below a folder that were created, changed or removed
// between two moments, by their metadata, without their content. A [State] is what was
// seen at the first moment; [State.Changes] looks again and compares.
//
// A look has limits of entries and of time. If one is reached, the result says so, and only
// folders that were read to their end at both moments are compared. The contents of .git, links
// to elsewhere and folders themselves are not looked at.
package filestate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/folder"
)

// The kinds of Change.
const (
	Created = "created"
	Changed = "changed"
	Removed = "removed"
)

// A Change is a file that is not as it was. A file whose metadata alone changed counts as
// changed.
type Change struct {
	// Path is relative to the folder, with slashes.
	Path string
	Kind string
	// Size is that after the change, or that of the file that was removed.
	Size int64
	// Digest is the beginning of the SHA-256 of the content (of a link: of its target), in
	// hexadecimal; "" if the file was removed, is not regular, or is larger than MaxDigest.
	Digest string
}

// Limits of a look. The zero value means the defaults.
type Limits struct {
	Entries int           // DefaultEntries
	Time    time.Duration // DefaultTime
	// Skip are paths of files and folders that are not looked at.
	Skip []string
}

const (
	DefaultEntries = 20_000
	DefaultTime    = 100 * time.Millisecond
	// MaxDigest is the size of the largest file that is read. DigestChars is the length of a
	// digest.
	MaxDigest   = 4 << 20
	DigestChars = 12
)

// racy is how long before a look a file may have changed so that another change in the same tick
// of the file system's clock would leave its times as they are. The content of such files is
// compared.
const racy = 20 * time.Millisecond

// A State is what a folder held at a moment.
type State struct {
	dir    string
	limits Limits
	files  map[string]folder.Stat
	whole  map[string]bool   // the folders that were read to their end
	recent map[string]string // digests of files that had just changed
	limit  string            // that was reached; "" if none
	start  time.Time
}

// Look looks at all files below dir, an absolute path. It ends early if ctx does: then it has not
// seen everything, and says nothing about it.
func Look(ctx context.Context, dir string, limits Limits) *State {
	s := look(ctx, dir, limits)
	for path, f := range s.files {
		if f.Mode.IsRegular() && s.start.UnixNano()-f.CTime < int64(racy) {
			if s.recent == nil {
				s.recent = map[string]string{}
			}
			s.recent[path] = digest(s.abs(path), f, s.deadline())
		}
	}
	return s
}

func look(ctx context.Context, dir string, limits Limits) *State {
	limits.Entries, limits.Time = cmp.Or(limits.Entries, DefaultEntries), cmp.Or(limits.Time, DefaultTime)
	s := &State{dir: dir, limits: limits, files: map[string]folder.Stat{}, whole: map[string]bool{}, start: time.Now()}
	if d, err := folder.Open(dir); err == nil {
		s.walk(ctx, d, "", folder.Below(dir, limits.Skip))
	}
	return s
}

func (s *State) abs(path string) string { return filepath.Join(s.dir, filepath.FromSlash(path)) }

// deadline is when digests end.
func (s *State) deadline() time.Time { return s.start.Add(10 * s.limits.Time) }

// walk looks at the folder at rel and those below it. It closes dir.
func (s *State) walk(ctx context.Context, dir folder.Dir, rel string, skip []string) {
	const often, always = 256, 1000 // files
	defer dir.Close()
	var below []string
	err := dir.List(func(e folder.Entry) bool {
		path := strings.TrimPrefix(rel+"/"+e.Name, "/")
		switch {
		case len(skip) > 0 && slices.Contains(skip, path):
		case e.IsDir:
			if e.Name != ".git" {
				below = append(below, e.Name)
			}
		case len(s.files) >= s.limits.Entries:
			s.limit = fmt.Sprintf("more than %d files", s.limits.Entries)
		default:
			if f, err := e.Stat(); err == nil {
				s.files[path] = f
			}
		}
		if n := len(s.files); n > always && n%often == 0 && time.Since(s.start) > s.limits.Time { // a small folder is always read
			s.limit = fmt.Sprintf("it took longer than %s", s.limits.Time)
		}
		return s.limit == ""
	})
	if s.limit == "" && ctx.Err() != nil {
		s.limit = "the look was interrupted"
	}
	if err != nil || s.limit != "" {
		return // what cannot be read is not compared
	}
	s.whole[rel] = true
	slices.Sort(below) // so that two looks with a limit see the same
	for _, name := range below {
		sub, err := dir.Open(name)
		if err != nil {
			continue
		}
		if s.walk(ctx, sub, strings.TrimPrefix(rel+"/"+name, "/"), skip); s.limit != "" {
			return
		}
	}
}

// Changes looks again and returns what is not as it was, sorted by path. If not everything was
// compared, partial says why.
func (s *State) Changes() (list []Change, partial string) {
	now := look(context.Background(), s.dir, s.limits)
	for path, f := range now.files {
		before, had := s.files[path]
		switch {
		case !had && s.saw(path):
			list = append(list, now.change(path, Created, f))
		case had && (before != f || s.recent[path] != "" && s.recent[path] != digest(s.abs(path), f, now.deadline())):
			list = append(list, now.change(path, Changed, f))
		}
	}
	for path, f := range s.files {
		if _, has := now.files[path]; !has && now.saw(path) {
			list = append(list, Change{Path: path, Kind: Removed, Size: f.Size})
		}
	}
	return sorted(list), cmp.Or(now.limit, s.limit)
}

// Since returns the files below dir that were created or changed since a moment: for the case
// that there is no State. It does not know which of them are new, and calls all of them changed.
// Files that were removed cannot be seen.
func Since(dir string, t time.Time, limits Limits) (list []Change, partial string) {
	s := look(context.Background(), dir, limits)
	for path, f := range s.files {
		if f.CTime >= t.Add(-racy).UnixNano() {
			list = append(list, s.change(path, Changed, f))
		}
	}
	return sorted(list), s.limit
}

// saw reports whether a file at path would have been seen: the nearest folder above it that
// existed was read to its end.
func (s *State) saw(path string) bool {
	if s.limit == "" && len(s.whole) > 0 {
		return true
	}
	for {
		i := strings.LastIndexByte(path, '/')
		path = path[:max(i, 0)]
		if s.whole[path] {
			return true
		}
		if _, err := os.Lstat(s.abs(path)); i < 0 || err == nil {
			return false
		}
	}
}

func (s *State) change(path, kind string, f folder.Stat) Change {
	return Change{Path: path, Kind: kind, Size: f.Size, Digest: digest(s.abs(path), f, s.deadline())}
}

func sorted(list []Change) []Change {
	slices.SortFunc(list, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// digest returns the digest of a file; "" if it cannot be read before the deadline.
func digest(path string, f folder.Stat, deadline time.Time) string {
	h := sha256.New()
	switch {
	case time.Now().After(deadline):
		return ""
	case f.Mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return ""
		}
		h.Write([]byte(target))
	case !f.Mode.IsRegular() || f.Size > MaxDigest:
		return ""
	default:
		file, err := os.OpenFile(path, os.O_RDONLY|folder.OpenFlags, 0) // it may be another file by now
		if err != nil {
			return ""
		}
		defer file.Close()
		if n, err := io.Copy(h, io.LimitReader(file, MaxDigest+1)); err != nil || n > MaxDigest {
			return ""
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:DigestChars]
}
