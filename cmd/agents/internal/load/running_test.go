package load

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
)

func TestRunsThatBeginTogetherAreAllNoted(t *testing.T) {
	state := t.TempDir()
	p := &program.Env{Getenv: func(name string) string { return map[string]string{"XDG_STATE_HOME": state}[name] }}
	const together, times = 16, 20
	var g sync.WaitGroup
	for range together {
		g.Go(func() {
			for range times {
				end, err := NoteRun(t.Context(), p)
				if err != nil {
					t.Error(err)
					return
				}
				if files, _ := filepath.Glob(filepath.Join(TrustDir(p), "*"+runFile)); len(files) == 0 {
					t.Error("a run is in progress and has no file")
				}
				end()
			}
		})
	}
	g.Wait()
	text, err := os.ReadFile(filepath.Join(TrustDir(p), runsLog))
	if n := strings.Count(string(text), "\n"); err != nil || n < together*times {
		t.Errorf("%d runs are noted (%v), want %d", n, err, together*times)
	}
	if files, _ := filepath.Glob(filepath.Join(TrustDir(p), "*"+runFile)); len(files) > 0 {
		t.Errorf("%d files are left of runs that have ended", len(files))
	}
}
