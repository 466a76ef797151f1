package exectool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/filelock"
	"github.com/agents-exe/agents/pkg/source/exectool"
)

// lockTool notes when it begins and ends; two that run at the same time see each
// other's note.
const lockTool = `#!/bin/sh
case $1 in
describe) echo '{"slug":"locked","description":"d","args":[{"name":"path","description":"p","type":"path","backing_type":"string","arity":"single","mode":"positional"}],"locks":["repo:{path}","%s"]}' ;;
run)
	mkdir "busy-$2" || echo "not alone"
	sleep 0.05
	rmdir "busy-$2"
	echo "locks: $AGENTS_LOCKS" ;;
esac
`

func openLocked(t *testing.T, lockDir, second string, environ ...string) agent.Tool {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "locked")
	if err := os.WriteFile(path, fmt.Appendf(nil, lockTool, second), 0o755); err != nil {
		t.Fatal(err)
	}
	set, err := exectool.Open(t.Context(), []exectool.Source{{Path: path, Dir: dir}},
		exectool.Options{Environ: append(os.Environ(), environ...), LockDir: lockDir})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := set.Tools(t.Context())
	if err != nil || len(tools) != 1 {
		t.Fatalf("tools = %v, %v, problems %v", tools, err, set.Problems())
	}
	return tools[0]
}

func callLocked(ctx context.Context, tool agent.Tool, path string, n int) (string, error) {
	args, _ := json.Marshal(map[string]string{"path": path})
	inv := &agent.Invocation{Call: agent.ToolCall{ID: "x", Name: "bash_locked", Args: string(args)}, Key: fmt.Sprintf("S.1.%d-%s", n, path), Session: "S", Turn: 1}
	res, err := tool.Call(ctx, inv)
	return res.Text(), err
}

func TestCallsThatShareALockTakeTurns(t *testing.T) {
	t.Parallel()
	locks := t.TempDir()
	tool := openLocked(t, locks, "all")
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			text, err := callLocked(t.Context(), tool, "same", i)
			if err != nil || strings.Contains(text, "not alone") {
				t.Errorf("call %d = %q, %v", i, text, err)
			}
		})
	}
	wg.Wait()
}

func TestWithoutALockFolderCallsRunAtTheSameTime(t *testing.T) {
	tool := openLocked(t, "", "all")
	if text, err := callLocked(t.Context(), tool, "x", 1); err != nil || text != "locks: \n" {
		t.Errorf("call = %q, %v, want no locks", text, err)
	}
}

func TestACallBelowDoesNotWaitForTheLocksAbove(t *testing.T) {
	locks := t.TempDir()
	above := openLocked(t, locks, "all")
	text, err := callLocked(t.Context(), above, "x", 1)
	if err != nil {
		t.Fatal(err)
	}
	ids := strings.TrimSpace(strings.TrimPrefix(text, "locks: "))
	if len(strings.Fields(ids)) != 2 {
		t.Fatalf("the tool was told of the locks %q, want two", ids)
	}
	// Both are held; a process below knows this and does not wait.
	for _, id := range strings.Fields(ids) {
		release := holdFile(t, filepath.Join(locks, id))
		defer release()
	}
	below := openLocked(t, locks, "all", "AGENTS_LOCKS="+ids)
	if text, err := callLocked(t.Context(), below, "x", 2); err != nil || !strings.Contains(text, ids) {
		t.Errorf("call below = %q, %v", text, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("the test has waited enough"))
	if _, err := callLocked(ctx, above, "x", 3); err == nil || !strings.Contains(err.Error(), "nothing ran: lock all: another call holds it: the test has waited enough") {
		t.Errorf("call beside = %v", err)
	}
}

// holdFile locks a file until the returned function is called.
func holdFile(t *testing.T, path string) (release func()) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := filelock.Try(f); err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}
