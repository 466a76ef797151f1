package filelock_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agents-exe/agents/pkg/leaf/filelock"
)

func TestSetTakesTurns(t *testing.T) {
	set := filelock.Set{Dir: t.TempDir() + "/locks"}
	sum := sha256.Sum256([]byte("terminal"))
	id := hex.EncodeToString(sum[:16])
	ids, release, err := set.Acquire(t.Context(), "terminal")
	if err != nil || !slices.Equal(ids, []string{id}) {
		t.Fatalf("Acquire = %q, %v, want %s", ids, err, id)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := set.Acquire(ended, "other", "terminal"); err == nil {
		t.Error("the lock was taken twice")
	}
	if _, other, err := set.Acquire(ended, "other"); err != nil {
		t.Errorf("another lock: %v", err)
	} else {
		other()
	}
	below := filelock.Set{Dir: set.Dir, Held: []string{"x", id}}
	if !below.Holds("terminal") || below.Holds("other") || set.Holds("terminal") {
		t.Error("Holds is not about Held")
	}
	if ids, again, err := below.Acquire(ended, "terminal"); err != nil || !slices.Equal(ids, below.Held) {
		t.Errorf("a lock that is held above: %q, %v", ids, err)
	} else {
		again()
	}
	release()
	if _, again, err := set.Acquire(t.Context(), "terminal"); err != nil {
		t.Errorf("after its release: %v", err)
	} else {
		again()
	}
	if ids, none, err := (filelock.Set{}).Acquire(ended, "terminal"); err != nil || ids != nil {
		t.Errorf("without a folder: %q, %v", ids, err)
	} else {
		none()
	}
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
				_, release, err := filelock.Set{Dir: dir}.Acquire(t.Context(), "odd/../name\n\x00 ü")
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
