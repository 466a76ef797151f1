package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// runCosts are what runs of the program do, the same on every machine.
type runCosts struct {
	turnAllocs int // allocations of a turn with one call
	described  int // tools that a start with cached descriptions executes
	processes  int // programs that such a start executes, and itself; -1 without strace
	calls      int // system calls of --version; -1 without strace
}

// measureRuns measures them. tmp is an empty folder.
func measureRuns(tmp, binary string) (runCosts, error) {
	t := runCosts{processes: -1, calls: -1}
	var err error
	if t.turnAllocs, err = turnAllocs(); err != nil {
		return t, err
	}
	tree := &warmTree{dir: tmp, binary: binary}
	if err := tree.write(50); err != nil {
		return t, err
	}
	if t.described, err = tree.describedAgain(); err != nil {
		return t, err
	}
	if _, err := exec.LookPath("strace"); err != nil {
		return t, nil
	}
	trace, err := strace(tmp, tree.command())
	if err != nil {
		return t, err
	}
	t.processes = countCalls(trace, func(name string) bool { return name == "execve" })
	if trace, err = strace(tmp, exec.Command(binary, "--version")); err != nil {
		return t, err
	}
	t.calls = countCalls(trace, func(name string) bool { return !schedulers[name] })
	return t, nil
}

func (t *runCosts) problems() error {
	return errors.Join(
		atMostLimit("allocations of a turn", int64(t.turnAllocs), maxTurnAllocs),
		atMostLimit("tools that are executed although their descriptions are cached", int64(t.described), 0),
		atMostLimit("programs that a start with cached descriptions executes", int64(t.processes), 1),
		atMostLimit("system calls of --version", int64(t.calls), maxCalls),
	)
}

func (t *runCosts) String() string {
	traced := "not counted without strace"
	if t.calls >= 0 {
		traced = fmt.Sprintf("%d (limit %d)", t.calls, maxCalls)
	}
	return fmt.Sprintf("a turn           %d allocations (limit %d)\n", t.turnAllocs, maxTurnAllocs) +
		fmt.Sprintf("warm start       %d of 50 tools executed (limit 0)\n", t.described) +
		fmt.Sprintf("system calls     %s\n", traced)
}

var turnLine = regexp.MustCompile(`(?m)^BenchmarkTurn/calls=1\S*\s.*\s(\d+) allocs/op$`)

// turnAllocs runs the benchmark of a turn for a fixed number of turns.
func turnAllocs() (int, error) {
	out, _, err := goRun("test", "-run=^$", "-bench=^BenchmarkTurn$/^calls=1$", "-benchtime=1000x", module+"/pkg/runner")
	if err != nil {
		return 0, err
	}
	return parseTurn(out)
}

func parseTurn(out string) (int, error) {
	m := turnLine.FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("go test -bench: no allocations of BenchmarkTurn in:\n%s", out)
	}
	return strconv.Atoi(m[1])
}

// A warmTree is an agent with tools whose descriptions are cached.
type warmTree struct{ dir, binary string }

func (w *warmTree) path(name string) string { return filepath.Join(w.dir, name) }

// write makes a tree of n tools that write to a file when they are executed.
func (w *warmTree) write(n int) error {
	if err := os.Mkdir(w.path("tools"), 0o755); err != nil {
		return err
	}
	files := map[string]string{
		"agent.json":  `{"tag":"OpenAIAgentDescription","contents":{"slug":"budget","flavor":"scripted","script":"script.json","toolDirectory":"tools"}}`,
		"script.json": `{"rules":[{"when":{},"answer":{"text":"fine"}}]}`,
	}
	tool := "#!/bin/sh\necho >>'" + w.path("executed") + "'\n" + `echo '{"slug":"'${0##*/}'","description":"d","args":[]}'` + "\n"
	for i := range n {
		files[fmt.Sprintf("tools/tool%d", i)] = tool
	}
	for name, text := range files {
		if err := os.WriteFile(w.path(name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (w *warmTree) command() *exec.Cmd {
	cmd := exec.Command(w.binary, "run", "--agent-file", w.path("agent.json"), "--prompt", "x")
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+w.path("cache"), "XDG_STATE_HOME="+w.path("state"))
	return cmd
}

// describedAgain starts twice, and counts the tools that the second start executes.
func (w *warmTree) describedAgain() (int, error) {
	var counts [2]int
	for i := range counts {
		if out, err := w.command().CombinedOutput(); err != nil {
			return 0, fmt.Errorf("run an agent with 50 tools: %w: %s", err, out)
		}
		text, err := os.ReadFile(w.path("executed"))
		if err != nil {
			return 0, err
		}
		counts[i] = len(text)
	}
	return counts[1] - counts[0], nil
}

// schedulers are system calls whose number depends on how the Go runtime happens
// to schedule.
var schedulers = map[string]bool{
	"clone": true, "clone3": true, "epoll_pwait": true, "exit_group": true, "futex": true, "getpid": true, "gettid": true,
	"madvise": true, "mmap": true, "munmap": true, "nanosleep": true, "restart_syscall": true, "rseq": true,
	"rt_sigaction": true, "rt_sigprocmask": true, "rt_sigreturn": true, "sched_yield": true,
	"set_robust_list": true, "sigaltstack": true, "tgkill": true, "write": true,
}

// strace runs cmd and returns its system calls and those of what it starts, one a
// line.
func strace(tmp string, cmd *exec.Cmd) (string, error) {
	path, err := exec.LookPath("strace")
	if err != nil {
		return "", err
	}
	out := filepath.Join(tmp, "strace")
	traced := exec.Command(path, append([]string{"-f", "-qq", "-e", "signal=none", "-o", out, cmd.Path}, cmd.Args[1:]...)...)
	traced.Env = cmd.Env
	if text, err := traced.CombinedOutput(); err != nil {
		return "", fmt.Errorf("strace %s: %w: %s", cmd, err, text)
	}
	text, err := os.ReadFile(out)
	return string(text), err
}

var callLine = regexp.MustCompile(`^\d+ +([a-z0-9_]+)\(`)

// countCalls counts the system calls of a trace that are wanted. What strace shows
// in two lines, since another thread came between, is one.
func countCalls(trace string, wanted func(name string) bool) int {
	n := 0
	for line := range strings.Lines(trace) {
		if m := callLine.FindStringSubmatch(line); m != nil && wanted(m[1]) {
			n++
		}
	}
	return n
}
