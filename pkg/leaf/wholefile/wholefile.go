// Package wholefile writes files that are on disk as a whole or not at all, also after
// the machine loses power.
package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Write replaces the file at path, or creates it, for its owner alone. Its folder is
// created if there is none. When Write returns, the file is on disk.
func Write(path string, text []byte) error { return write(path, text, (*os.File).Sync) }

func write(path string, text []byte, sync func(*os.File) error) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, filepath.Base(path)+"-*") // 0600
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = sync(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // it holds nothing that counts
		return err
	}
	return syncDir(dir, sync)
}

// SyncDir writes the entries of a folder to disk, except on Windows, which cannot do that.
func SyncDir(dir string) error { return syncDir(dir, (*os.File).Sync) }

func syncDir(dir string, sync func(*os.File) error) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(sync(f), f.Close())
}

// Cause returns the reason in a file error, without the operation and the path, for messages
// that name the file themselves. Other errors are returned as they are.
func Cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
