package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A run that no worker can end is terminated; one that has ended stays as it is. The list
// shows that costs are not known.
func testTerminate(t *testing.T, file string) {
	code, id, stderr := do(t.Context(), "", "submit", "--queue", "nobody", "--agent-file", file, "--prompt", "x")
	id = strings.TrimSpace(id)
	if code != 0 || !strings.Contains(stderr, "warning: no worker takes work from the queue nobody: run "+id+" waits for one") {
		t.Fatalf("submit: %d, %q", code, stderr)
	}
	for _, want := range []string{"", "note: run " + id + " has already ended\n"} {
		if code, _, stderr := do(t.Context(), "", "terminate", id); code != 0 || stderr != want {
			t.Errorf("terminate: %d, %q, want %q", code, stderr, want)
		}
	}
	if code, _, stderr := do(t.Context(), "", "attach", id); code != 130 || !strings.Contains(stderr, "Terminated") {
		t.Errorf("attach: %d, %q", code, stderr)
	}
	if code, _, stderr := do(t.Context(), "", "terminate", "nothing"); code != 2 {
		t.Errorf("terminate: %d, %q", code, stderr)
	}
	until(t, "the costs are listed", func() bool {
		_, out, _ := do(t.Context(), "", "list")
		return strings.Contains(out, "  ok           unpriced\n") && strings.Contains(out, "terminated")
	})
	waiting := filepath.Join(filepath.Dir(file), "waiting")
	_ = os.Remove(waiting) // of earlier runs
	_, id, _ = do(t.Context(), "", "submit", "--agent-file", file, "--prompt", "wait")
	id = strings.TrimSpace(id)
	until(t, "the call starts", func() bool { _, err := os.Stat(waiting); return err == nil })
	if code, _, stderr := do(t.Context(), "", "terminate", id); code != 0 || stderr != "" {
		t.Errorf("terminate: %d, %q", code, stderr)
	}
	if code, _, stderr := do(t.Context(), "", "attach", id); code != 130 || !strings.Contains(stderr, "the run was terminated") {
		t.Errorf("attach: %d, %q", code, stderr)
	}
	_, id, _ = do(t.Context(), "", "submit", "--agent-file", file, "--prompt", "slow")
	id = strings.TrimSpace(id)
	var events safe
	shown := make(chan int, 1)
	go func() {
		shown <- run(t.Context(), environment(strings.NewReader(""), &events, io.Discard), []string{"agents-fleet", "attach", id, "--output", "jsonl"})
	}()
	until(t, "the request", func() bool { return strings.Contains(events.String(), `"kind":"request"`) })
	if code, _, stderr := do(t.Context(), "", "terminate", id); code != 0 || stderr != "" {
		t.Errorf("terminate: %d, %q", code, stderr)
	}
	if code := <-shown; code != 130 || !strings.Contains(events.String(), `"status":"interrupted","spent":{"usage":{"requests":1,`) {
		t.Errorf("attach: %d, %s", code, events.String())
	}
	_, out, _ := do(t.Context(), "", "list", "--json")
	for line := range strings.Lines(out) {
		if strings.Contains(line, id) && !strings.Contains(line, `"unpriced":1`) {
			t.Errorf("list: %s", line)
		}
	}
}
