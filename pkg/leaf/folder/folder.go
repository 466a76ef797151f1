// Package folder lists folders with the metadata of what is in them, with one system call per
// file on Linux.
package folder

import (
	"io/fs"
	"path/filepath"
)

// A Stat is the metadata of a file. If the system does not tell CTime, it is MTime.
type Stat struct {
	Mode  fs.FileMode
	Size  int64
	MTime int64 // of the content, in nanoseconds
	CTime int64 // of the content or the metadata, in nanoseconds
	Inode uint64
	Links uint64 // the names of the file; 0 if the system does not tell
}

// An Entry is a name in a folder.
type Entry struct {
	Name string
	// IsDir is false for a link to a folder.
	IsDir bool
	entry
}

// Below returns those of paths that are below dir, relative to it and with slashes. Links are
// followed; a path that is a link itself is returned as well as what it names. Paths need not
// exist.
func Below(dir string, paths []string) (list []string) {
	dir = resolve(dir)
	for _, path := range paths {
		abs, err := filepath.Abs(path)
		if err != nil {
			continue
		}
		at, to := filepath.Join(resolve(filepath.Dir(abs)), filepath.Base(abs)), resolve(abs)
		for _, p := range []string{at, to} {
			if rel, err := filepath.Rel(dir, p); err == nil && rel != "." && filepath.IsLocal(rel) {
				list = append(list, filepath.ToSlash(rel))
			}
			if at == to {
				break
			}
		}
	}
	return list
}

// resolve follows the links in an absolute path whose end may not exist.
func resolve(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolve(dir), filepath.Base(path))
	}
	return path
}
