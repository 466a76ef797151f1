package workspace

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// copyTree copies the file or folder at name in the folder top to the same place in the folder to.
// Links stay links; workspaces and what is neither file, folder nor link are left out. io.Copy
// shares blocks where the file system can. Links lead nowhere outside of both. Unless it is nil,
// take is asked about each entry.
func copyTree(top, name, to string, take func(path string, info fs.FileInfo) (bool, error)) error {
	from, err := os.OpenRoot(top)
	if err != nil {
		return err
	}
	defer from.Close()
	into, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer into.Close()
	return walk(from, filepath.Clean(name), func(path string, info fs.FileInfo) error {
		if take != nil {
			if ok, err := take(path, info); err != nil || !ok && !info.IsDir() {
				return err
			} else if !ok {
				return fs.SkipDir
			}
		}
		return copyEntry(from, into, path, path, info)
	})
}

// walk visits what is at name and below, without workspaces.
func walk(root *os.Root, name string, visit func(path string, info fs.FileInfo) error) error {
	return fs.WalkDir(root.FS(), filepath.ToSlash(name), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == filepath.ToSlash(Folder) {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return visit(path, info)
	})
}

// copyEntry copies the entry at path to another name, where nothing is but perhaps a folder.
func copyEntry(from, into *os.Root, path, to string, info fs.FileInfo) error {
	kind := info.Mode()
	if err := into.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	switch {
	case kind.IsDir():
		return into.MkdirAll(to, info.Mode().Perm()|0o700)
	case kind&fs.ModeSymlink != 0:
		target, err := from.Readlink(path)
		if err != nil {
			return err
		}
		return into.Symlink(target, to)
	case !kind.IsRegular():
		return nil
	}
	in, err := from.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := into.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm()|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), into.Chmod(to, info.Mode().Perm()), into.Chtimes(to, info.ModTime(), info.ModTime()))
}

// same reports whether two files have the same kind, mode and content. A file that cannot be
// read is like no other.
func same(a, b string) bool {
	x, err := os.Lstat(a)
	y, err2 := os.Lstat(b)
	if err != nil || err2 != nil || x.Mode().Type() != y.Mode().Type() || x.Mode().Perm() != y.Mode().Perm() {
		return false
	}
	if x.Mode()&fs.ModeSymlink != 0 {
		p, err := os.Readlink(a)
		q, err2 := os.Readlink(b)
		return err == nil && err2 == nil && p == q
	}
	return x.Mode().IsRegular() && x.Size() == y.Size() && sameContent(a, b)
}

func sameContent(a, b string) bool {
	f, err := os.Open(a)
	if err != nil {
		return false
	}
	defer f.Close()
	g, err := os.Open(b)
	if err != nil {
		return false
	}
	defer g.Close()
	p, q := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(f, p)
		m, err2 := io.ReadFull(g, q)
		if !bytes.Equal(p[:n], q[:m]) {
			return false
		}
		if err != nil || err2 != nil {
			end := func(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
			return end(err) && end(err2)
		}
	}
}
