//go:build linux

package suites

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOpenResponses runs the compliance cases of Open Responses against `agents serve`, with the
// suite's own program.
func TestOpenResponses(t *testing.T) {
	dir, binary := folder(t, "OPEN_RESPONSES", ""), program(t)
	bun := filepath.Join(dir, "node_modules/.bin/bun")
	if _, err := os.Stat(bun); err != nil {
		t.Fatalf("%v: run `npm install --no-save bun zod@3` there", err)
	}
	at := t.TempDir()
	for name, text := range map[string]string{
		"agent.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"a","flavor":"scripted","script":"script.json"}}`,
		"script.json": `{"rules":[
			{"when":{"prompt":"weather","role":"user"},"answer":{"calls":[{"tool":"get_weather","args":{"location":"San Francisco, CA"}}]}},
			{"answer":{"text":"Hello to you."}}]}`,
	} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	serve := exec.Command(binary, "serve", "--agent-file", filepath.Join(at, "agent.json"), "--no-token", "--listen", "127.0.0.1:0")
	serve.Env = append(os.Environ(), "XDG_STATE_HOME="+at, "XDG_CACHE_HOME="+at)
	pipe, err := serve.StderrPipe()
	if err == nil {
		err = serve.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = serve.Process.Kill(); _ = serve.Wait() }()
	lines := bufio.NewScanner(pipe)
	url := ""
	for url == "" && lines.Scan() {
		_, url, _ = strings.Cut(lines.Text(), " at ")
	}
	go func() {
		for lines.Scan() {
		}
	}()
	cmd := exec.Command(bun, "run", "bin/compliance-test.ts", "--base-url", url+"/v1", "--api-key", "x", "--model", "a", "--json")
	cmd.Dir = dir
	out, err := cmd.Output() // the exit code is 1 if a case fails
	var report struct {
		Results []struct {
			ID, Status string
			Errors     []string
		}
	}
	if jsonErr := json.Unmarshal(out, &report); jsonErr != nil || len(report.Results) == 0 {
		t.Fatalf("%v, %v: %s", err, jsonErr, out)
	}
	passed := 0
	for _, r := range report.Results {
		if r.Status != "passed" {
			t.Errorf("%s: %s: %q", r.ID, r.Status, r.Errors)
			continue
		}
		passed++
	}
	if passed < 17 {
		t.Errorf("%d cases passed, want 17", passed)
	}
}
