package main

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEditedLibrariesAgreeWithTheOriginals builds one program with and without the
// edits. It compiles all drafts from many goroutines at once, as its first act;
// under -race its patched build has the race detector too.
func TestEditedLibrariesAgreeWithTheOriginals(t *testing.T) {
	// The go command remembers the result of a test until a file that the test itself
	// opened changes, and does not see what `go build` reads.
	if _, err := os.ReadFile("testdata/probe/main.go"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	prepareTwice(t, out)
	original, patched := filepath.Join(dir, "original"), filepath.Join(dir, "patched")
	build(t, "-o", original)
	args := []string{"-o", patched, "-modfile=" + filepath.Join(out, "go.mod")}
	if underRace() {
		args = append(args, "-race")
	}
	build(t, args...)

	want, before := probe(t, original)
	got, after := probe(t, patched)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcomes with the patch (-original +patched):\n%s", diff)
	}
	for _, c := range []struct {
		pkg          string
		before, most int
	}{
		{jsonschema, 10_000, 500},
	} {
		if n := before[c.pkg]; n < c.before {
			t.Errorf("%s makes %d allocations at start-up without the patch: it has become lazy itself, or is no longer linked, and its patch can go", c.pkg, n)
		}
		if n := after[c.pkg]; n > c.most {
			t.Errorf("%s makes %d allocations at start-up with the patch, want %d at most", c.pkg, n, c.most)
		}
	}
}

// prepareTwice prepares a folder twice, and checks that the second time replaces the
// result of the first, and that no temporary files stay.
func prepareTwice(t *testing.T, out string) {
	t.Helper()
	for range 2 {
		if err := prepare(out); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(out)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if want := []string{"a2a-go", "cast", "go.mod", "go.sum", "jsonschema", "jsonschema-go", "openai-go", "sh"}; !slices.Equal(names, want) {
			t.Errorf("prepare leaves %v, want %v", names, want)
		}
	}
}

// TestOtherSourceIsRefused leaves one thing out that an edit looks for, and adds it
// once more, as a new version of the library could.
func TestOtherSourceIsRefused(t *testing.T) {
	lib := library{path: "lib", edits: []edit{{"a.go", 2, "x", "y"}, {"*.go", 3, "z", "z"}}}
	const a, b = "package p\n\nvar x, zx int // z\n", "package p\n\nvar z int\n"
	for _, c := range []struct{ a, b, want string }{
		{a, b, ""},
		{a + "// x\n", b, `lib/a.go: "x" occurs 3 times, not 2: the library has changed, and the edit must be made anew`},
		{"package p\n\nvar x int // zz\n", b, `lib/a.go: "x" occurs 1 times, not 2: the library has changed, and the edit must be made anew`},
		{a, b + "// z\n", `lib/*.go: "z" occurs 4 times, not 3: the library has changed, and the edit must be made anew`},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"a.go": c.a, "b.go": c.b, "c.txt": "x z"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got := ""
		if err := lib.apply(dir); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("apply = %q, want %q", got, c.want)
		}
		text, err := os.ReadFile(filepath.Join(dir, "a.go"))
		if want := strings.ReplaceAll(c.a, "x", "y"); err != nil || c.want == "" && string(text) != want {
			t.Errorf("a.go = %q, %v, want %q", text, err, want)
		}
	}
}

// TestOnlyRequestsUseTheLibrary: answers that openai-go decoded would come out
// differently in the changed copy. pkg/internal/layers makes sure that no other
// package imports it.
func TestOnlyRequestsUseTheLibrary(t *testing.T) {
	const dir = "../../provider/modelhttp"
	names, err := filepath.Glob(dir + "/*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text = regexp.MustCompile(`//.*`).ReplaceAll(text, nil)
		for _, m := range regexp.MustCompile(`"`+openai+`/?([^"]*)"|\bopenai\.([A-Z]\w*)`).FindAllStringSubmatch(string(text), -1) {
			if m[1] != "" && m[1] != "option" || m[2] != "" && m[2] != "Client" {
				t.Errorf("%s uses %s, which may decode", name, m[0])
			}
		}
	}
}

// source is the folder of the module that a package is of.
func source(t *testing.T, pkg string) string {
	t.Helper()
	src, err := goOutput("list", "-f", "{{.Module.Dir}}", pkg)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func TestReplacement(t *testing.T) {
	for _, c := range []struct{ root, lib, want string }{
		{"/src/agents", "/src/agents/build/jsonschema", "./build/jsonschema"},
		{"/src/agents", "/src/other/jsonschema", "/src/other/jsonschema"},
		{"/src/agents", "/tmp/x", "/tmp/x"},
	} {
		if got := replacement(c.root, c.lib); got != c.want {
			t.Errorf("replacement(%q, %q) = %q, want %q", c.root, c.lib, got, c.want)
		}
	}
}

// TestNoLibraryDownloaded is the first `make build` on a machine.
func TestNoLibraryDownloaded(t *testing.T) {
	have, err := goOutput("env", "GOMODCACHE")
	if err != nil {
		t.Fatal(err)
	}
	path := "/" + strings.TrimPrefix(filepath.ToSlash(filepath.Join(have, "cache", "download")), "/") // of Windows too
	t.Setenv("GOPROXY", (&url.URL{Scheme: "file", Path: path}).String())
	t.Setenv("GOSUMDB", "off")
	t.Setenv("GOFLAGS", "-modcacherw") // so that it can be removed
	t.Setenv("GOMODCACHE", t.TempDir())
	out := t.TempDir()
	if err := prepare(out); err != nil {
		t.Fatal(err)
	}
	t.Run("and no network", func(t *testing.T) {
		t.Setenv("GOPROXY", "off")
		t.Setenv("GOMODCACHE", t.TempDir())
		if err := prepare(t.TempDir()); err == nil || !strings.Contains(err.Error(), "module lookup disabled by GOPROXY=off") {
			t.Errorf("prepare: %v", err)
		}
	})
	for _, lib := range libraries {
		if _, err := os.Stat(filepath.Join(out, lib.dir, "go.mod")); err != nil {
			t.Error(err)
		}
	}
}

// TestLibraryInALocalFolder is a build with a library that is being changed.
func TestLibraryInALocalFolder(t *testing.T) {
	const require = "module main.example\n\ngo 1.26\n\nrequire lib.example v1.0.0\n"
	for _, c := range []struct{ name, mod, work string }{
		{"replaced", require + "\nreplace lib.example => ../lib\n", ""},
		{"in a workspace", require, "go 1.26\n\nuse (\n\t./main\n\t./lib\n)\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			lib, work := filepath.Join(dir, "lib"), "off"
			files := map[string]string{"lib/go.mod": "module lib.example\n\ngo 1.26\n", "main/go.mod": c.mod}
			if c.work != "" {
				files["go.work"], work = c.work, filepath.Join(dir, "go.work")
			}
			for name, text := range files {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(filepath.Join(dir, "main"))
			t.Setenv("GOWORK", work)
			t.Setenv("GOPROXY", "off")
			t.Setenv("GOFLAGS", "")
			if got, err := moduleDir("lib.example"); err != nil || got != lib {
				t.Errorf("moduleDir = %q, %v, want %q", got, err, lib)
			}
			if got, err := moduleDir("other.example"); err == nil || !strings.Contains(err.Error(), "other.example") {
				t.Errorf("moduleDir of a module that is not required = %q, %v", got, err)
			}
		})
	}
}

func build(t *testing.T, args ...string) {
	t.Helper()
	args = append(append([]string{"build"}, args...), "./testdata/probe")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

var initLine = regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) allocs`)

// probe runs a build of testdata/probe and returns what it prints and how many
// allocations each package made at start-up.
func probe(t *testing.T, binary string) (stdout string, allocs map[string]int) {
	t.Helper()
	cmd := exec.Command(binary, filepath.Join(source(t, jsonschema), "testdata"))
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", binary, err, out, &stderr)
	}
	allocs = map[string]int{}
	for _, m := range initLine.FindAllStringSubmatch(stderr.String(), -1) {
		allocs[m[1]], _ = strconv.Atoi(m[2])
	}
	return string(out), allocs
}

// underRace tells whether the test itself was built with the race detector.
func underRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
