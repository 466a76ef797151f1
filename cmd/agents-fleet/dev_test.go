package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// The Temporal server is two thirds of agents-fleet-dev. Workers do not carry it.
func TestAWorkerHasNoServer(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-tags=noserver", ".").Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("no go command")
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "go.temporal.io/server") {
			t.Errorf("a build with the tag noserver has %s", line)
		}
	}
}
