// Package archive keeps folders in a store: the folder of an agent, which workers unpack,
// and the working folder of a run, which moves from host to host.
//
//	blob, err := archive.Pack(ctx, s, owner, "agents/reviewer")
//	dir, err := archive.Shared(ctx, s, blob, cache)
//
// An archive is a gzip-compressed tar file, a blob of the store. The same files with the same
// modes have the same archive; times and owners are left out, and so is everything that is
// neither a folder, a file nor a symbolic link.
//
// [Workspaces] makes the working folders of runs.
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
)

const (
	// MaxBytes limits the files of a folder together.
	MaxBytes = 256 << 20
	// entryBytes is what an entry counts beyond its content.
	entryBytes = 512

	keysFile = "agents-exe.keys"
)

var errTooLarge = fmt.Errorf("its files are larger than %d MiB in total", MaxBytes>>20)

// Pack stores the folder of an agent for an owner and returns the name of the blob. Files of keys
// (agents-exe.keys) and the folders of Git are left out. A symbolic link to a place outside
// the folder is an error.
func Pack(ctx context.Context, s store.Store, owner, dir string) (blob string, err error) {
	data, err := pack(ctx, dir, false)
	if err != nil {
		return "", fmt.Errorf("pack %s: %w", dir, err)
	}
	return store.PutBlob(ctx, s, owner, data)
}

// pack returns the archive of a folder. That of a workspace, which programs are changing, has
// its .git, and lacks symbolic links that leave it.
func pack(ctx context.Context, dir string, workspace bool) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // a valid level
	t := tar.NewWriter(z)
	left := int64(MaxBytes)
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && workspace || err == nil && name == ".":
			return nil
		case err != nil || ctx.Err() != nil:
			return errors.Join(err, context.Cause(ctx))
		case d.Name() == ".git" && !workspace && d.IsDir():
			return fs.SkipDir
		case d.Name() == ".git" && !workspace || d.Name() == keysFile:
			return nil
		}
		h, data, err := entry(root, name, d, left)
		if workspace && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, errLeaves)) || err == nil && h == nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		left -= h.Size + entryBytes
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err = t.Write(data)
		return err
	})
	if err == nil {
		err = errors.Join(t.Close(), z.Close())
	}
	return out.Bytes(), err
}

var errLeaves = errors.New("a symbolic link that leaves the folder")

// entry returns the header and the content of a file, with at most limit bytes; nil for one
// that archives leave out.
func entry(root *os.Root, name string, d fs.DirEntry, limit int64) (h *tar.Header, data []byte, err error) {
	info, err := d.Info()
	if err != nil {
		return nil, nil, err
	}
	h = &tar.Header{Name: name, Mode: int64(info.Mode().Perm())}
	switch info.Mode().Type() {
	case fs.ModeDir:
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case fs.ModeSymlink:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = root.Readlink(name); err == nil {
			err = stays(root, name)
		}
	case 0:
		h.Typeflag = tar.TypeReg
		if info.Size()+entryBytes > limit {
			return nil, nil, errTooLarge
		}
		data, err = root.ReadFile(name)
		h.Size = int64(len(data)) // it may have changed
	default:
		return nil, nil, nil
	}
	return h, data, err
}

// stays returns an error if a symbolic link leads out of the root.
func stays(root *os.Root, name string) error {
	if _, err := root.Stat(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errLeaves
	}
	return nil
}

// Unpack writes the files of an archive into a folder that is empty. Whatever the archive
// says, nothing is written elsewhere, and no symbolic link leads elsewhere.
func Unpack(ctx context.Context, s store.Store, blob, dir string) error {
	data, err := store.GetBlob(ctx, s, blob)
	if err == nil {
		err = unpack(ctx, data, dir)
	}
	if err != nil {
		return fmt.Errorf("unpack %s: %w", blob, err)
	}
	return nil
}

func unpack(ctx context.Context, data []byte, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	var folders, links []*tar.Header
	left := int64(MaxBytes)
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		h.Name = filepath.FromSlash(path.Clean(h.Name))
		if left -= h.Size + entryBytes; h.Size < 0 || left < 0 {
			return errTooLarge
		}
		if err := write(root, h, t); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			folders = append(folders, h)
		case tar.TypeSymlink:
			links = append(links, h)
		}
	}
	for _, h := range links { // now that all exist that they lead to
		if err := stays(root, h.Name); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	for _, h := range slices.Backward(folders) { // now that nothing is written to them
		if err := root.Chmod(h.Name, fs.FileMode(h.Mode).Perm()); err != nil {
			return err
		}
	}
	return nil
}

func write(root *os.Root, h *tar.Header, content io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(h.Name), 0o700); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(h.Name, 0o700)
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, h.Name)
	case tar.TypeReg:
	default:
		return errors.New("neither a folder, a file nor a symbolic link")
	}
	f, err := root.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Chmod(fs.FileMode(h.Mode).Perm()), f.Close())
}

// Shared returns a folder below cache with the files of an archive. It unpacks the archive
// unless another call, of any process, has done so. The files must not be changed.
func Shared(ctx context.Context, s store.Store, blob, cache string) (dir string, err error) {
	dir = filepath.Join(cache, path.Base(blob))
	if !filepath.IsLocal(filepath.Base(dir)) || filepath.Dir(dir) != filepath.Clean(cache) {
		return "", fmt.Errorf("%q is not a valid name of a blob", blob)
	}
	return dir, makeFolder(dir, func(temp string) error { return Unpack(ctx, s, blob, temp) })
}

// makeFolder makes a folder that has its name only when fill has filled it. Of several calls
// one succeeds, and the others use its folder.
func makeFolder(dir string, fill func(temp string) error) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err != nil {
		return err
	}
	if err = fill(temp); err == nil {
		err = os.Rename(temp, dir)
	}
	if err == nil {
		return nil
	}
	_ = os.RemoveAll(temp) // the first error counts
	if _, missing := os.Stat(dir); missing == nil {
		return nil
	}
	return err
}
