package developer

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A folder is a snapshot of all files below a folder.
type folder struct {
	top   string // resolved
	files map[string]kept
	size  int // bytes; 0 once the snapshot was dropped
}

// A kept is a file of a snapshot.
type kept struct {
	content []byte
	mode    fs.FileMode
}

// A foldered is the result of snapshot-directory and restore-directory.
type foldered struct {
	Path     string   `json:"path"`
	Snapshot string   `json:"snapshotRef"`
	Files    int      `json:"fileCount"`
	Changed  []string `json:"changed,omitempty"` // restored
	Removed  []string `json:"removed,omitempty"`
}

// contents reads all files below a folder that may be used.
func (b *box) contents(name string) (folder, error) {
	f := folder{files: map[string]kept{}}
	top, err := b.files.resolve(name)
	if err != nil {
		return f, err
	}
	f.top = top
	err = b.files.walk(name, true, true, func(shown, file string, info fs.FileInfo) error {
		if !info.Mode().IsRegular() {
			return nil
		}
		if f.size += int(info.Size()); f.size > maxSnapshots {
			return fmt.Errorf("the files below %s have more than %d bytes", name, maxSnapshots)
		}
		content, err := b.files.Read(file)
		f.files[file] = kept{content, info.Mode().Perm()}
		return err
	})
	return f, err
}

func (b *box) snapshot(a *arguments) (any, error) {
	f, err := b.contents(a.Path)
	if err != nil {
		return nil, err
	}
	b.folders = append(b.folders, f)
	b.held += f.size
	for i := 0; b.held > maxSnapshots; i++ { // the oldest are dropped
		b.held -= b.folders[i].size
		b.folders[i].files, b.folders[i].size = nil, 0
	}
	return &foldered{Path: a.Path, Snapshot: "folder-" + strconv.Itoa(len(b.folders)), Files: len(f.files)}, nil
}

// rollBack is restore-directory.
func (b *box) rollBack(a *arguments) (any, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(a.Snapshot, "folder-"))
	if err != nil || n < 1 || n > len(b.folders) {
		return nil, fmt.Errorf("there is no snapshot %q of a folder", a.Snapshot)
	}
	then := b.folders[n-1]
	if then.files == nil {
		return nil, fmt.Errorf("the snapshot %s was dropped: newer ones use all of the %d bytes that are kept", a.Snapshot, maxSnapshots)
	}
	if top, err := b.files.resolve(a.Path); err != nil || top != then.top {
		return nil, fmt.Errorf("the snapshot %s is not one of %s", a.Snapshot, a.Path)
	}
	now, err := b.contents(a.Path)
	if err != nil {
		return nil, err
	}
	r := &foldered{Path: a.Path, Snapshot: a.Snapshot, Files: len(then.files)}
	for file, old := range then.files {
		if found, ok := now.files[file]; ok && found.mode == old.mode && slices.Equal(found.content, old.content) {
			continue
		}
		if err := b.files.restore(file, old.content, old.mode); err != nil {
			return nil, err
		}
		r.Changed = append(r.Changed, relative(then.top, file))
	}
	for file := range now.files {
		if _, ok := then.files[file]; ok {
			continue
		}
		if err := b.files.remove(file); err != nil {
			return nil, err
		}
		r.Removed = append(r.Removed, relative(then.top, file))
	}
	slices.Sort(r.Changed)
	slices.Sort(r.Removed)
	return r, nil
}

func relative(top, file string) string {
	rest, _ := filepath.Rel(top, file)
	return filepath.ToSlash(rest)
}
