package session

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/agents-exe/agents/pkg/leaf/wholefile"
)

// A disk makes all changes to files, and lets tests make them fail.
type disk struct {
	fail func(op string, n int) error // Options.Fail

	mu sync.Mutex
	n  int
}

// before is called before every change.
func (d *disk) before(op string) error {
	if d.fail == nil {
		return nil
	}
	d.mu.Lock()
	d.n++
	n := d.n
	d.mu.Unlock()
	return d.fail(op, n)
}

// makeDir creates a folder and its parents. It returns the folders to which it added
// an entry.
func (d *disk) makeDir(dir string) (changed []string, err error) {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil, nil
	} else if err == nil {
		return nil, &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("it is a file")}
	}
	up := filepath.Dir(dir)
	if up != dir {
		if changed, err = d.makeDir(up); err != nil {
			return nil, err
		}
	}
	if err := d.before("mkdir"); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return append(changed, up), nil
}

// create creates a file that must not exist.
func (d *disk) create(name string) (*os.File, error) {
	if err := d.before("create"); err != nil {
		return nil, err
	}
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// writeFile writes and syncs a new file.
func (d *disk) writeFile(path string, content []byte) error {
	f, err := d.create(path)
	if err != nil {
		return err
	}
	if err = d.write(f, content, 0); err == nil {
		err = d.sync(f)
	}
	return errors.Join(err, f.Close())
}

// write writes b at an offset, in two halves when a test can make it fail.
func (d *disk) write(f *os.File, b []byte, at int64) error {
	if d.fail == nil {
		_, err := f.WriteAt(b, at)
		return err
	}
	half := len(b) / 2
	for _, part := range [][]byte{b[:half], b[half:]} {
		if err := d.before("write"); err != nil {
			return err
		}
		if _, err := f.WriteAt(part, at); err != nil {
			return err
		}
		at += int64(len(part))
	}
	return nil
}

func (d *disk) truncate(f *os.File, size int64) error {
	if err := d.before("truncate"); err != nil {
		return err
	}
	return f.Truncate(size)
}

func (d *disk) sync(f *os.File) error {
	if err := d.before("sync"); err != nil {
		return err
	}
	return f.Sync()
}

func (d *disk) rename(from, to string) error {
	if err := d.before("rename"); err != nil {
		return err
	}
	return os.Rename(from, to)
}

func (d *disk) syncDir(dir string) error {
	if err := d.before("sync folder"); err != nil {
		return err
	}
	return wholefile.SyncDir(dir)
}
