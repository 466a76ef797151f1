package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/agents-exe/agents"

// A dump is what the linker tells about the functions that it kept.
type dump struct {
	reflectMethods []string // functions that look a method up by its name
	costly         []string // of costlySymbols
}

// linked links the package pkg once more and reads what the linker tells.
func linked(tmp, pkg string, buildFlags []string) (dump, error) {
	args := append([]string{"build"}, buildFlags...)
	args = append(args, "-ldflags=-s -w -dumpdep", "-o", filepath.Join(tmp, "dumped"), pkg)
	_, text, err := goRun(args...)
	if err != nil {
		return dump{}, err
	}
	if !strings.Contains(text, "-> main.main") {
		return dump{}, errors.New("go build -ldflags=-dumpdep: the linker told nothing about main.main")
	}
	return parseDump(text), nil
}

// parseDump reads lines like "from <mark> -> to <mark>".
func parseDump(text string) dump {
	reflects, costly := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(text) {
		for symbol := range strings.SplitSeq(strings.TrimSpace(line), " -> ") {
			name, marks, _ := strings.Cut(symbol, " <")
			if strings.Contains(marks, "ReflectMethod>") {
				reflects[name] = true
			}
			if costlySymbols[name] != "" {
				costly[name] = true
			}
		}
	}
	return dump{slices.Sorted(maps.Keys(reflects)), slices.Sorted(maps.Keys(costly))}
}

func (d dump) problems() error {
	var errs []error
	if n := len(d.reflectMethods); n > maxReflectMethods {
		errs = append(errs, fmt.Errorf("%d functions call a method by its name, the limit is %d (pkg/internal/budget/limits.go), and the linker keeps every method: %s",
			n, maxReflectMethods, strings.Join(d.reflectMethods[:min(n, 5)], ", ")))
	}
	for _, name := range d.costly {
		errs = append(errs, fmt.Errorf("%s is linked: %s", name, costlySymbols[name]))
	}
	return errors.Join(errs...)
}

// A dependency is a package in the binary, as `go list` tells it.
type dependency struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Module     *struct{ Path, Version string }
}

func (d *dependency) ours() bool { return d.Module != nil && d.Module.Path == module }

// dependencies lists the packages that make up the binary of pkg.
func dependencies(pkg string, buildFlags []string) ([]dependency, error) {
	args := append([]string{"list", "-deps", "-json=ImportPath,Dir,GoFiles,Module"}, buildFlags...)
	out, _, err := goRun(append(args, pkg)...)
	if err != nil {
		return nil, err
	}
	var deps []dependency
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var dep dependency
		if err := d.Decode(&dep); err == io.EOF {
			return deps, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		deps = append(deps, dep)
	}
}

// costly returns an error for each package of costlyPackages.
func costly(deps []dependency) error {
	var errs []error
	for _, dep := range deps {
		for _, key := range slices.Sorted(maps.Keys(costlyPackages)) {
			path, version, _ := strings.Cut(key, "@")
			if dep.ImportPath != path && !strings.HasPrefix(dep.ImportPath, path+"/") {
				continue
			}
			if version == "" || dep.Module != nil && dep.Module.Version == version {
				errs = append(errs, fmt.Errorf("%s is linked: %s (pkg/internal/budget/limits.go)", dep.ImportPath, costlyPackages[key]))
			}
		}
	}
	return errors.Join(errs...)
}

// initFunctions returns an error for each init function in a package of ours: what
// it does is done at every start, needed or not.
func initFunctions(deps []dependency) error {
	var errs []error
	for _, dep := range deps {
		if !dep.ours() {
			continue
		}
		for _, name := range dep.GoFiles {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, filepath.Join(dep.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
					errs = append(errs, fmt.Errorf("%s: an init function", set.Position(f.Pos())))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// goRun runs the go command as `make build` does, without cgo.
func goRun(args ...string) (stdout, stderr string, err error) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var out, diagnosis strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &diagnosis
	if err := cmd.Run(); err != nil {
		return "", "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(diagnosis.String()))
	}
	return out.String(), diagnosis.String(), nil
}
