//go:build !linux

package folder

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// OpenFlags are for files that may have been replaced by something else.
const OpenFlags = 0

// A Dir is an open folder.
type Dir struct{ root *os.Root }

type entry struct{ fs.DirEntry }

// Open opens the folder at a path, which may be a link.
func Open(path string) (Dir, error) {
	root, err := os.OpenRoot(path)
	return Dir{root}, err
}

// Open opens a folder in d. It follows no link out of d.
func (d Dir) Open(name string) (Dir, error) {
	root, err := d.root.OpenRoot(name)
	return Dir{root}, err
}

// OpenRoot opens the folder of root.
func OpenRoot(root *os.Root) (Dir, error) { return Dir{root}.Open(".") }

// Close closes d.
func (d Dir) Close() { d.root.Close() }

// List calls each for everything in d, in the order of the file system, until it returns false.
func (d Dir) List(each func(Entry) bool) error {
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		list, err := f.ReadDir(256)
		for _, e := range list {
			if !each(Entry{e.Name(), e.IsDir(), entry{e}}) {
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Stat returns the metadata of e, of a link itself. It is valid while List runs.
func (e Entry) Stat() (Stat, error) {
	info, err := e.Info()
	if err != nil {
		return Stat{}, err
	}
	return Of(info), nil
}

// Of returns the metadata in an fs.FileInfo of package os.
func Of(info fs.FileInfo) Stat {
	t := info.ModTime().UnixNano()
	return Stat{Mode: info.Mode(), Size: info.Size(), MTime: t, CTime: t}
}
