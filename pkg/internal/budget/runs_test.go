package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestToolsThatRunAgainAreCounted(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "agents")
	write := func(script string) {
		if err := os.WriteFile(binary, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, script string
		want         int
	}{
		{"every time", `for t in "${3%/*}"/tools/*; do "$t" describe; done`, 3},
		{"once", `[ -e "$XDG_CACHE_HOME" ] || for t in "${3%/*}"/tools/*; do "$t" describe; done; mkdir -p "$XDG_CACHE_HOME"`, 0},
	} {
		write(c.script)
		tree := &warmTree{dir: t.TempDir(), binary: binary}
		if err := tree.write(3); err != nil {
			t.Fatal(err)
		}
		if got, err := tree.describedAgain(); err != nil || got != c.want {
			t.Errorf("%s: describedAgain = %d, %v, want %d", c.name, got, err, c.want)
		}
	}
	write("echo broken >&2; exit 1")
	tree := &warmTree{dir: t.TempDir(), binary: binary}
	if _, err := tree.describedAgain(); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("describedAgain of a failing program = %v, want what it printed", err)
	}
}

func TestCountCalls(t *testing.T) {
	const trace = `17 execve("/bin/agents", ["agents"], 0x7ffd /* 2 vars */) = 0
17 openat(AT_FDCWD, "/proc", O_RDONLY <unfinished ...>
18 futex(0x1, FUTEX_WAIT_PRIVATE, 0, NULL <unfinished ...>
17 <... openat resumed>) = 3
17 exit_group(0) = ?
17 +++ exited with 0 +++
`
	if n := countCalls(trace, func(name string) bool { return !schedulers[name] }); n != 2 {
		t.Errorf("countCalls = %d, want 2: execve and openat", n)
	}
	if n := countCalls(trace, func(name string) bool { return name == "execve" }); n != 1 {
		t.Errorf("countCalls of execve = %d, want 1", n)
	}
}

func TestParseTurn(t *testing.T) {
	const line = "BenchmarkTurn/calls=1-2         \t    1000\t     12082 ns/op\t    3410 B/op\t      36 allocs/op\nPASS\n"
	if n, err := parseTurn("goos: linux\n" + line); err != nil || n != 36 {
		t.Errorf("parseTurn = %d, %v, want 36", n, err)
	}
	if _, err := parseTurn("PASS\n"); err == nil || !strings.Contains(err.Error(), "no allocations of BenchmarkTurn") {
		t.Errorf("parseTurn of nothing = %v, want an error that says so", err)
	}
}

func TestRunCostsHaveLimits(t *testing.T) {
	good := runCosts{turnAllocs: maxTurnAllocs, processes: 1, calls: maxCalls}
	if err := good.problems(); err != nil {
		t.Errorf("problems at the limits = %v, want none", err)
	}
	if text := good.String(); !strings.Contains(text, fmt.Sprintf("(limit %d)", maxCalls)) {
		t.Errorf("runCosts = %s, want the limit of system calls", text)
	}
	unknown := runCosts{processes: -1, calls: -1}
	if err := unknown.problems(); err != nil || !strings.Contains(unknown.String(), "not counted without strace") {
		t.Errorf("without strace: %v, %s; want no problem and a word", err, &unknown)
	}
	bad := runCosts{turnAllocs: maxTurnAllocs + 1, described: 1, processes: 2, calls: maxCalls + 1}
	err := bad.problems()
	for _, want := range []string{
		fmt.Sprintf("allocations of a turn: %d, the limit is %d", maxTurnAllocs+1, maxTurnAllocs),
		"tools that are executed although",
		"a start with cached descriptions executes: 2",
		fmt.Sprintf("system calls of --version: %d, the limit is %d", maxCalls+1, maxCalls),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("problems = %v, want %q in it", err, want)
		}
	}
}
