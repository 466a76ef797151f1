package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// prepare writes go.mod, go.sum and the changed libraries into the folder out. It
// changes nothing of a library whose source is not the one that its patch knows.
func prepare(out string) error {
	gomod, err := goOutput("env", "GOMOD")
	if err != nil {
		return err
	}
	out, err = filepath.Abs(out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, lib := range libraries {
		src, err := moduleDir(lib.path)
		if err != nil {
			return err
		}
		if err := replaceDir(filepath.Join(out, lib.dir), func(tmp string) error { return lib.copy(tmp, src) }); err != nil {
			return err
		}
	}
	return writeModFiles(out, gomod)
}

// moduleDir returns the folder of a module's source, which it downloads if necessary. A module in a
// folder of this machine, which go.mod or go.work names, is not downloaded.
func moduleDir(path string) (string, error) {
	out, err := goOutput("mod", "download", "-json", path)
	var module struct{ Dir, Error string }
	if _ = json.Unmarshal([]byte(out), &module); module.Error != "" {
		return "", fmt.Errorf("go mod download %s: %s", path, module.Error)
	}
	if err != nil || module.Dir != "" {
		return module.Dir, err
	}
	dir, err := goOutput("list", "-m", "-f", "{{.Dir}}", path)
	if err == nil && dir == "" {
		err = fmt.Errorf("go list -m %s: the module has no folder", path)
	}
	return dir, err
}

// replaceDir fills a folder beside dst and then puts it in dst's place, so that
// dst is never half-written.
func replaceDir(dst string, fill func(tmp string) error) error {
	tmp, err := os.MkdirTemp(filepath.Dir(dst), filepath.Base(dst)+".tmp")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := fill(tmp); err != nil {
		return err
	}
	if err := os.RemoveAll(dst); err != nil {
		return err
	}
	return os.Rename(tmp, dst)
}

// copy copies what a build of the library needs from src to dst and applies the
// edits. Files of the module cache are read-only, their copies are not.
func (lib *library) copy(dst, src string) error {
	err := filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "examples"):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(dst, rel), 0o755)
		case strings.HasSuffix(rel, "_test.go"), strings.HasPrefix(rel, "go.work"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dst, rel), text, 0o644)
	})
	if err != nil {
		return err
	}
	return lib.apply(dst)
}

// writeModFiles copies go.mod and the go.sum beside it to the folder out and
// replaces the libraries by their copies there.
func writeModFiles(out, gomod string) error {
	sum, err := os.ReadFile(filepath.Join(filepath.Dir(gomod), "go.sum"))
	if err != nil {
		return err
	}
	mod, err := os.ReadFile(gomod)
	if err != nil {
		return err
	}
	tmp := filepath.Join(out, "go.mod.tmp")
	defer os.Remove(tmp)
	if err := os.WriteFile(tmp, mod, 0o644); err != nil {
		return err
	}
	args := []string{"mod", "edit"}
	for _, lib := range libraries {
		args = append(args, "-replace="+lib.path+"="+replacement(filepath.Dir(gomod), filepath.Join(out, lib.dir)))
	}
	if _, err := goOutput(append(args, tmp)...); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "go.sum"), sum, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(out, "go.mod"))
}

// replacement is lib as a replace directive names it: relative to the module's
// root, wherever the module file lies. Inside the module this keeps the result
// the same in every checkout.
func replacement(root, lib string) string {
	rel, err := filepath.Rel(root, lib)
	if err != nil || !filepath.IsLocal(rel) {
		return lib
	}
	return "./" + filepath.ToSlash(rel)
}

// goOutput runs the go command and returns its standard output without the
// space around it.
func goOutput(args ...string) (string, error) {
	out, err := exec.Command("go", args...).Output()
	text := strings.TrimSpace(string(out))
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return text, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return text, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return text, nil
}
