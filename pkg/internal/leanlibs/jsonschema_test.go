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

// TestPatchedLibraryAgreesWithTheOriginal builds one program with and without the
// patch. It compiles all drafts from many goroutines at once, as its first act;
// under -race its patched build has the race detector too.
func TestPatchedLibraryAgreesWithTheOriginal(t *testing.T) {
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
	if before < 10_000 {
		t.Errorf("the library makes %d allocations at start-up without the patch: it has become lazy itself, and this command can go", before)
	}
	if after > 500 {
		t.Errorf("the library makes %d allocations at start-up with the patch, want few", after)
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
	want := []string{"go.mod", "go.sum", "jsonschema", "openai-go"}
	if !slices.Equal(listings[0], want) || !slices.Equal(listings[1], want) {
		t.Errorf("prepare twice leaves %v, then %v, want %v", listings[0], listings[1], want)
	}
}

// TestOtherSourceIsRefused changes one thing that the patch relies on at a time,
// as a new version of the library could.
func TestOtherSourceIsRefused(t *testing.T) {
	src, err := goOutput("list", "-f", "{{.Module.Dir}}", jsonschema)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(src, patched))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range edits {
		for _, c := range []struct{ name, text string }{
			{"missing", strings.Replace(string(text), e.old, "", 1)},
			{"once more", string(text) + "\n// " + e.old + "\n"},
		} {
			_, err := apply(c.text)
			if err == nil || !strings.Contains(err.Error(), "draft.go: "+strconv.Quote(e.old)+" occurs") {
				t.Errorf("apply with %q %s = %v, want an error that names it", e.old, c.name, err)
			}
		}
	}
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

var initLine = regexp.MustCompile(`init ` + regexp.QuoteMeta(jsonschema) + ` @.* (\d+) allocs`)

// probe runs a build of testdata/probe and returns what it prints and how many
// allocations the library made at start-up.
func probe(t *testing.T, binary string) (stdout string, allocs int) {
	t.Helper()
	src, err := goOutput("list", "-f", "{{.Module.Dir}}", jsonschema)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, filepath.Join(src, "testdata"))
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", binary, err, out, &stderr)
	}
	if m := initLine.FindStringSubmatch(stderr.String()); m != nil {
		allocs, _ = strconv.Atoi(m[1])
	}
	return string(out), allocs
}

// underRace tells whether the test itself was built with the race detector.
func underRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
