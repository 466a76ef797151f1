package exectool_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/exectool"
	"github.com/agents-exe/agents/pkg/filelock"
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

// Removing the files of locks must not let two holders lock different files of
// one name.
func TestLocksExcludeAndLeaveNoFiles(t *testing.T) {
	dir := t.TempDir()
	var holders, most atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				release, err := exectool.Lock(t.Context(), dir, nil, "odd/../name\n\x00 ü")
				if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n > most.Load() {
					most.Store(n)
				}
				runtime.Gosched()
				holders.Add(-1)
				release()
			}
		})
	}
	wg.Wait()
	if most.Load() != 1 {
		t.Errorf("%d held the lock at one time", most.Load())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left in the folder", left, err)
	}
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
	// Somebody holds both; a process below is told so and does not wait.
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

// TestLockTakesTurnsWithTools: whoever is no tool waits for the same locks, and
// not for those of a call above.
func TestLockTakesTurnsWithTools(t *testing.T) {
	dir := t.TempDir()
	release, err := exectool.Lock(t.Context(), dir, nil, "terminal")
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := exectool.Lock(ended, dir, nil, "terminal"); err == nil {
		t.Error("the lock was taken twice")
	}
	other, err := exectool.Lock(ended, dir, nil, "other")
	if err != nil {
		t.Errorf("another lock: %v", err)
	} else {
		other()
	}
	sum := sha256.Sum256([]byte("terminal"))
	below := []string{exectool.EnvLocks + "=x " + hex.EncodeToString(sum[:16])}
	if !exectool.Holds(below, "terminal") || exectool.Holds(below, "other") || exectool.Holds(nil, "terminal") {
		t.Error("Holds does not read what a call above holds")
	}
	if again, err := exectool.Lock(ended, dir, below, "terminal"); err != nil {
		t.Errorf("the lock of the call above: %v", err)
	} else {
		again()
	}
	release()
	if again, err := exectool.Lock(t.Context(), dir, nil, "terminal"); err != nil {
		t.Errorf("after its release: %v", err)
	} else {
		again()
	}
}
