package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReadmesNameFilesThatExist: a name of a file in the text of a README is that of a
// file below its folder or below the top.
func TestReadmesNameFilesThatExist(t *testing.T) {
	made := []string{".mcp.json", "agents-exe.keys", "agents-exe.cfg.json", "agents-notes.md", "src/**/*.go"} // by the reader
	name := regexp.MustCompile("`([\\w./*-]+(?:/|\\.(?:json|md|sh|py|go|mjs|txt|example|keys)))`")
	readmes := 0
	err := fs.WalkDir(os.DirFS(repository), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && (path == "build" || strings.HasPrefix(e.Name(), ".") && path != ".") {
			return fs.SkipDir
		}
		if e.Name() != "README.md" {
			return nil
		}
		readmes++
		for _, m := range name.FindAllStringSubmatch(fenced.ReplaceAllString(readPage(t, path), ""), -1) {
			found := slices.Contains(made, m[1])
			for _, dir := range []string{filepath.Dir(path), filepath.Dir(path) + "/*", filepath.Dir(path) + "/*/*", "."} {
				list, err := filepath.Glob(filepath.Join(repository, dir, m[1]))
				found = found || err == nil && len(list) > 0
			}
			if !found {
				t.Errorf("%s names %s, which does not exist", path, m[1])
			}
		}
		return nil
	})
	if err != nil || readmes < 10 {
		t.Errorf("%d READMEs were read (%v)", readmes, err)
	}
}
