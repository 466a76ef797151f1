package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// PrivateTemp returns the folder that has the private temporary folders of this user's
// calls. It creates it if need be.
func PrivateTemp() (string, error) {
	parent := os.TempDir()
	if real, err := filepath.EvalSymlinks(parent); err == nil {
		parent = real
	}
	dir := filepath.Join(parent, "agents-tmp-"+strconv.Itoa(os.Getuid()))
	_ = os.Mkdir(dir, 0o700)
	info, err := os.Lstat(dir)
	switch {
	case err == nil && !info.IsDir():
		err = errors.New("it is not a folder")
	case err == nil && !own(info):
		err = errors.New("it belongs to another user") // root would otherwise trust that user with its files
	case err == nil:
		err = os.Chmod(dir, 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("the folder for temporary files %s: %w", dir, err)
	}
	return dir, nil
}

// A Temp is a private temporary folder of one call.
type Temp struct {
	Dir  string
	lock *os.File // tells other processes that the folder is in use
}

// sweepAge is how old a folder is before it is removed as left behind: one that was just
// created may not be locked yet.
const sweepAge = time.Minute

var sweepTemp sync.Once

// NewTemp creates a folder in PrivateTemp whose name begins with prefix. The first one of a
// process removes those that killed processes left.
func NewTemp(prefix string) (*Temp, error) {
	parent, err := PrivateTemp()
	if err != nil {
		return nil, err
	}
	sweepTemp.Do(func() { removeLeft(parent, time.Now().Add(-sweepAge)) })
	dir, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return nil, err
	}
	t := &Temp{Dir: dir}
	t.lock, _ = lockFolder(dir) // without a lock it is removed after its call alone
	return t, nil
}

// Remove removes the folder. t may be nil.
func (t *Temp) Remove() error {
	if t == nil {
		return nil
	}
	err := os.RemoveAll(t.Dir)
	if t.lock != nil {
		t.lock.Close()
	}
	return err
}

// removeLeft removes the folders in dir that are older than a time and that no process
// uses.
func removeLeft(dir string, before time.Time) {
	entries, _ := os.ReadDir(dir) // what cannot be read stays
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.IsDir() || info.ModTime().After(before) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if lock, err := lockFolder(path); err == nil {
			_ = os.RemoveAll(path)
			lock.Close()
		}
	}
}
