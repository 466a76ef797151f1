package layers

import (
	"encoding/json"
	"errors"
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

	"github.com/google/go-cmp/cmp"
)

func TestImportsFollowTheLayers(t *testing.T) {
	for _, problem := range check(list(t)) {
		t.Error(problem)
	}
}

// TestLayerOneHasOneLibrary keeps the table itself honest.
func TestLayerOneHasOneLibrary(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rules {
		if r.layer <= 1 && len(r.modules) > 1 {
			t.Errorf("%s (layer %d) may import %d libraries, want at most one of its own field: %v", r.path, r.layer, len(r.modules), r.modules)
		}
		if seen[r.path] {
			t.Errorf("%s is listed twice", r.path)
		}
		seen[r.path] = true
	}
}

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
	const agent = "pkg/agent"
	for _, c := range []struct {
		from, to string // relative to this module when the first element has no dot
		want     string
	}{
		{agent, "fmt", ""},
		{agent, "golang.org/x/sync/errgroup", ""},
		{agent, "github.com/openai/openai-go/v3/option", "is not among its libraries (golang.org/x/sync)"},
		{agent, "pkg/process", "layer 0 imports nothing of this module"},
		{agent, "schemas", "layer 0 imports nothing of this module"},
		{"pkg/exectool", agent, ""},
		{"pkg/exectool", "pkg/process", ""},
		{"pkg/exectool", "schemas", "layer 1 imports only pkg/agent and pkg/process"},
		{"pkg/exectool", "pkg/schema", "layer 1 may not import layer 1"},
		{"pkg/provider/openai", "pkg/provider", "layer 1 may not import layer 1"},
		{"pkg/provider/openai", "github.com/openai/openai-go/v3/option", ""},
		{"pkg/exectool", "pkg/agentfile", "layer 1 may not import layer 2"},
		{"pkg/exectool", "pkg/agent/agenttest", "only tests may import it"},
		{"pkg/agentfile", "pkg/exectool", ""},
		{"pkg/agentfile", "schemas", ""},
		{"pkg/agentfile", "pkg/mcpserver", "layer 2 may not import layer 2"},
		{"pkg/treetest", "pkg/agentfile", ""},
		{"pkg/treetest", "pkg/mcpserver", "layer 2 may not import layer 2"},
		{"pkg/agentfile", "pkg/treetest", "layer 2 may not import layer 2"},
		{"pkg/agentfile", "cmd/agents", "nothing may import it"},
		{"pkg/agentfile", "pkg/internal/budget", "only tests may import it"},
		{"cmd/agents", "pkg/agentfile", ""},
		{"cmd/agents", "examples/quickstart", "nothing may import it"},
		{"examples/embed", "pkg/agentfile", ""},
		{"pkg/internal/a", "pkg/internal/b", ""},
		{"pkg/internal/a", agent, ""},
		{"pkg/util", agent, "add it to rules in pkg/internal/layers/layers.go"},
		{"util", agent, "add it to rules in pkg/internal/layers/layers.go"},
	} {
		got := check([]listed{fake(c.from, c.to), fake(c.to)})
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("check(%s imports %s) = %q, want %q", c.from, c.to, got, c.want)
		}
	}
}

// TestProblemsAreSorted makes the output the same from run to run.
func TestProblemsAreSorted(t *testing.T) {
	got := check([]listed{fake("pkg/z"), fake("pkg/a")})
	if want := slices.Sorted(slices.Values(got)); len(got) != 2 || !cmp.Equal(got, want) {
		t.Errorf("check = %q, want %q", got, want)
	}
}

// fake is a package as `go list` would tell it.
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

var listOnce = sync.OnceValues(func() ([]listed, error) {
	if err := visit(filepath.Join("..", "..", "..")); err != nil {
		return nil, err
	}
	// -e: a package that does not build is for the compiler to tell, in its words.
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
