package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

func TestTheLargestFileIsFound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's here")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"small": 1, "large": 100, "middle": 10} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var calls []string
	out, err := run(t.Context(), dir, func(e agent.Event) {
		if e.Kind == agent.EventCallStarted {
			calls = append(calls, e.Tool)
		}
	})
	if err != nil || out.Answer != "The largest file is large." {
		t.Errorf("run = %+v, %v", out, err)
	}
	if got := strings.Join(calls, " "); got != "bash finish" {
		t.Errorf("it called %s", got)
	}
}

func TestAFolderThatIsNotThereIsRejected(t *testing.T) {
	out, err := run(t.Context(), "/nowhere/at/all", func(agent.Event) {})
	if out.Status != agent.StatusRefused || err == nil || !strings.Contains(err.Error(), "/nowhere/at/all") {
		t.Errorf("run = %+v, %v", out, err)
	}
}
