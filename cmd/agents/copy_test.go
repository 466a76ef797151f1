package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestACopyDoesNotEndTheToolsOfTheOriginal continues a copy of a session while the
// original is in the middle of a call.
func TestACopyDoesNotEndTheToolsOfTheOriginal(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux are processes of earlier runs ended")
	}
	first := agentsCommand(t, map[string]string{
		"agent.json":  `{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","toolDirectory":"tools","toolWorkingDirectory":"."}}`,
		"script.json": `{"rules":[{"when":{"turn":1},"answer":{"calls":[{"tool":"bash_slow","args":{}}]}},{"when":{"turn":2},"answer":{"text":"the end"}}]}`,
		"tools/slow": `#!/bin/sh
[ "$1" = describe ] && { echo '{"slug":"slow","description":"waits","args":[]}'; exit 0; }
touch started
while [ ! -e go ]; do sleep 0.05; done
touch finished
`,
	}, "run", "--quiet", "--agent-file", "agent.json", "--session-dir", "sessions", "-p", "go")
	dir := first.Dir
	var out strings.Builder
	first.Stdout, first.Stderr = &out, &out
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- first.Wait() }()
	for exists := false; !exists; {
		select {
		case err := <-ended:
			t.Fatalf("the original ended: %v: %s", err, out.String())
		case <-time.After(10 * time.Millisecond):
			_, err := os.Stat(filepath.Join(dir, "started"))
			exists = err == nil
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "copies"), os.DirFS(filepath.Join(dir, "sessions"))); err != nil {
		t.Fatal(err)
	}
	again := exec.Command(first.Path, "run", "--agent-file", "agent.json", "--session-dir", "copies", "--session", "latest")
	again.Args[0], again.Dir, again.Env = "agents", dir, first.Env
	text, err := again.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "this is a copy of a session that process ") {
		t.Errorf("the copy: %v: %s", err, text)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the original: %v: %s", err, out.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "finished")); err != nil {
		t.Errorf("the tool of the original did not finish: %v", err)
	}
}
