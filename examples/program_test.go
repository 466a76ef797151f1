package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// timeout ends a command that hangs.
const timeout = 3 * time.Minute

// A program is a built binary with a home folder of its own. Tests run it as a
// person does: in a process of its own, without the configuration and the keys of
// the tester.
type program struct {
	// root is the repository.
	root string
	// environ has the program as `agents` in PATH.
	environ []string

	dir string
}

// build builds the program. Remove it after use.
func build() (*program, error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return nil, err
	}
	if err := read(root); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "agents-program-")
	if err != nil {
		return nil, err
	}
	p := &program{root: root, environ: environ(dir), dir: dir}
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(dir, "bin", "agents"), "./cmd/agents")
	cmd.Dir = root
	// Static, so that it also starts in an image with nothing else.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("build the program: %w\n%s", err, out), p.remove())
	}
	return p, os.Mkdir(filepath.Join(dir, "home"), 0o755)
}

// searchPath is the PATH of environ.
func (p *program) searchPath() string { return strings.TrimPrefix(p.environ[0], "PATH=") }

// remove deletes what build made.
func (p *program) remove() error { return os.RemoveAll(p.dir) }

// read opens all files that a test of the program may depend on. The go command
// remembers the result of a test until a file that the test itself opened
// changes, and does not see what other processes read.
func read(root string) error {
	for _, top := range []string{"agents", "cmd", "examples", "go.mod", "pkg", "schemas", "tools"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				_, err = os.ReadFile(path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // an editor's temporary file
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func environ(dir string) []string {
	path := filepath.Join(dir, "bin") + string(os.PathListSeparator)
	// A shim in front of Python takes longer than most tools.
	if out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output(); err == nil {
		path += filepath.Dir(strings.TrimSpace(string(out))) + string(os.PathListSeparator)
	}
	return []string{
		"PATH=" + path + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "TMPDIR=" + dir,
		"LC_ALL=C.UTF-8", "TERM=dumb", "TZ=UTC",
		"http_proxy=http://127.0.0.1:9", "https_proxy=http://127.0.0.1:9",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.org",
		"GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.org",
	}
}

// A command is a command line to run.
type command struct {
	dir   string   // empty means the repository
	env   []string // added to the environment
	stdin string
	args  []string // they begin with the name or path of what is run
}

// A result is what a command did.
type result struct {
	stdout, stderr string
	code           int
}

// run runs a command. Whatever its exit code, the test goes on.
func (p *program) run(t *testing.T, c command) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	// env finds the name in the PATH of the command and not in that of the test.
	cmd := exec.CommandContext(ctx, "/usr/bin/env", c.args...)
	cmd.WaitDelay = time.Minute
	cmd.Dir = c.dir
	if c.dir == "" {
		cmd.Dir = p.root
	}
	cmd.Env = append(append(p.environ[:len(p.environ):len(p.environ)], c.env...), "PWD="+cmd.Dir)
	cmd.Stdin = strings.NewReader(c.stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %q: %v\n%s%s", c.args, err, &out, &errs)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// An answer is the result of a run in the form of --output json.
type answer struct {
	Answer  string
	Session string
	Turns   int
	Tools   map[string]struct{ Calls int }    // of the whole tree
	Agents  map[string]struct{ Requests int } // of the whole tree
}

// calls are the numbers of calls by the name of the tool.
func (a answer) calls() map[string]int {
	calls := map[string]int{}
	for name, usage := range a.Tools {
		calls[name] = usage.Calls
	}
	return calls
}

// ask runs `agents run` with c.args behind it. The test ends if there is no
// answer.
func (p *program) ask(t *testing.T, c command) answer {
	t.Helper()
	c.args = append([]string{"agents", "run", "--quiet", "--output", "json"}, c.args...)
	r := p.run(t, c)
	var a answer
	if err := json.Unmarshal([]byte(r.stdout), &a); err != nil || r.code != 0 || r.stderr != "" {
		t.Fatalf("%q: exit code %d, %v\n%s%s", c.args, r.code, err, r.stdout, r.stderr)
	}
	return a
}

// needs skips the test where a program is missing.
func needs(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("not tested: this machine lacks %s", name)
		}
	}
}
