//go:build unix

package sessionindex

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpu returns the processor time that this process has used. Unlike elapsed time, it does not
// depend on what else the machine does.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// The time of a search grows linearly with the matches in a text, not quadratically.
func TestATextWithManyMatches(t *testing.T) {
	folder := t.TempDir()
	keep(t, folder, "one", "a", "p", strings.Repeat("lease of a house\n", 10_000)+"an old lease", "-")
	x := open(t, filepath.Join(t.TempDir(), "index"))
	for _, words := range [][]string{{"lease"}, {"lease", "house"}, {"l*", "old"}, {"a house"}} {
		q := &Query{Words: words, Folders: []string{folder}}
		begin := cpu(t)
		if err := x.Update(t.Context(), q.Folders); err != nil {
			t.Fatal(err)
		}
		hits, err := x.Search(t.Context(), q)
		if err != nil || len(hits) == 0 || len(hits[0].Snippet) < 2 {
			t.Fatalf("%q: %d hits, %v", words, len(hits), err)
		}
		if took := cpu(t) - begin; took > 20*time.Second {
			t.Errorf("%q: %v of processor time", words, took)
		}
	}
}
