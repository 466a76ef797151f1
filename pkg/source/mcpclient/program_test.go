package mcpclient

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/process"
)

func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"server": 0o755, "plugin": 0o755, "data": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	s := Server{Executable: "server", Dir: dir, Env: []string{"PATH=" + dir}, Args: []string{"plugin", "data", "new.py", "--x", "/abs/main.JS", "."}}
	want := []string{filepath.Join(dir, "server"), filepath.Join(dir, "plugin"), filepath.Join(dir, "new.py"), "/abs/main.JS"}
	if diff := cmp.Diff(want, s.Programs()); diff != "" {
		t.Errorf("Programs() (-want +got):\n%s", diff)
	}
	if got := (&Server{URL: "http://localhost/x.py"}).Programs(); got != nil {
		t.Errorf("Programs() of an address = %v", got)
	}
}

// TestPinnedProgramWithTheSameTimeAndSize: a change that hides is seen.
func TestPinnedProgramWithTheSameTimeAndSize(t *testing.T) {
	for name, replace := range map[string]func(file string, text []byte) error{
		"written": func(file string, text []byte) error { return os.WriteFile(file, text, 0o700) },
		"renamed": func(file string, text []byte) error {
			return errors.Join(os.WriteFile(file+".new", text, 0o700), os.Rename(file+".new", file))
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "server")
			if err := os.WriteFile(file, []byte("one"), 0o700); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			pin := process.NewPin([]string{file})
			if err := pin.Unchanged([]string{file}); err != nil {
				t.Fatal(err)
			}
			for tries := 0; pin.Unchanged([]string{file}) == nil; tries++ { // the clock of a file system may be coarse
				if tries > 1000 {
					t.Fatal("the change was not seen")
				}
				if err := errors.Join(replace(file, []byte("two")), os.Chtimes(file, info.ModTime(), info.ModTime())); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
}

// TestPinnedProgram: with Pinned, a program that changed after Open is not executed.
func TestPinnedProgram(t *testing.T) {
	for _, pinned := range []bool{true, false} {
		r := newRig(t, "legacy")
		script := filepath.Join(r.dir, "server.sh")
		exe := r.server.Executable
		r.write("server.sh", "exec "+exe+"\n")
		r.server.Executable, r.server.Args = "sh", []string{script}
		r.opts.Pinned = pinned
		set := r.open()
		r.write("server.sh", "echo changed >> \"$FAKE_NOTES\"; exec "+exe+"\n")
		_, err := set.Tools(t.Context())
		if executed := strings.Contains(r.notes(), "changed"); executed == pinned {
			t.Errorf("pinned %v: executed = %v", pinned, executed)
		}
		if refused := err != nil && strings.Contains(err.Error(), "has changed since this program started"); refused != pinned {
			t.Errorf("pinned %v: err = %v", pinned, err)
		}
	}
}
