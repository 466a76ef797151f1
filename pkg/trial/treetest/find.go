package treetest

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/wholefile"
)

// Find returns the test files that match patterns, sorted and without duplicates: a
// file matches itself, a folder the test files in it, and a folder followed by
// "/..." also those in all folders below. As for the go command, "/..." does not
// match folders named testdata or whose name begins with "." or "_"; nor does it
// match node_modules. Links are not followed. A pattern without a test is an error.
func Find(patterns []string) ([]string, error) {
	var files []string
	for _, pattern := range patterns {
		found, err := find(pattern)
		if err != nil {
			return nil, fmt.Errorf("find tests in %s: %s", pattern, wholefile.Cause(err))
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("find tests in %s: there is no file *%s", pattern, Suffix)
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

func find(pattern string) ([]string, error) {
	if dir, all := strings.CutSuffix(filepath.ToSlash(pattern), "..."); all && (dir == "" || strings.HasSuffix(dir, "/")) {
		dir = cmp.Or(dir, ".")
		return below(filepath.Clean(dir))
	}
	info, err := os.Stat(pattern)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{filepath.Clean(pattern)}, nil
	}
	entries, err := os.ReadDir(pattern)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), Suffix) {
			files = append(files, filepath.Join(pattern, e.Name()))
		}
	}
	return files, nil
}

func below(root string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		switch {
		case !d.IsDir():
			if strings.HasSuffix(name, Suffix) {
				files = append(files, path)
			}
		case path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "node_modules"):
			return fs.SkipDir
		}
		return nil
	})
	return files, err
}
