package main

import (
	"bytes"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// An edit replaces every occurrence of old in a file. The number of occurrences
// is part of it: another number means that the source is not the one the edit was
// made for.
type edit struct {
	old   string
	count int
	new   string
}

// editFile makes edits in the file name of the library lib, whose copy is in dir.
func editFile(dir, lib, name string, edits []edit) error {
	path := filepath.Join(dir, filepath.FromSlash(name))
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed, err := apply(lib+"/"+name, string(text), edits)
	if err != nil {
		return err
	}
	return os.WriteFile(path, changed, 0o644)
}

// apply returns text, the source of the file name, with edits.
func apply(name, text string, edits []edit) ([]byte, error) {
	for _, e := range edits {
		if n := strings.Count(text, e.old); n != e.count {
			return nil, fmt.Errorf("%s: %q occurs %d times, not %d: the library has changed and the patch must be made anew", name, e.old, n, e.count)
		}
		text = strings.ReplaceAll(text, e.old, e.new)
	}
	changed, err := format.Source([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%s after the patch: %w", name, err)
	}
	return changed, nil
}

// eachGoFile replaces every Go file of a library by what change makes of it.
func eachGoFile(dir string, change func(path string, text []byte) ([]byte, error)) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed, err := change(path, text)
		if err != nil || bytes.Equal(changed, text) {
			return err
		}
		return os.WriteFile(path, changed, 0o644)
	})
}
