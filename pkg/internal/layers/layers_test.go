package layers

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// module is the import path of this module.
const module = "github.com/agents-exe/agents"

func TestImportsGoDown(t *testing.T) {
	for _, problem := range check(list(t)) {
		t.Error(problem)
	}
}

// TestPartsHaveOneLibrary checks the table itself.
func TestPartsHaveOneLibrary(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rules {
		own := slices.DeleteFunc(slices.Clone(r.modules), func(m string) bool {
			return strings.HasPrefix(m, "golang.org/x/") || m == "modernc.org/libc" // what C code that was made Go needs
		})
		if r.floor <= 2 && len(own) > 1 {
			t.Errorf("%s (floor %d) may import %d libraries, want at most one of its own field: %v", r.path, r.floor, len(own), own)
		}
		if seen[r.path] {
			t.Errorf("%s is listed twice", r.path)
		}
		seen[r.path] = true
	}
}

// check returns the imports that break the rule, sorted.
func check(packages []listed) []string {
	modules := map[string]string{} // of each package that is not of the standard library
	for _, p := range packages {
		if p.Module != nil {
			modules[p.ImportPath] = p.Module.Path
		}
	}
	var problems []string
	for _, p := range packages {
		if !p.ours() {
			continue
		}
		from := relative(p.ImportPath)
		r := find(from)
		if r == nil {
			problems = append(problems, from+" is not listed: add it to rules in pkg/internal/layers/layers.go")
			continue
		}
		for _, imported := range p.Imports {
			to := relative(imported)
			if why := r.forbids(to, modules[imported]); why != "" {
				problems = append(problems, fmt.Sprintf("%s imports %s: %s", from, to, why))
			}
		}
	}
	slices.Sort(problems)
	return problems
}

// forbids says why a package of rule r may not import the package to, which is in
// mod, or returns "" when it may.
func (r *rule) forbids(to, mod string) string {
	target := find(to)
	switch {
	case mod == "" || slices.Contains(r.modules, mod):
	case mod != module:
		return fmt.Sprintf("%s is not among its libraries (%s)", mod, strings.Join(r.modules, ", "))
	case target == nil || slices.Contains(r.beside, to): // one that is not listed is reported itself
	case target.floor == support && r.floor < support:
		return "only tests may import it"
	case target.floor >= r.floor && r.floor < support:
		return fmt.Sprintf("floor %d may not import floor %d", r.floor, target.floor)
	}
	return ""
}

// find returns the rule for a package: its own, or that of the nearest folder
// around it.
func find(pkg string) (found *rule) {
	for i, r := range rules {
		folder, all := strings.CutSuffix(r.path, "/...")
		if r.path == pkg {
			return &rules[i]
		}
		if all && (pkg == folder || strings.HasPrefix(pkg, folder+"/")) {
			found = &rules[i]
		}
	}
	return found
}

func relative(importPath string) string { return strings.TrimPrefix(importPath, module+"/") }

func TestEveryPackageHasAComment(t *testing.T) {
	for _, p := range list(t) {
		if !p.ours() || len(p.GoFiles) == 0 {
			continue
		}
		want := "Package " + p.Name + " "
		if p.Name == "main" {
			want = "Command " + filepath.Base(p.Dir) + " "
		}
		if comments := packageComments(t, p); len(comments) != 1 || !strings.HasPrefix(comments[0], want) {
			t.Errorf("%s: package comments %q, want one that starts with %q", relative(p.ImportPath), comments, want)
		}
	}
}

// TestForbiddenImportsAreFound gives the check one import at a time.
func TestForbiddenImportsAreFound(t *testing.T) {
	const agent, runner = "pkg/agent", "pkg/runner"
	for _, c := range []struct{ from, to, want string }{
		{agent, "fmt", ""},
		{runner, "golang.org/x/sync/errgroup", ""},
		{runner, "github.com/openai/openai-go/v3/option", "is not among its libraries (golang.org/x/sync"},
		{runner, agent, ""},
		{agent, runner, "floor 1 may not import floor 1"},
		{agent, "pkg/leaf/jsondoc", ""},
		{agent, "pkg/config", "floor 1 may not import floor 2"},
		{"pkg/leaf/jsondoc", agent, "floor 0 may not import floor 1"},
		{"pkg/leaf/jsondoc", "pkg/leaf/closest", "floor 0 may not import floor 0"},
		{"pkg/channel", agent, ""},
		{"pkg/source/exectool", "pkg/process", ""},
		{"pkg/source/exectool", "pkg/schema", "floor 2 may not import floor 2"},
		{"pkg/source/exectool", "pkg/agent/agenttest", "only tests may import it"},
		{"pkg/provider/openai", "pkg/provider", "floor 2 may not import floor 2"},
		{"pkg/provider/modelhttp", "github.com/openai/openai-go/v3/option", ""},
		{"pkg/source/toolbox/files", agent, ""},
		{"pkg/agentfile", "pkg/source/exectool", ""},
		{"pkg/agentfile", "pkg/edge/mcpserver", "floor 3 may not import floor 3"},
		{"pkg/agentfile", "pkg/internal/budget", "only tests may import it"},
		{"pkg/trial/treetest", "pkg/agentfile", ""},
		{"pkg/agentfile", "pkg/trial/treetest", "floor 3 may not import floor 3"},
		{"cmd/agents", "pkg/agentfile", ""},
		{"cmd/agents", "pkg/internal/a", "only tests may import it"},
		{"examples/embed", "pkg/agentfile", ""},
		{"pkg/internal/a", "pkg/internal/b", ""},
		{"pkg/internal/a", agent, ""},
		{"pkg/util", agent, "add it to rules in pkg/internal/layers/layers.go"},
	} {
		got := check([]listed{fake(c.from, c.to), fake(c.to)})
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("check(%s imports %s) = %q, want %q", c.from, c.to, got, c.want)
		}
	}
}

// fake is a package as `go list` prints it.
func fake(path string, imports ...string) listed {
	first, _, _ := strings.Cut(path, "/")
	p := listed{ImportPath: path}
	switch {
	case strings.HasPrefix(path, "golang.org/x/"):
		p.Module = &struct{ Path string }{strings.Join(strings.Split(path, "/")[:3], "/")}
	case strings.Contains(first, "."):
		p.Module = &struct{ Path string }{strings.Join(strings.Split(path, "/")[:4], "/")}
	case path != "fmt":
		p.ImportPath = module + "/" + path
		p.Module = &struct{ Path string }{module}
	}
	for _, imported := range imports {
		p.Imports = append(p.Imports, fake(imported).ImportPath)
	}
	return p
}

// A listed package is what `go list -json` prints of one.
type listed struct {
	ImportPath string
	Name       string
	Dir        string
	GoFiles    []string
	Imports    []string
	Module     *struct{ Path string }
}

func (p *listed) ours() bool { return p.Module != nil && p.Module.Path == module }

var listOnce = sync.OnceValues(func() ([]listed, error) {
	if err := visit(filepath.Join("..", "..", "..")); err != nil {
		return nil, err
	}
	// -e: a package that does not build is the compiler's to report.
	out, err := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Name,Dir,GoFiles,Imports,Module", module+"/...").Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, errors.New(string(exit.Stderr))
	} else if err != nil {
		return nil, err
	}
	var packages []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
})

// list returns the packages of the module and all that they import.
func list(t *testing.T) []listed {
	t.Helper()
	packages, err := listOnce()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	if !slices.ContainsFunc(packages, func(p listed) bool { return p.ImportPath == module+"/pkg/agent" }) {
		t.Fatalf("go list found %d packages and not pkg/agent", len(packages))
	}
	return packages
}

// visit opens every folder with packages and every Go file in it. The go command
// remembers the result of a test until a file that the test itself opened changes,
// and does not see what `go list` reads.
func visit(root string) error {
	for _, top := range []string{"agents", "cmd", "examples", "pkg", "schemas", "tools"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // not every folder has to exist
			case err == nil && !d.IsDir() && filepath.Ext(path) == ".go":
				_, err = os.ReadFile(path)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// packageComments returns the comments that stand before a package clause.
func packageComments(t *testing.T, p listed) []string {
	t.Helper()
	var comments []string
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if text := file.Doc.Text(); text != "" {
			comments = append(comments, text)
		}
	}
	return comments
}
