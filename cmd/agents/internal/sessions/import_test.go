package sessions

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/leaf/filelock"
)

// foreignSession writes a session of agents-exe.
func foreignSession(t *testing.T) (p *program.Env, path string) {
	path = filepath.Join(t.TempDir(), "session.json")
	text := `{"sessionId":"5b8d7a52-8c1e-4f0f-9d5e-0d8f4a3e2b11","forkedFromSessionId":null,"turnId":"t","turns":[
{"tag":"LlmTurn","contents":{"llmResponse":{"responseText":"It turns at noon.","responseThinking":null,"rawResponse":{}},"llmToolCalls":[]}},
{"tag":"UserTurn","contents":{"userPrompt":"","userTools":[],"userQuery":"remember the tide","userToolResponses":[]}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &program.Env{Err: io.Discard, Getenv: func(string) string { return "" }}, path
}

// An import does not wait without a limit for one whose process is stopped.
func TestAnImportIsNotWaitedForForever(t *testing.T) {
	p, path := foreignSession(t)
	release, err := filelock.Acquire(t.Context(), path+importedSuffix+".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	defer func(was time.Duration) { importWait = was }(importWait)
	importWait = 10 * time.Millisecond
	if _, err := ImportFile(p, path); err == nil || !strings.Contains(err.Error(), importedSuffix+".lock for 10ms") {
		t.Errorf("ImportFile = %v; want an error that names the lock and the time", err)
	}
}

// Who has imported a session writes to the journal at once, so no other import may replace it.
func TestASessionIsImportedOnce(t *testing.T) {
	p, path := foreignSession(t)
	var files [8]os.FileInfo
	var wait sync.WaitGroup
	for i := range files {
		wait.Go(func() {
			journal, err := ImportFile(p, path)
			if err == nil {
				files[i], err = os.Stat(journal)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for _, f := range files {
		if !os.SameFile(f, files[0]) {
			t.Fatal("a journal was replaced")
		}
	}
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 2 {
		t.Errorf("left are %v, %v; want the session and its journal", list, err)
	}
}
