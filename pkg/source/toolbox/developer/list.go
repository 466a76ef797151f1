package developer

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	maxEntries = 2000 // of a listing
	maxMatches = 200
)

// An entry is a file or folder of a listing.
type entry struct {
	Path        string `json:"path"`
	Name        string `json:"name"`
	Type        string `json:"type"` // file, directory, symlink or other
	Size        int64  `json:"size"`
	Permissions string `json:"permissions"`
	Modified    string `json:"modified"`
}

type listing struct {
	Path      string  `json:"path"`
	Entries   []entry `json:"entries"`
	Count     int     `json:"entryCount"`
	Recursive bool    `json:"recursive"`
	More      bool    `json:"truncated,omitempty"`
}

// List lists the files of a folder that may be used: with recursive those below it too, with
// hidden those whose names begin with a dot, and with patterns only those whose names fit one.
func (f *Files) List(name string, recursive, hidden bool, patterns []string) (any, error) {
	l := &listing{Path: name, Entries: []entry{}, Recursive: recursive}
	err := f.walk(name, recursive, hidden, func(shown, file string, info fs.FileInfo) error {
		if !named(info.Name(), patterns) {
			return nil
		}
		if len(l.Entries) == maxEntries {
			l.More = true
			return fs.SkipAll
		}
		l.Entries = append(l.Entries, entry{Path: shown, Name: info.Name(), Type: typeOf(info.Mode()), Size: info.Size(),
			Permissions: info.Mode().Perm().String(), Modified: info.ModTime().UTC().Format(time.RFC3339)})
		return nil
	})
	l.Count = len(l.Entries)
	return l, err
}

func named(name string, patterns []string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, name); return ok })
}

func typeOf(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "file"
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "symlink"
	}
	return "other"
}

// walk visits what is below a folder and may be used. Links are not followed.
func (f *Files) walk(name string, recursive, hidden bool, visit func(shown, file string, info fs.FileInfo) error) error {
	top, err := f.resolve(name)
	if err != nil {
		return err
	}
	if info, err := os.Stat(top); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is not a folder", name)
	}
	root, err := f.folder(filepath.Join(top, "a file"))
	if err != nil {
		return err
	}
	defer root.Close()
	seen := f.readable(top)
	err = fs.WalkDir(root.FS(), ".", func(rest string, d fs.DirEntry, err error) error {
		file := filepath.Join(top, rest)
		if err != nil || file == top {
			return nil //nolint:nilerr // what cannot be read is left out
		}
		if !hidden && strings.HasPrefix(d.Name(), ".") {
			return skip(d)
		}
		info, err := d.Info()
		if err == nil && f.readable(file) {
			seen = true
			if err := visit(filepath.ToSlash(filepath.Join(name, rest)), file, info); err != nil {
				return err
			}
		}
		if !recursive {
			return skip(d)
		}
		return nil
	})
	if err == nil && !seen {
		return fmt.Errorf("%s has no files that may be used here", name)
	}
	return err
}

func skip(d fs.DirEntry) error {
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// A match is a line that search has found.
type match struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// A found is the result of search.
type found struct {
	Path    string  `json:"path"`
	Matches []match `json:"matches"`
	More    bool    `json:"truncated,omitempty"`
}

// search looks for lines that a regular expression fits, in a file or in all text
// files below a folder.
func (b *box) search(a *arguments) (any, error) {
	re, err := regexp.Compile(a.Pattern)
	if err != nil || a.Pattern == "" {
		return nil, fmt.Errorf("the argument pattern %q is not a regular expression", a.Pattern)
	}
	f := &found{Path: a.Path, Matches: []match{}}
	one := func(shown, file string, _ fs.FileInfo) error {
		content, err := b.files.Read(file)
		if err != nil || bytes.IndexByte(content[:min(len(content), 8000)], 0) >= 0 {
			return nil //nolint:nilerr // not a text that may be read
		}
		for i, line := range linesOf(string(content)) {
			if !re.MatchString(line) {
				continue
			}
			if len(f.Matches) == maxMatches {
				f.More = true
				return fs.SkipAll
			}
			f.Matches = append(f.Matches, match{shown, i + 1, line})
		}
		return nil
	}
	file, err := b.files.place(a.Path, false)
	if info, stat := os.Stat(file); err == nil && stat == nil && info.Mode().IsRegular() {
		_ = one(a.Path, file, info)
		return f, nil
	}
	return f, b.files.walk(a.Path, true, a.Hidden, func(shown, file string, info fs.FileInfo) error {
		if !info.Mode().IsRegular() || !named(info.Name(), a.Patterns) {
			return nil
		}
		return one(shown, file, info)
	})
}
