// Package tmuxtest runs programs in a real terminal, that of tmux, for tests: keys go in, the
// screen comes out.
//
//	s := tmuxtest.Open(t, tmuxtest.Options{Command: "agents cli", Columns: 80, Links: map[string]string{"agents": self}})
//	s.Await(`^> $`)
//	s.Press("hello", "Enter")
//	s.Golden("hello")
package tmuxtest

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Options say what runs in a terminal of which size.
type Options struct {
	// Command is for sh. The screen stays when it has ended.
	Command string
	// Dir is where it runs; the default is a new folder.
	Dir string
	// Env is added to an environment with PATH, an empty HOME and a UTF-8 locale.
	Env []string
	// Links are programs in front of PATH: name to executable.
	Links map[string]string
	// Columns and Rows are the size of the terminal; the defaults are 120 and 50.
	Columns, Rows int
	// Names are texts that differ from run to run, such as addresses, and what Golden shows
	// for them.
	Names map[string]string
}

// A Screen is a terminal in which a program runs. It ends with the test.
type Screen struct {
	Dir string // where the program runs

	t      *testing.T
	socket string
	home   string
	names  map[string]string
}

// Open starts a command in a new terminal. The test is skipped without tmux.
func Open(t *testing.T, o Options) *Screen {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("there is no tmux, whose terminals this test types into")
	}
	bin := t.TempDir()
	for name, target := range o.Links {
		if err := os.Symlink(target, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := &Screen{t: t, Dir: o.Dir, socket: filepath.Join(t.TempDir(), "s"), home: t.TempDir(), names: o.Names}
	if s.Dir == "" {
		s.Dir = t.TempDir()
	}
	cmd := s.tmux("-f", "/dev/null", "new-session", "-d",
		"-x", strconv.Itoa(cmp.Or(o.Columns, 120)), "-y", strconv.Itoa(cmp.Or(o.Rows, 50)), "-c", s.Dir, "sh", "-c",
		"trap : INT; "+o.Command+"; trap '' INT; exec sleep 900") // the screen stays, whatever keys still arrive
	// Under the race detector, every process would sleep a second at its end.
	cmd.Env = append([]string{"GORACE=atexit_sleep_ms=0", "PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + s.home, "LANG=C.UTF-8", "TERM=xterm"}, o.Env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tmux: %v\n%s", err, out)
	}
	t.Cleanup(func() { _ = s.tmux("kill-server").Run() })
	return s
}

// tmux returns a command of tmux. The path of a socket must be short, so it is
// relative to the folder.
func (s *Screen) tmux(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-S", filepath.Base(s.socket)}, args...)...)
	cmd.Dir = filepath.Dir(s.socket)
	return cmd
}

func (s *Screen) run(args ...string) string {
	s.t.Helper()
	out, err := s.tmux(args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %s: %v\n%s", args[0], err, out)
	}
	return string(out)
}

// Text is what the terminal shows, and what has scrolled out of sight.
func (s *Screen) Text() string {
	s.t.Helper()
	return s.run("capture-pane", "-p", "-S", "-")
}

// Styled is Text with the escape sequences of colors and styles (SGR).
func (s *Screen) Styled() string {
	s.t.Helper()
	return s.run("capture-pane", "-p", "-e", "-S", "-")
}

// Visible is what the terminal shows now.
func (s *Screen) Visible() string {
	s.t.Helper()
	return s.run("capture-pane", "-p")
}

// Await waits until the pattern matches the text of the terminal. In the pattern, ^
// and $ match at every line.
func (s *Screen) Await(pattern string) {
	s.t.Helper()
	s.await(pattern, func() {})
}

// PressUntil presses a key every second until the pattern matches: a shell that is
// busy may lose one.
func (s *Screen) PressUntil(key, pattern string) {
	s.t.Helper()
	last := time.Now()
	s.await(pattern, func() {
		if time.Since(last) > time.Second {
			s.Press(key)
			last = time.Now()
		}
	})
}

// await looks at the terminal until the pattern matches, and calls between after each
// look.
func (s *Screen) await(pattern string, between func()) {
	s.t.Helper()
	re := regexp.MustCompile(`(?m)` + pattern)
	for end := time.Now().Add(3 * time.Minute); !re.MatchString(s.Text()); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("after three minutes of waiting for %s, the terminal shows\n%s", pattern, s.Text())
		}
		between()
	}
}

// Press sends keys by the names that tmux has for them; anything else is typed as it is.
func (s *Screen) Press(keys ...string) {
	s.t.Helper()
	s.run(append([]string{"send-keys"}, keys...)...)
}

// Type sends a text as it is.
func (s *Screen) Type(text string) {
	s.t.Helper()
	s.run("send-keys", "-l", "--", text)
}

// Paste pastes a text: as a bracketed paste if the program has asked for these.
func (s *Screen) Paste(text string) {
	s.t.Helper()
	s.run("set-buffer", "--", text)
	s.run("paste-buffer", "-p", "-r")
}

// Resize changes the size of the terminal.
func (s *Screen) Resize(columns, rows int) {
	s.t.Helper()
	s.run("resize-window", "-x", strconv.Itoa(columns), "-y", strconv.Itoa(rows))
}

// replaced are the parts of a screen that differ from run to run.
var replaced = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\b20\d{6}-\d{6}-[a-z0-9]{10}\b`), "SESSION"},
	{regexp.MustCompile(`\b\d+(\.\d+)?( ?ms| ?µs|m\d+(\.\d+)?s| ?s)\b`), "0.0s"},
	{regexp.MustCompile(`\b\d\d\d\d-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?Z?\b`), "2006-01-02 15:04"},
}

// column matches a duration in a column of figures, which stays where it is.
var column = regexp.MustCompile(`  +\d+(\.\d+)? s\b`)

// Golden compares the text of the terminal with the file testdata/screens/NAME.txt.
// Durations, times, ids of sessions, and the folders are replaced. Trailing spaces and
// empty lines at the end do not count. With -update, a flag of the calling test
// package, the file is written.
func (s *Screen) Golden(name string) {
	s.t.Helper()
	names := map[string]string{s.Dir: "DIR", s.home: "HOME"}
	maps.Copy(names, s.names)
	got := Normal(s.Text(), names)
	path := filepath.Join("testdata", "screens", name+".txt")
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if got != string(want) {
		s.t.Errorf("the terminal shows\n%s\nwant, as in %s (-update writes it)\n%s", got, path, want)
	}
}

// Normal returns the text of a screen without what differs from run to run. folders are
// the names for paths.
func Normal(text string, folders map[string]string) string {
	for path, name := range folders {
		text = strings.ReplaceAll(text, path, name)
	}
	text = column.ReplaceAllStringFunc(text, func(s string) string { return fmt.Sprintf("%*s", len(s), "0.0s") })
	for _, r := range replaced {
		text = r.pattern.ReplaceAllString(text, r.by)
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}
