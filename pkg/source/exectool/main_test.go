package exectool

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
)

// TestMain makes the test binary a tool: under the name "dumper" it shows what
// it received, and under "opener" it opens tools in a process of its own.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "dumper":
		os.Exit(dump())
	case "opener":
		os.Exit(openInProcess())
	}
	goleak.VerifyTestMain(m)
}

// A received is what the dumper was given.
type received struct {
	Argv  [][]byte
	Stdin []byte
	Env   []string
	Dir   string
}

// dump writes down what it received into a file beside it.
func dump() int {
	r := received{Argv: [][]byte{}, Env: os.Environ()}
	for _, arg := range os.Args[1:] {
		r.Argv = append(r.Argv, []byte(arg))
	}
	r.Stdin, _ = io.ReadAll(os.Stdin)
	r.Dir, _ = os.Getwd()
	data, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(os.Args[0]+".out", data, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// openInProcess waits for the end of standard input, opens the folder that the
// first argument names with the cache of the second, and prints the tools.
func openInProcess() int {
	io.Copy(io.Discard, os.Stdin)
	set, err := Open(context.Background(), []Source{{Path: os.Args[1]}}, Options{Environ: os.Environ(), CacheDir: os.Args[2]})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for _, t := range set.List() {
		fmt.Println(t.Spec().Name, t.Spec().Description, string(t.Spec().Schema))
	}
	for _, p := range set.Problems() {
		fmt.Println(p.Err)
	}
	return 0
}

// fastExit keeps the race detector of a child from waiting for a second.
const fastExit = "GORACE=atexit_sleep_ms=0"

// A dumper is the test binary as a tool.
type dumper struct{ path string }

func newDumper(t testing.TB) *dumper {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := &dumper{path: filepath.Join(t.TempDir(), "dumper")}
	if err := os.Symlink(exe, d.path); err != nil {
		t.Fatal(err)
	}
	return d
}

// open makes a tool of it that is described by text.
func (d *dumper) open(src Source, opts Options, text string) (*Tool, error) {
	desc, _, err := ParseDescription([]byte(text))
	if err != nil {
		return nil, err
	}
	return &Tool{
		spec: desc.Spec(), path: d.path, abs: d.path, raw: []byte(text),
		src: &src, env: append(toolenv.Environ(opts.Environ, src.Env), fastExit), opts: &shared{Options: opts},
	}, nil
}

// call calls the tool and returns what the dumper received, nil if it did not
// run.
func (d *dumper) call(tool *Tool, args string) (*received, error) {
	return d.invoke(tool, invocation(args))
}

func (d *dumper) invoke(tool *Tool, inv *agent.Invocation) (*received, error) {
	os.Remove(d.path + ".out")
	_, callErr := tool.Call(context.Background(), inv)
	data, err := os.ReadFile(d.path + ".out")
	if os.IsNotExist(err) {
		return nil, callErr
	}
	if err != nil {
		return nil, err
	}
	r := &received{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, err
	}
	return r, callErr
}

// calls counts the calls of this process.
var calls atomic.Int64

// invocation is a call with a key of its own: whatever carries the key of a call
// that has ended is ended too, also in another process that runs these tests.
func invocation(args string) *agent.Invocation {
	session := "ses-" + strconv.Itoa(os.Getpid())
	return &agent.Invocation{
		Call: agent.ToolCall{ID: "c1", Args: args}, Key: fmt.Sprintf("%s.2.%d", session, calls.Add(1)),
		Session: session, Agent: "boss", Turn: 2,
	}
}

// script writes an executable shell script.
func script(t testing.TB, path, body string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// describing is a script body that describes itself by text and runs body.
func describing(text, body string) string {
	return "if [ \"$1\" = describe ]; then cat <<'EOT'\n" + text + "\nEOT\nexit 0; fi\nshift\n" + body + "\n"
}

// plain is a description without arguments.
func plain(slug string) string {
	return `{"slug":"` + slug + `","description":"does ` + slug + `","args":[]}`
}

// openOne opens a script with the description and the body.
func openOne(t testing.TB, src Source, text, body string) *Tool {
	t.Helper()
	src.Path = script(t, filepath.Join(t.TempDir(), "tool.sh"), describing(text, body))
	set, err := Open(t.Context(), []Source{src}, Options{Environ: os.Environ(), SpoolDir: filepath.Join(t.TempDir(), "spool")})
	if err != nil {
		t.Fatal(err)
	}
	if len(set.List()) != 1 {
		t.Fatalf("%d tools; problems: %v", len(set.List()), set.Problems())
	}
	return set.List()[0]
}

// problems is the text of the problems with dir taken out.
func problemTexts(set *Toolset, dir string) string {
	var b strings.Builder
	for _, p := range set.Problems() {
		fmt.Fprintln(&b, strings.ReplaceAll(p.Err.Error(), dir, "DIR"))
	}
	return b.String()
}
