package main

import (
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

// TestPatchedLibrariesAgreeWithTheOriginals builds one program with and without the
// patches. It compiles all drafts from many goroutines at once, as its first act;
// under -race its patched build has the race detector too.
func TestPatchedLibrariesAgreeWithTheOriginals(t *testing.T) {
	// The go command remembers the result of a test until a file that the test itself
	// opened changes, and does not see what `go build` reads.
	if _, err := os.ReadFile("testdata/probe/main.go"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	if err := prepare(out); err != nil {
		t.Fatal(err)
	}
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
		{googleSchema + "/jsonschema", 200, 50},
		{"html/template", 50, 0},
		{"golang.org/x/text/language", 1, 0},
	} {
		if n := before[c.pkg]; n < c.before {
			t.Errorf("%s makes %d allocations at start-up without the patch: it has become lazy itself, or is no longer linked, and its patch can go", c.pkg, n)
		}
		if n := after[c.pkg]; n > c.most {
			t.Errorf("%s makes %d allocations at start-up with the patch, want %d at most", c.pkg, n, c.most)
		}
	}
}

// TestPrepareTwice makes sure that an earlier result is no obstacle and that
// nothing temporary stays.
func TestPrepareTwice(t *testing.T) {
	out := t.TempDir()
	var listings [2][]string
	for i := range listings {
		if err := prepare(out); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(out)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			listings[i] = append(listings[i], e.Name())
		}
	}
	want := []string{"cast", "go.mod", "go.sum", "jsonschema", "jsonschema-go", "openai-go"}
	if !slices.Equal(listings[0], want) || !slices.Equal(listings[1], want) {
		t.Errorf("prepare twice leaves %v, then %v, want %v", listings[0], listings[1], want)
	}
}

// TestOtherSourceIsRefused changes one thing that the patch relies on at a time,
// as a new version of the library could.
func TestOtherSourceIsRefused(t *testing.T) {
	for _, c := range []struct {
		lib, pkg string
		files    map[string][]edit
	}{
		{jsonschema, "", map[string][]edit{"draft.go": draftEdits, "output.go": outputEdits}},
		{googleSchema, "/jsonschema", googleEdits},
		{cast, "", castEdits},
	} {
		src := source(t, c.lib+c.pkg)
		for name, edits := range c.files {
			text, err := os.ReadFile(filepath.Join(src, name))
			if err != nil {
				t.Fatal(err)
			}
			refuseOthers(t, c.lib+"/"+name, string(text), edits)
		}
	}
	src := source(t, jsonschema)
	for name, c := range map[string]struct{ code, want string }{
		"another init":          {"func init() {}", "added.go: an init function"},
		"another read of names": {"func f(d *Draft) int { return len(d.allVocabs) }", "reads allVocabs at 4 places"},
	} {
		dir := filepath.Join(t.TempDir(), "lib")
		if err := copyPatched(dir, src, patchJSONSchema); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "added.go"), []byte("package jsonschema\n\n"+c.code+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := check(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: check = %v, want %q", name, err, c.want)
		}
	}
}

// refuseOthers leaves each thing out that an edit looks for, and adds it once more.
func refuseOthers(t *testing.T, name, text string, edits []edit) {
	t.Helper()
	for _, e := range edits {
		for _, c := range []struct{ name, text string }{
			{"missing", strings.Replace(text, e.old, "", 1)},
			{"once more", text + "\n// " + e.old + "\n"},
		} {
			_, err := apply(name, c.text, edits)
			if err == nil || !strings.Contains(err.Error(), name+": ") || !strings.Contains(err.Error(), " occurs ") {
				t.Errorf("apply with %q %s = %v, want an error that names the file", e.old, c.name, err)
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
