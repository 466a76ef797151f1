package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCommandLinksNothingCostly is the part of the budget that needs no build.
func TestCommandLinksNothingCostly(t *testing.T) {
	deps, err := dependencies(module+"/cmd/agents", []string{"-tags=urfave_cli_no_template"})
	if err != nil {
		t.Fatal(err)
	}
	if len(deps) < 100 {
		t.Fatalf("go list found %d packages", len(deps))
	}
	// The go command remembers the result of a test until a file that the test itself
	// opened changes, and does not see what `go list` reads.
	if _, err := os.ReadFile(filepath.Join("..", "..", "..", "go.mod")); err != nil {
		t.Fatal(err)
	}
	for _, dep := range deps {
		if dep.ours() {
			if _, err := os.ReadDir(dep.Dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := costly(deps); err != nil {
		t.Error(err)
	}
	if err := initFunctions(deps); err != nil {
		t.Error(err)
	}
}

func TestCostlyPackagesAreFound(t *testing.T) {
	version := func(v string) *struct{ Path, Version string } { return &struct{ Path, Version string }{"m", v} }
	for _, c := range []struct {
		dep  dependency
		want string
	}{
		{dependency{ImportPath: "fmt"}, ""},
		{dependency{ImportPath: "testing"}, "testing is linked: for tests only (pkg/internal/budget/limits.go)"},
		{dependency{ImportPath: "testing/iotest"}, "testing/iotest is linked: for tests only (pkg/internal/budget/limits.go)"},
		{dependency{ImportPath: "testingx"}, ""},
		{dependency{ImportPath: "google.golang.org/grpc/codes"}, "google.golang.org/grpc/codes is linked: ends dead-code elimination (pkg/internal/budget/limits.go)"},
		{dependency{ImportPath: "github.com/mattn/go-runewidth", Module: version("v0.0.31")}, ""},
		{dependency{ImportPath: "github.com/mattn/go-runewidth", Module: version("v0.0.27")}, "github.com/mattn/go-runewidth is linked: 25 ms at every start; v0.0.28 and later do not (pkg/internal/budget/limits.go)"},
	} {
		got := ""
		if err := costly([]dependency{c.dep}); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("costly(%s) = %q, want %q", c.dep.ImportPath, got, c.want)
		}
	}
}

func TestInitFunctionsAreFound(t *testing.T) {
	dir := t.TempDir()
	source := "package x\n\ntype T int\n\nfunc (T) init() {}\n\nfunc init() {}\n"
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	dep := dependency{ImportPath: module + "/x", Dir: dir, GoFiles: []string{"x.go"}}
	if err := initFunctions([]dependency{dep}); err != nil {
		t.Errorf("initFunctions of another module = %v, want nothing", err)
	}
	dep.Module = &struct{ Path, Version string }{Path: module}
	err := initFunctions([]dependency{dep})
	if want := filepath.Join(dir, "x.go") + ":7:1: an init function"; err == nil || err.Error() != want {
		t.Errorf("initFunctions = %v, want %s", err, want)
	}
}

func TestParseDump(t *testing.T) {
	got := parseDump(`# github.com/agents-exe/agents/cmd/agents
runtime.main -> main.main
main.main -> text/template.(*Template).execute
text/template.(*state).evalField <ReflectMethod> -> reflect.Value.MethodByName
type:reflect.Value <UsedInIface> -> reflect.(*Value).Method <UsedInIface|ReflectMethod>
main.main -> text/template.New
`)
	want := dump{
		reflectMethods: []string{"reflect.(*Value).Method", "text/template.(*state).evalField"},
		costly:         []string{"text/template.(*Template).execute"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(dump{})); diff != "" {
		t.Errorf("parseDump (-want +got):\n%s", diff)
	}
	err := got.problems()
	for _, part := range []string{
		"2 functions call a method by its name, the limit is 0",
		"reflect.(*Value).Method, text/template.(*state).evalField",
		"text/template.(*Template).execute is linked: ends dead-code elimination",
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("problems() = %v, want %q in it", err, part)
		}
	}
	if err := (dump{}).problems(); err != nil {
		t.Errorf("problems of an empty dump = %v", err)
	}
}

func TestParseInits(t *testing.T) {
	trace := `agents v1
init os @0.61 ms, 0.028 ms clock, 432 bytes, 9 allocs
init main @3.9 ms, 0.5 ms clock, 64 bytes, 2 allocs
init github.com/agents-exe/agents/pkg/x @4 ms, 0.001 ms clock, 16 bytes, 1 allocs
`
	got := parseInits(trace)
	want := []initCost{
		{"os", 0.028, 9}, {"main", 0.5, 2}, {"github.com/agents-exe/agents/pkg/x", 0.001, 1},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(initCost{})); diff != "" {
		t.Fatalf("parseInits (-want +got):\n%s", diff)
	}
	if got[0].ours() || !got[1].ours() || !got[2].ours() {
		t.Error("ours() is true for main and the packages of this module, and for nothing else")
	}
	if diff := cmp.Diff([]initCost{want[1], want[0]}, longest(got, 2), cmp.AllowUnexported(initCost{})); diff != "" {
		t.Errorf("longest (-want +got):\n%s", diff)
	}
}

func TestLimitNamesItself(t *testing.T) {
	if err := atMostLimit("size in bytes", 5, 5); err != nil {
		t.Errorf("at the limit: %v, want nothing", err)
	}
	err := atMostLimit("size in bytes", 6, 5)
	if want := "size in bytes: 6, the limit is 5 (pkg/internal/budget/limits.go)"; err == nil || err.Error() != want {
		t.Errorf("over the limit: %v, want %s", err, want)
	}
}
