package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/treetest"
)

// TestAgentsAndExamplesPassTheirTests runs the tests of this repository as a person
// does, from its root.
func TestAgentsAndExamplesPassTheirTests(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"python3", "node"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("not tested: this machine lacks %s", name)
		}
	}
	files := map[string]bool{} // folders with a test
	for _, dir := range []string{"agents", "examples", "tools"} {
		openAll(t, filepath.Join(repository, dir), files)
	}
	bin := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "agents")); err != nil { // see TestMain
		t.Fatal(err)
	}
	// Recipes of the cookbook need what their own tests put in the place of other programs.
	args := []string{"test", "./agents/..."}
	folders, err := filepath.Glob(filepath.Join(repository, "examples/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range folders {
		if found, _ := filepath.Glob(filepath.Join(dir, "*.agenttest.json")); len(found) > 0 {
			args = append(args, "./examples/"+filepath.Base(dir)+"/...")
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "agents"), args...)
	cmd.Dir = repository
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "XDG_CACHE_HOME="+t.TempDir(), "TZ=UTC")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "ok: ") {
		t.Errorf("agents %s: %v\n%s", args, err, out)
	}
	for _, pattern := range []string{"agents/*/agent.json", "examples/*/agent.json", "examples/*/explain"} {
		found, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("Glob(%s) = %v, %v", pattern, found, err)
		}
		for _, agent := range found {
			dir := filepath.Dir(agent)
			if !files[dir] && !files[filepath.Join(dir, "testdata")] {
				t.Errorf("there is no test beside %s", agent)
			}
		}
	}
}

// openAll opens all files of a folder: the go command remembers the result of a
// test until a file changes that the test itself opened. Folders with test files
// are noted in tested.
func openAll(t *testing.T, dir string, tested map[string]bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if strings.HasSuffix(path, treetest.Suffix) {
			tested[filepath.Dir(path)] = true
		}
		_, err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
