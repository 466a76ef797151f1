package load

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

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

// A log of runs may be a link, to which the runs are added.
func TestRunsLogIsALink(t *testing.T) {
	for name, before := range map[string]string{"to a log": "1 2\n3 4\n", "to nothing yet": ""} {
		t.Run(name, func(t *testing.T) {
			dir, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
			link := filepath.Join(dir, runsLog)
			if before != "" {
				if err := os.WriteFile(log, []byte(before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(log, link); err != nil {
				t.Skip(err) // on Windows not everyone may
			}
			for _, i := range []int64{5, 7} {
				if err := appendRun(t.Context(), dir, interval{time.Unix(0, i), time.Unix(0, i+1)}); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(log)
			if want := before + "5 6\n7 8\n"; err != nil || string(text) != want {
				t.Errorf("the log has %q, %v, want %q", text, err, want)
			}
			if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
				t.Errorf("the link has become %v, %v", info, err)
			}
		})
	}
}
