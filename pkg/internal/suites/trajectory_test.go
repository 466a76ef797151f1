//go:build linux

package suites

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTrajectories replays the actions of SWE-agent's trajectories: each arrives at an executable
// unchanged, in order. No action runs: the executable only records its arguments.
func TestTrajectories(t *testing.T) {
	dir := folder(t, "SWE_AGENT", "")
	binary := program(t)
	shell := function{Name: "shell", Parameters: map[string]any{"properties": map[string]any{"command": map[string]any{"type": "string"}}, "required": []any{"command"}}}
	counts, cache := tally{}, t.TempDir()
	for _, file := range files(t, dir, ".traj") {
		var recorded struct {
			Trajectory []struct{ Action *string }
		}
		readJSON(t, file, &recorded)
		q := question{ID: filepath.Base(file), Function: []function{shell}}
		for i, step := range recorded.Trajectory {
			if step.Action == nil {
				t.Fatalf("%s: step %d has no action", file, i)
			}
			q.turns = append(q.turns, []made{{"shell", map[string]any{"command": *step.Action}}})
			counts["bytes"] += len(*step.Action)
		}
		counts["trajectories"]++
		q.play(t, binary, cache, counts)
	}
	t.Log(counts)
}

// program returns the path of the program that make suites has built.
func program(t *testing.T) string {
	t.Helper()
	binary := os.Getenv("AGENTS_TEST_AGENTS")
	if binary == "" {
		t.Skip("AGENTS_TEST_AGENTS does not name the program: run `make suites`")
	}
	return binary
}
