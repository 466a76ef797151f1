package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/scaffold"
)

func TestTheHelpOfACommandHasATimeLimit(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "waits")
	if err := os.WriteFile(file, []byte("#!/bin/sh\necho It waits.\nwhile :; do sleep 60; done\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := &program.Env{Err: io.Discard, Getenv: func(string) string { return "" }, Environ: []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, Describing: 50 * time.Millisecond}
	done := make(chan string, 1)
	go func() { done <- scaffold.CommandHelp(t.Context(), p, "waits") }()
	select {
	case text := <-done:
		if text != "" {
			t.Errorf("the help of a command that did not end is %q", text)
		}
	case <-time.After(time.Minute):
		t.Fatal("it is still waited for")
	}
}
