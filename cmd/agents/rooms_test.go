package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoCommandRefersToAnother: a file of package main that builds a command uses
// nothing that another such file declares. What commands share is in internal/.
func TestNoCommandRefersToAnother(t *testing.T) {
	fset := token.NewFileSet()
	files := map[string]*ast.File{}
	declaredIn := map[string]string{}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = f
		for name, object := range f.Scope.Objects {
			declaredIn[name] = fset.Position(object.Pos()).Filename
		}
	}
	shared := map[string]bool{"main.go": true, "start.go": true, "commands.go": true}
	for name, f := range files {
		if shared[name] {
			continue
		}
		// What the parser cannot resolve in a file is declared in another, or imported.
		for _, id := range f.Unresolved {
			if in := declaredIn[id.Name]; in != "" && in != name {
				t.Errorf("%s refers to %s of %s", fset.Position(id.Pos()), id.Name, in)
			}
		}
	}
	for name := range declaredIn {
		if in := declaredIn[name]; strings.HasSuffix(name, "Command") && shared[in] {
			t.Errorf("%s declares the command %s", in, name)
		}
	}
}
