package python_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/toolbox/python"
)

// cells is a model that calls python with one cell after the other, several of one turn
// at once, and answers.
type cells [][]string

func (c cells) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	m := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("done")}}
	if n := req.Turn - 1; n < len(c) {
		m.Parts = nil
		for _, code := range c[n] {
			args, _ := json.Marshal(map[string]string{"code": code})
			m.Calls = append(m.Calls, agent.ToolCall{Name: "python", Args: string(args)})
		}
	}
	return &agent.Response{Message: m}, nil
}

func options(t *testing.T) python.Options {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is missing")
	}
	return python.Options{Environ: os.Environ(), Dir: t.TempDir(), SpoolDir: t.TempDir(), Timeout: time.Minute, Grace: 20 * time.Second}
}

// results runs cells, each in a turn of its own, and returns what came of them.
func results(t *testing.T, o python.Options, list ...string) []string {
	t.Helper()
	var turns cells
	for _, c := range list {
		turns = append(turns, []string{c})
	}
	return run(t, o, turns)
}

func run(t *testing.T, o python.Options, turns cells) []string {
	t.Helper()
	r := &runner.Runner{Agent: &agent.Agent{Slug: "a", Provider: turns, Toolsets: []agent.Toolset{python.Open(o)}}}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range r.Session().Messages {
		for _, res := range m.Results {
			got = append(got, res.Text())
		}
	}
	return got
}

func TestCells(t *testing.T) {
	o := options(t)
	if err := os.WriteFile(filepath.Join(o.Dir, "json.py"), []byte("raise SystemExit('not this one')"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.Dir, "mine.py"), []byte("x = 'my module'"), 0o644); err != nil {
		t.Fatal(err)
	}
	list := []struct{ cell, want string }{
		{"x = 20", "The cell printed nothing and has no value."},
		{"x + 1", "21"},
		{"_ * 2", "42"},
		{"print('a', end='')\nx", "a\n20"},
		{"import sys\nprint('err', file=sys.stderr)", "err\n"},
		{"import subprocess\n_ = subprocess.run('echo below; echo two >&2', shell=True)", "below\ntwo\n"},
		{"None", "The cell printed nothing and has no value."},
		{"def f(n):\n    return 1 / n", "The cell printed nothing and has no value."},
		{"print('first')\nf(0)", "error: ZeroDivisionError: division by zero\nfirst\nTraceback (most recent call last):\n  File \"<cell 9>\", line 2, in <module>\n    f(0)\n"},
		{"x ==", "error: SyntaxError: invalid syntax\n  File \"<cell 10>\", line 1\n"},
		{"raise SystemExit(3)", "error: SystemExit: 3\n"},
		{"input()", "error: EOFError: EOF when reading a line\n"},
		{"import mine; mine.x", "'my module'"},
		{"import pickle\nclass C: pass\ntype(pickle.loads(pickle.dumps(C())))", "<class '__main__.C'>"},
		{"'\\ud800'", `'\ud800'`},
		{"class R:\n    def __repr__(self): raise ValueError('no repr')\nR()", "error: ValueError: no repr\n"},
		{"x", "20"},
		{"import os; os.getcwd()", "'" + o.Dir + "'"},
		{"os.environ['AGENTS_AGENT']", "'a'"},
		{"", "The cell printed nothing and has no value."},
		{"child = os.fork()\nif child: os.waitpid(child, 0)\nprint('both')", "both\nboth\n"},
		{"x", "20"},
	}
	var sent []string
	for _, c := range list {
		sent = append(sent, c.cell)
	}
	for i, got := range results(t, o, sent...) {
		if want := list[i].want; got != want && !(strings.HasPrefix(want, "error: ") && strings.HasPrefix(got, want)) {
			t.Errorf("%q:\n%s\nwant\n%s", list[i].cell, got, want)
		}
	}
}

func TestCellsOfATurnTakeTurns(t *testing.T) {
	var turn []string
	for range 8 {
		turn = append(turn, "try:\n    n += 1\nexcept NameError:\n    n = 1\nimport time; time.sleep(0.01)\nn")
	}
	sum := 0
	for _, got := range run(t, options(t), cells{turn}) {
		n, err := strconv.Atoi(got)
		if err != nil {
			t.Fatalf("a cell gives %q", got)
		}
		sum += n
	}
	if sum != 36 {
		t.Errorf("the sum of the counts is %d", sum)
	}
}

func TestASlowCellIsInterruptedAndTheSessionStays(t *testing.T) {
	o := options(t)
	o.Timeout = 500 * time.Millisecond
	got := results(t, o, "x = 1\nprint('began', flush=True)\nimport time\ntime.sleep(60)", "while True: x += 0", "x")
	for i := range 2 {
		if !strings.HasPrefix(got[i], "error: timed out after 0.5 s (timeoutSeconds); the cell was interrupted; the session keeps its state\n") || !strings.Contains(got[i], "KeyboardInterrupt") {
			t.Errorf("cell %d: %s", i, got[i])
		}
	}
	if !strings.Contains(got[0], "\nbegan\n") || got[2] != "1" {
		t.Errorf("output %q, then %q", got[0], got[2])
	}
}

func TestACellThatCannotBeInterruptedLosesTheSession(t *testing.T) {
	o := options(t)
	o.Timeout, o.Grace = 500*time.Millisecond, 100*time.Millisecond
	got := results(t, o, "x = 1", "import time\nwhile True:\n    try:\n        time.sleep(60)\n    except BaseException: pass", "'x' in globals()")
	if !strings.HasPrefix(got[1], "error: timed out after 0.5 s (timeoutSeconds); the cell ignored the interrupt, so Python was killed") {
		t.Errorf("the cell gives %q", got[1])
	}
	if want := "[a new Python session: the names of earlier cells are gone]\nFalse"; got[2] != want {
		t.Errorf("the next cell gives %q, want %q", got[2], want)
	}
}

func TestAPythonThatDoesNotStartSaysWhy(t *testing.T) {
	o := options(t)
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "python3"), []byte("#!/bin/sh\necho this machine has none >&2\nexit 9\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	o.Environ = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
	if got := results(t, o, "1"); got[0] != "error: nothing ran: start python3: exit status 9\nthis machine has none\n" {
		t.Errorf("the cell gives %q", got[0])
	}
	o.Environ = nil
	if got := results(t, o, "1"); !strings.HasPrefix(got[0], "error: nothing ran: ") {
		t.Errorf("without a PATH the cell gives %q", got[0])
	}
}

// The interrupt comes before the cell has begun.
func TestACellWithoutTimeIsInterrupted(t *testing.T) {
	o := options(t)
	o.Timeout = time.Nanosecond
	got := results(t, o, "open('ran', 'w')")
	if !strings.HasPrefix(got[0], "error: timed out after") || !strings.Contains(got[0], "the cell was interrupted") {
		t.Errorf("the cell gives %q", got[0])
	}
}

func TestAnInterpreterThatEndsIsReplaced(t *testing.T) {
	got := results(t, options(t), "import os\nprint('bye', flush=True)\nos._exit(3)", "1")
	if want := "error: the Python process has ended; the next cell begins a new session (exit status 3)\nbye\n"; got[0] != want {
		t.Errorf("the cell gives %q, want %q", got[0], want)
	}
	if want := "[a new Python session: the names of earlier cells are gone]\n1"; got[1] != want {
		t.Errorf("the next cell gives %q, want %q", got[1], want)
	}
}

// TestAProcessThatGoesOnWithoutRepliesIsEnded: what a cell does to its process holds neither the
// call nor the run.
func TestAProcessThatGoesOnWithoutRepliesIsEnded(t *testing.T) {
	for name, cell := range map[string]string{
		"another program":          "import os\nos.execvp('sleep', ['sleep', '1000'])",
		"a stray byte":             "import os\nos.write(4, b'x')",
		"no stream of replies":     "import os\nos.close(4)\nimport time\ntime.sleep(1000)",
		"replies that never end":   "import os\nwhile True: os.write(4, b'{\"id\":0,\"value\":\"' + b'x' * 65536 + b'\"}\\n')",
		"a reply that never ends":  "import os\nos.write(4, b'{\"id\":0,\"value\":\"')\nwhile True: os.write(4, b'x' * 65536)",
		"an object without an end": "import os\nos.write(4, b'{' * 100000)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t)
			o.Grace, o.Timeout = 100*time.Millisecond, 20*time.Second
			if strings.HasPrefix(name, "no stream") {
				o.Timeout = time.Second
			}
			got := results(t, o, cell, "1")
			if !strings.HasPrefix(got[0], "error: ") || got[1] != "[a new Python session: the names of earlier cells are gone]\n1" {
				t.Errorf("the cells give %q", got)
			}
		})
	}
}

func TestLongOutputIsCutAndKept(t *testing.T) {
	got := results(t, options(t), "print('x' * 200_000)\n'the end'", "'y' * 3_000_000")
	if len(got[0]) > 51_000 || !strings.HasSuffix(got[0], "'the end'") || !strings.Contains(got[0], "file") {
		t.Errorf("%d bytes: …%s", len(got[0]), got[0][len(got[0])-300:])
	}
	if len(got[1]) > 51_000 {
		t.Errorf("a value of %d bytes", len(got[1]))
	}
}

// TestLongErrorsAreCut: the message of an exception has a limit, as output has, and costs no session.
func TestLongErrorsAreCut(t *testing.T) {
	list := []string{"x = 1"}
	for _, n := range []string{"60_000", "40_000_000"} {
		for _, cell := range []string{"raise ValueError('first\\n' + 'y' * N)", "float('y' * N)", "raise ValueError('\\U0001F600' * N)", "{}['y' * N]", "raise type('C' * N, (Exception,), {})()"} {
			list = append(list, strings.ReplaceAll(cell, "N", n))
		}
	}
	got := results(t, options(t), append(list, "x")...)
	for i, text := range got[1 : len(got)-1] {
		if len(text) > 51_000 || !strings.HasPrefix(text, "error: ") || strings.Contains(text, "new session") {
			t.Errorf("%s gives %d bytes: %.200s", list[i+1], len(text), text)
		}
	}
	if last := got[len(got)-1]; last != "1" {
		t.Errorf("the last cell gives %s", last)
	}
}

func TestSecretsAreNotInTheOutput(t *testing.T) {
	o := options(t)
	o.Redact = redact.New([]string{"hunter2-hunter2"})
	for _, got := range results(t, o, "print('hunter2' + '-hunter2')", "'hunter2' + '-hunter2'", "raise ValueError('hunter2' + '-hunter2')") {
		if strings.Contains(got, "hunter2-hunter2") {
			t.Errorf("the result has it: %s", got)
		}
	}
}

func TestCancelEndsTheCellAndTheRun(t *testing.T) {
	o := options(t)
	o.Grace = 100 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := filepath.Join(o.Dir, "began")
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(began); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	r := &runner.Runner{Agent: &agent.Agent{Slug: "a", Provider: cells{{"open('began', 'w').close()\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass"}}, Toolsets: []agent.Toolset{python.Open(o)}}}
	if out, err := r.Run(ctx, agent.UserText("go")); out.Status != agent.StatusInterrupted {
		t.Errorf("Run = %+v, %v", out, err)
	}
}
