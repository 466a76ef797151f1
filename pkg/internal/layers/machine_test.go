package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTheMachineOnlyDecides: what package agent does follows from its arguments, so that any
// driver, and a session that is read back, does the same.
func TestTheMachineOnlyDecides(t *testing.T) {
	found := 0
	for _, p := range list(t) {
		if relative(p.ImportPath) != "pkg/agent" {
			continue
		}
		for _, name := range p.GoFiles {
			found++
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for at, what := range effects(file) {
				t.Errorf("%s has %s, which belongs into pkg/runner", fset.Position(at), what)
			}
		}
	}
	if found == 0 {
		t.Error("there is no pkg/agent")
	}
}

// effects returns where a file starts goroutines, uses channels, reads the clock, waits or does
// I/O.
func effects(file *ast.File) map[token.Pos]string {
	found := map[token.Pos]string{}
	for _, im := range file.Imports {
		path := strings.Trim(im.Path.Value, `"`)
		first, _, _ := strings.Cut(path, "/")
		if slices.Contains([]string{"io", "log", "runtime", "syscall", "crypto/rand", "math/rand", "sync/atomic"}, path) || first == "os" || first == "net" {
			found[im.Pos()] = "the import " + path
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found[n.Pos()] = "a goroutine"
		case *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
			found[n.Pos()] = "a channel"
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if !ok || pkg.Obj != nil {
				return true
			}
			switch name := n.Sel.Name; pkg.Name {
			case "time":
				if slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}, name) {
					found[n.Pos()] = "time." + name
				}
			case "context":
				if strings.HasPrefix(name, "With") && name != "WithValue" || name == "AfterFunc" {
					found[n.Pos()] = "context." + name
				}
			case "sync":
				if name != "Once" { // the arguments of a call are decoded once
					found[n.Pos()] = "sync." + name
				}
			}
		}
		return true
	})
	return found
}

func TestEffectsAreFound(t *testing.T) {
	const source = `package p
		import ("os"; "context"; "sync"; "time")
		type fine struct { once sync.Once; d time.Duration; ctx context.Context }
		var mu sync.Mutex
		var c chan int
		func f(ctx context.Context, time fine) { _ = time.Now }
		func g(ctx context.Context) {
			go f(ctx, fine{})
			ctx, _ = context.WithTimeout(ctx, time.Second)
			_ = time.Now()
			c <- 1
			select {}
		}`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	if found := effects(file); len(found) != 8 {
		t.Errorf("found %d, want 8: %v", len(found), found)
	}
}
