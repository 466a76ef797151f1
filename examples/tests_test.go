package examples_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/trial/treetest"
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
	glob := func(pattern string) []string {
		found, err := filepath.Glob(filepath.Join(agents.root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("Glob(%s) = %v, %v", pattern, found, err)
		}
		return found
	}
	// Recipes of the cookbook need what their own tests put in the place of other programs.
	args := []string{"agents", "test", "./agents/..."}
	for _, file := range glob("examples/*/*" + treetest.Suffix) {
		if dir := "./examples/" + filepath.Base(filepath.Dir(file)) + "/..."; !slices.Contains(args, dir) {
			args = append(args, dir)
		}
	}
	if got := agents.run(t, command{args: args, env: []string{"TZ=UTC"}}); got.code != 0 || !strings.HasPrefix(got.stdout, "ok: ") {
		t.Errorf("%s: exit code %d\n%s%s", args, got.code, got.stdout, got.stderr)
	}
	for _, pattern := range []string{"agents/*/agent.json", "examples/*/agent.json", "examples/*/explain"} {
		for _, agent := range glob(pattern) {
			beside, _ := filepath.Glob(filepath.Join(filepath.Dir(agent), "*"+treetest.Suffix))
			below, _ := filepath.Glob(filepath.Join(filepath.Dir(agent), "testdata", "*"+treetest.Suffix))
			if len(beside)+len(below) == 0 {
				t.Errorf("there is no test beside %s", agent)
			}
		}
	}
}
