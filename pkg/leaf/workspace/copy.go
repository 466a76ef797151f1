package workspace

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// copyTree copies the file or folder at name in the folder top to another path. Links stay links;
// workspaces and what is neither file, folder nor link are left out. io.Copy shares blocks where
// the file system can. Nothing outside of top is read through links.
func copyTree(top, name, to string) error {
	from, err := os.OpenRoot(top)
	if err != nil {
		return err
	}
	defer from.Close()
	return fs.WalkDir(from.FS(), filepath.ToSlash(filepath.Clean(name)), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == filepath.ToSlash(Folder) {
			return fs.SkipDir
		}
		rel, err := filepath.Rel(filepath.Clean(name), filepath.FromSlash(path))
		if err != nil {
			return err
		}
		return copyEntry(from, path, filepath.Join(to, rel), d.Type())
	})
}

func copyEntry(from *os.Root, path, to string, kind fs.FileMode) error {
	info, err := from.Lstat(path)
	if err != nil {
		return err
	}
	switch {
	case kind.IsDir():
		return os.MkdirAll(to, info.Mode().Perm()|0o700)
	case kind&fs.ModeSymlink != 0:
		target, err := from.Readlink(path)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case !kind.IsRegular():
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := from.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm()|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// same reports whether two files have the same kind, mode and content. A file that cannot be
// read is like no other.
func same(a, b string) bool {
	x, err := os.Lstat(a)
	y, err2 := os.Lstat(b)
	if err != nil || err2 != nil || x.Mode() != y.Mode() {
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
