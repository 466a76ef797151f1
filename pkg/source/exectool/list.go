package exectool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/filemode"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

type candidate struct {
	src  *Source
	path string // for people: as the source names it
	abs  string // what is executed
	dir  string // the real path of the folder that it is listed in
	name string // its name there
	link bool   // that may be a link
	real string // its real path
	info fs.FileInfo
}

// A lister collects candidates. Looking at a tree executes nothing.
type lister struct {
	found    []candidate
	problems []Problem
	files    []string          // see Toolset.Files
	seen     map[string]bool   // by abs
	folders  map[string]folder // by real path
}

// A folder is what is known of one that holds executables.
type folder struct {
	err  error // why nothing in it may be executed
	open bool  // others may put files into it
}

func (l *lister) problem(path string, err error) {
	l.problems = append(l.problems, Problem{Path: path, Err: err})
}

func (l *lister) add(src *Source) {
	info, err := os.Stat(src.Path)
	if err != nil {
		l.problem(src.Path, fmt.Errorf("read tools: %w", err))
		return
	}
	abs, err := filepath.Abs(src.Path)
	if err != nil {
		l.problem(src.Path, fmt.Errorf("read tools %s: %w", src.Path, err))
		return
	}
	if info.IsDir() {
		l.addDir(src, abs)
		return
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		l.problem(src.Path, fmt.Errorf("read tool %s: %w", src.Path, err))
		return
	}
	l.files = append(l.files, join(dir, filepath.Base(abs)))
	switch {
	case !info.Mode().IsRegular():
		l.problem(src.Path, fmt.Errorf("tool %s: it is not a regular file (%s)", src.Path, info.Mode().Type()))
	case filemode.Of(abs, info)&0o111 == 0:
		l.problem(src.Path, fmt.Errorf("tool %s: it is not executable (chmod +x)", src.Path))
	default:
		l.addFile(candidate{src: src, path: src.Path, abs: abs, dir: dir, name: filepath.Base(abs), info: info, link: true})
	}
}

// addDir looks at a folder: every regular file in it with an executable bit,
// links followed, but no *.json, which are agent files if anything.
func (l *lister) addDir(src *Source, abs string) {
	dir, err := filepath.EvalSymlinks(abs)
	if err != nil {
		l.problem(src.Path, fmt.Errorf("read tools %s: %w", src.Path, err))
		return
	}
	l.files = append(l.files, dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		l.problem(src.Path, fmt.Errorf("read tools: %w", err))
		return
	}
	if f := l.folder(dir); f.err != nil {
		l.problem(src.Path, fmt.Errorf("tools %s: %w", src.Path, f.err))
		return
	}
	if len(entries) > MaxFiles {
		l.problem(src.Path, fmt.Errorf("tools %s: %d files; the limit is %d", src.Path, len(entries), MaxFiles))
		return
	}
	l.found = slices.Grow(l.found, len(entries))
	for _, e := range entries {
		name := e.Name()
		if jsondoc.HasName(name) || !strings.Contains(name, src.Filter) {
			continue
		}
		link := e.Type()&fs.ModeSymlink != 0
		if !link && !e.Type().IsRegular() {
			continue
		}
		c := candidate{src: src, path: join(src.Path, name), abs: join(abs, name), dir: dir, name: name, link: link}
		if link {
			c.info, err = os.Stat(c.abs)
		} else {
			c.info, err = os.Lstat(c.abs)
		}
		switch {
		case link && errors.Is(err, fs.ErrNotExist):
			target, _ := os.Readlink(c.abs)
			l.problem(c.path, fmt.Errorf("tool %s: a dangling link to %s", c.path, target))
		case errors.Is(err, fs.ErrNotExist): // deleted just now
		case err != nil:
			l.problem(c.path, fmt.Errorf("tool %s: %w", c.path, err))
		case !c.info.Mode().IsRegular():
		case filemode.Of(c.abs, c.info)&0o111 != 0:
			l.addFile(c)
		case isProgram(c.abs):
			l.problem(c.path, fmt.Errorf("tool %s: %w; chmod +x makes it a tool", c.path, ErrNotExecutable))
		}
	}
}

// isProgram reports whether a file begins like one that can be executed.
func isProgram(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4)
	n, _ := io.ReadFull(f, head)
	return bytes.HasPrefix(head[:n], []byte("#!")) || bytes.HasPrefix(head[:n], []byte("\x7fELF"))
}

const separator = string(filepath.Separator)

// join is filepath.Join for a name without separators, which needs no cleaning.
func join(dir, name string) string {
	return strings.TrimSuffix(dir, separator) + separator + name
}

// addFile takes in an executable, unless others than its owner decide what it
// does. A file that was found before keeps the first source's options.
func (l *lister) addFile(c candidate) {
	if l.seen[c.abs] {
		return
	}
	l.seen[c.abs] = true
	c.real = join(c.dir, c.name)
	if c.link {
		var err error
		if c.real, err = filepath.EvalSymlinks(c.abs); err != nil {
			l.problem(c.path, fmt.Errorf("tool %s: %w", c.path, err))
			return
		}
		l.files = append(l.files, c.real)
	}
	if err := l.trusted(&c); err != nil {
		l.problem(c.path, fmt.Errorf("tool %s: %w", c.path, err))
		return
	}
	l.found = append(l.found, c)
}

// trusted refuses an executable that others may write or replace.
func (l *lister) trusted(c *candidate) error {
	if filemode.Of(c.abs, c.info)&0o002 != 0 {
		return fmt.Errorf("%w file; it is not executed (chmod o-w)", ErrWritable)
	}
	home := l.folder(c.dir)
	if home.err != nil {
		return home.err
	}
	if c.link {
		home = l.folder(filepath.Dir(c.real))
		if home.err != nil {
			return fmt.Errorf("it is a link to %s: %w", c.real, home.err)
		}
	}
	if home.open && isForeign(c.info) {
		return fmt.Errorf("%w folder, and a file of another user; it is not executed", ErrWritable)
	}
	return nil
}

// folder looks at a folder once. One in which others may replace files is
// refused; with the sticky bit they may only add their own.
func (l *lister) folder(dir string) folder {
	if f, ok := l.folders[dir]; ok {
		return f
	}
	var f folder
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		f.err = err
	case filemode.Of(dir, info)&0o002 != 0:
		f.open = true
		if info.Mode()&fs.ModeSticky == 0 {
			f.err = fmt.Errorf("%w folder %s; nothing in it is executed (chmod o-w)", ErrWritable, dir)
		}
	}
	l.folders[dir] = f
	return f
}
