package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	// module is the path of this module.
	module = "github.com/agents-exe/agents"
	// openai is the module path of the library.
	openai = "github.com/openai/openai-go/v3"
)

// registers are the functions of its package apijson that its init functions call
// and that only decoding looks at.
var registers = []string{"RegisterUnion", "RegisterFieldValidator", "RegisterDiscriminatedUnion"}

// used is what this module uses of the library's packages: with these nothing is
// decoded, as Client posts bytes and hands the response out. Any function of option
// may be used; all of them are for requests.
var used = map[string][]string{
	openai:             {"Client"},
	openai + "/option": nil,
}

// patchOpenAI removes the library's init functions.
func patchOpenAI(dir string) error {
	removed := 0
	err := eachGoFile(dir, func(path string, text []byte) ([]byte, error) {
		changed, n, err := withoutInits(path, text)
		removed += n
		return changed, err
	})
	if err == nil && removed == 0 {
		err = fmt.Errorf("%s has no init functions: the patch can go", openai)
	}
	return err
}

// withoutInits removes the init functions of a Go file, which must do nothing but
// call registers, with the imports that only they need.
func withoutInits(path string, text []byte) (changed []byte, removed int, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, 0, err
	}
	var cuts [][2]int // from, to
	cut := func(n ast.Node) {
		cuts = append(cuts, [2]int{set.Position(n.Pos()).Offset, set.Position(n.End()).Offset})
	}
	before, after := map[string]bool{}, map[string]bool{} // packages that are named
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Name.Name != "init" {
			names(decl, after)
			continue
		}
		if !registersOnly(f) {
			return nil, 0, fmt.Errorf("%s: an init function that the patch does not know", set.Position(f.Pos()))
		}
		names(f, before)
		cut(f)
		removed++
	}
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		name := filepath.Base(path)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if before[name] && !after[name] {
			cut(spec)
		}
	}
	slices.SortFunc(cuts, func(a, b [2]int) int { return a[0] - b[0] })
	at := 0
	for _, c := range cuts {
		changed = append(changed, text[at:c[0]]...)
		at = c[1]
	}
	return append(changed, text[at:]...), removed, nil
}

// registersOnly reports whether f only calls registers.
func registersOnly(f *ast.FuncDecl) bool {
	for _, stmt := range f.Body.List {
		expr, ok := stmt.(*ast.ExprStmt)
		if !ok {
			return false
		}
		call, ok := expr.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		fun := call.Fun
		if generic, ok := fun.(*ast.IndexExpr); ok {
			fun = generic.X
		}
		sel, ok := fun.(*ast.SelectorExpr)
		if !ok || !isIdent(sel.X, "apijson") || !slices.Contains(registers, sel.Sel.Name) {
			return false
		}
	}
	return true
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// names adds what stands before a dot in n, which is every package that n uses.
func names(n ast.Node, into map[string]bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok {
				into[id.Name] = true
			}
		}
		return true
	})
}

// checkUse makes sure that this module uses nothing of the library that decodes.
func checkUse() error {
	files, err := goOutput("list", "-f", `{{range .GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}`, module+"/...")
	if err != nil {
		return err
	}
	for file := range strings.FieldsFuncSeq(files, func(r rune) bool { return r == '\n' }) {
		if err := checkFile(file); err != nil {
			return err
		}
	}
	return nil
}

// checkFile is checkUse for one file.
func checkFile(path string) error {
	decodes := func(at token.Position, what string) error {
		return fmt.Errorf("%s: %s may decode with what the patch of the library removes: see pkg/internal/leanlibs/openai.go", at, what)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	imported := map[string]string{} // by name
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		if path != openai && !strings.HasPrefix(path, openai+"/") {
			continue
		}
		if _, ok := used[path]; !ok {
			return decodes(set.Position(spec.Pos()), path)
		}
		name := filepath.Base(path)
		if path == openai {
			name = "openai"
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imported[name] = path
	}
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || err != nil {
			return err == nil
		}
		id, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		if list := used[imported[id.Name]]; list != nil && !slices.Contains(list, sel.Sel.Name) {
			err = decodes(set.Position(sel.Pos()), id.Name+"."+sel.Sel.Name)
		}
		return true
	})
	return err
}
