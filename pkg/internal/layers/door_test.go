package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestHostMakesAllRunners: a run that is put together elsewhere has something else than all
// others have. Test support and examples may embed pkg/runner as other programs do.
func TestHostMakesAllRunners(t *testing.T) {
	for _, p := range list(t) {
		r := find(relative(p.ImportPath))
		if !p.ours() || r == nil || r.floor == support || strings.HasPrefix(r.path, "examples/") || slices.Contains([]string{"pkg/runner", "pkg/host"}, r.path) {
			continue
		}
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range runners(file) {
				t.Errorf("%s makes a runner.Runner: pkg/host does that", fset.Position(at))
			}
		}
	}
}

// runners returns where a file makes values of the type runner.Runner.
func runners(file *ast.File) (list []token.Pos) {
	isRunner := func(e ast.Expr) bool {
		sel, ok := e.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Runner" {
			return false
		}
		pkg, ok := sel.X.(*ast.Ident)
		return ok && pkg.Name == "runner"
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if isRunner(n.Type) {
				list = append(list, n.Pos())
			}
		case *ast.ValueSpec:
			if isRunner(n.Type) {
				list = append(list, n.Pos())
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "new" && len(n.Args) == 1 && isRunner(n.Args[0]) {
				list = append(list, n.Pos())
			}
		}
		return true
	})
	return list
}

func TestRunnersAreFound(t *testing.T) {
	const source = `package p
		import "m/runner"
		var field struct{ r *runner.Runner } // none
		var a runner.Runner
		var b = &runner.Runner{Agent: nil}
		var c = new(runner.Runner)
		func f(r *runner.Runner) { g(runner.Runner{}) }`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(runners(file)); n != 4 {
		t.Errorf("runners found %d, want 4", n)
	}
}

// TestThePageNamesEveryPackage: pkg/README.md is where a reader looks first.
func TestThePageNamesEveryPackage(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list(t) {
		path, ok := strings.CutPrefix(relative(p.ImportPath), "pkg/")
		parts := strings.Split(path, "/")
		name := parts[0]
		if slices.Contains([]string{"edge", "leaf", "source", "terminal", "trial"}, name) && len(parts) > 1 {
			name = parts[1]
		}
		if p.ours() && ok && !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("pkg/README.md does not name %s", path)
		}
	}
}

// TestLeavesImportNothing: what is in the folder leaf is on the lowest floor, and imports at most
// another leaf that its rule names.
func TestLeavesImportNothing(t *testing.T) {
	elsewhere := func(path string) bool { return !strings.HasPrefix(path, "pkg/leaf/") }
	for _, r := range rules {
		if !elsewhere(r.path) && (r.floor != 0 || slices.ContainsFunc(r.beside, elsewhere)) {
			t.Errorf("%s is on floor %d beside %q, want 0 beside other leaves", r.path, r.floor, r.beside)
		}
	}
}

// edges are the packages that translate a protocol.
var edges = []string{"pkg/edge/acpserver", "pkg/channel", "pkg/edge/mcpserver", "pkg/edge/serve", "pkg/edge/a2aapi", "pkg/edge/openaiapi", "pkg/leaf/wsconn"}

// TestEdgesOnlyTranslate: what an edge knew of agent files, sessions on disk, rules,
// configuration or sources of tools, another would do in another way.
func TestEdgesOnlyTranslate(t *testing.T) {
	inner := []string{"pkg/agentfile", "pkg/config", "pkg/source/exectool", "pkg/host", "pkg/source/mcpclient", "pkg/policy", "pkg/sandbox", "pkg/session", "pkg/source/step", "pkg/tool", "pkg/source/acpclient"}
	found := 0
	for _, p := range list(t) {
		from := relative(p.ImportPath)
		if !slices.Contains(edges, from) {
			continue
		}
		found++
		for _, imported := range p.Imports {
			if to := relative(imported); slices.Contains(inner, to) || strings.HasPrefix(to, "pkg/source/toolbox/") {
				t.Errorf("%s imports %s", from, to)
			}
		}
	}
	if found != len(edges) {
		t.Errorf("%d of the edges %v exist", found, edges)
	}
}
