package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/session/transcript"
)

// crashAt is the environment variable with the number of the step of the
// journal at which the program in the test binary kills itself.
const crashAt = "TEST_CRASH_AT"

// crash makes a journal that kills the process with SIGKILL at a step: each
// Append and each Sync has one before and one after it.
func crash(at string) func(agent.Journal) agent.Journal {
	n, err := strconv.Atoi(at)
	if err != nil {
		return nil
	}
	return func(j agent.Journal) agent.Journal { return &crashing{Journal: j, at: int64(n)} }
}

type crashing struct {
	agent.Journal
	at    int64
	steps atomic.Int64
}

func (c *crashing) step() {
	if c.steps.Add(1) == c.at {
		self, _ := os.FindProcess(os.Getpid())
		self.Kill()
		select {}
	}
}

func (c *crashing) Append(ctx context.Context, e agent.Event) error {
	c.step()
	defer c.step()
	return c.Journal.Append(ctx, e)
}

func (c *crashing) Sync(ctx context.Context) error {
	c.step()
	defer c.step()
	return c.Journal.Sync(ctx)
}

// crashFiles is a tree whose tools note the id of each of their calls. Its model
// answers by the number of the turn, so that a request that is sent again gets
// the same answer.
func crashFiles() map[string]string {
	file := func(slug, more string) string {
		return fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":%q,"flavor":"scripted","script":%q,"toolWorkingDirectory":".",%s}}`, slug, slug+"-script.json", more)
	}
	tool := func(slug, effects string) string {
		return fmt.Sprintf(`#!/bin/sh
[ "$1" = describe ] && { echo '{"slug":"%s","description":"d","effects":"%s","args":[{"name":"what","description":"w","type":"string","backing_type":"string","arity":"single","mode":"positional"}]}'; exit 0; }
echo "$AGENTS_CALL_ID" >> "$CALLS"
echo "did $2"
`, slug, effects)
	}
	return map[string]string{
		"agent.json": file("root", `"price":{"input":1.23,"output":4.57},"toolDirectory":"tools","extraAgents":[{"slug":"sub","path":"sub.json"}]`),
		"sub.json":   file("sub", `"toolDirectory":"tools"`),
		"root-script.json": `{"rules":[
 {"when":{"turn":1},"answer":{"calls":[{"tool":"bash_once","args":{"what":"a"}},{"tool":"bash_again","args":{"what":"b"}},{"tool":"bash_once","args":{"what":"c"}},{"tool":"expert_sub","args":{"prompt":"s"}}]}},
 {"when":{"turn":2},"answer":{"calls":[{"tool":"bash_once","args":{"what":"d"}}]}},
 {"when":{"turn":3},"answer":{"text":"the end"}}]}`,
		"sub-script.json": `{"rules":[
 {"when":{"turn":1},"answer":{"calls":[{"tool":"bash_once","args":{"what":"e"}},{"tool":"bash_again","args":{"what":"f"}}]}},
 {"when":{"turn":2},"answer":{"text":"sub says so"}}]}`,
		"tools/once":  tool("once", "once"),
		"tools/again": tool("again", "idempotent"),
	}
}

// A sweep runs the tree of crashFiles until something ends it, and goes on.
type sweep struct {
	t     *testing.T
	home  string // with what is not written anew each time
	dir   string
	calls string
}

func newSweep(t *testing.T) *sweep {
	cmd := agentsCommand(t, crashFiles())
	// The test binary is the program under this name.
	if err := os.Symlink(cmd.Path, filepath.Join(cmd.Dir, "agents")); err != nil {
		t.Fatal(err)
	}
	return &sweep{t: t, home: cmd.Dir}
}

// next begins another run, without a session.
func (s *sweep) next() {
	s.dir = s.t.TempDir()
	s.calls = filepath.Join(s.dir, "calls")
}

func (s *sweep) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	if name == "agents" {
		cmd = exec.Command(s.program(), args...)
	}
	cmd.Dir = s.home
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(s.home, "cache"), "CALLS="+s.calls, "LC_ALL=C.UTF-8")
	return cmd
}

func (s *sweep) program() string { return filepath.Join(s.home, "agents") }

func (s *sweep) args(more ...string) []string {
	return append([]string{"run", "--quiet", "--agent-file", "agent.json", "--session-dir", filepath.Join(s.dir, "sessions")}, more...)
}

// resume finishes the run in the only session that there is, and checks what the
// model and the world have seen.
func (s *sweep) resume(what string) {
	s.t.Helper()
	list, err := session.List(session.Filter{}, filepath.Join(s.dir, "sessions"))
	if err != nil || len(list) > 1 {
		s.t.Fatalf("%s: sessions: %v, %v", what, list, err)
	}
	args := s.args("-p", "go") // nothing of the first run was recorded
	if len(list) == 1 && list[0].Turns+len(list[0].Prompt) > 0 {
		args = s.args("--session", list[0].ID)
		if list[0].Status != "" {
			args = nil // the run had ended; only its answer was not printed
		}
	}
	if args != nil {
		out, err := s.command("agents", args...).Output()
		if err != nil || string(out) != "the end\n" {
			s.t.Fatalf("%s: going on: %q, %v\n%s", what, out, err, stderrOf(err))
		}
	}
	s.check(what)
}

func stderrOf(err error) string {
	if e, ok := err.(*exec.ExitError); ok {
		return string(e.Stderr)
	}
	return ""
}

// check looks for lost calls and repeated effects.
func (s *sweep) check(what string) {
	s.t.Helper()
	list, err := session.List(session.Filter{}, filepath.Join(s.dir, "sessions"))
	if err != nil || len(list) == 0 {
		s.t.Fatalf("%s: sessions: %v, %v", what, list, err)
	}
	noted, _ := os.ReadFile(s.calls)
	keys := strings.Fields(string(noted))
	ended, answer := map[string]int{}, ""
	var spent agent.Usage
	for e, err := range session.Events(list[0].Path) {
		if err != nil {
			s.t.Fatalf("%s: %v", what, err)
		}
		if e.Kind == agent.EventEnd && e.Depth == 0 {
			answer, spent = e.Text, e.Total.Usage
		}
		if e.Kind != agent.EventCallEnded {
			continue
		}
		ended[e.Key]++
		n := len(slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return k != e.Key }))
		unknown := strings.Contains(e.Result.Text(), "whether it took effect is not known")
		switch {
		case e.Tool == "bash_once" && n > 1:
			s.t.Errorf("%s: the call %s took effect %d times", what, e.Key, n)
		case strings.HasPrefix(e.Tool, "bash_") && n == 0 && !unknown:
			s.t.Errorf("%s: the call %s has a result and took no effect: %s", what, e.Key, e.Result.Text())
		}
	}
	costs := &transcript.Costs{}
	if err := costs.Add(session.Events(list[0].Path)); err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
	root := costs.Tree()
	if total := root.Total; total.Cost == nil || *total.Cost != spent.Cost || spent.Cost == 0 || total.Requests != spent.Requests || total.Unpriced != spent.Unpriced() ||
		total.Requests != root.Requests+root.Children[0].Requests || total.Unpriced != root.Children[0].Requests+root.Estimated { // estimated: a request that was lost
		s.t.Errorf("%s: the tree consumed %+v, and the run says %+v", what, root, spent)
	}
	if answer != "the end" || len(ended) != 7 {
		s.t.Errorf("%s: answer %q, results of %d calls: %v", what, answer, len(ended), ended)
	}
	for key, n := range ended {
		if n != 1 {
			s.t.Errorf("%s: the call %s has %d results", what, key, n)
		}
	}
}

// TestKilledAtEveryWriteOfTheJournal kills the program before and after each
// write and each sync of its journal, or at every 13th of these steps unless
// TEST_EVERY_STEP is set. What it left is finished by another process: with the same
// answer, no call lost, and no effect twice.
func TestKilledAtEveryWriteOfTheJournal(t *testing.T) {
	s := newSweep(t)
	killed, every, least := 0, 13, 5
	if os.Getenv(everyStep) != "" {
		every, least = 1, 60
	}
	for at := 1; ; at += every {
		s.next()
		cmd := s.command("agents", s.args("-p", "go")...)
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", crashAt, at))
		out, err := cmd.Output()
		if err == nil {
			if string(out) != "the end\n" {
				t.Errorf("the whole run answers %q", out)
			}
			s.check("the whole run")
			break
		}
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if status.Signal() != syscall.SIGKILL {
			t.Fatalf("step %d: %v\n%s", at, err, stderrOf(err))
		}
		killed++
		s.resume(fmt.Sprintf("killed at step %d", at))
	}
	if killed < least {
		t.Errorf("only %d steps", killed)
	}
}

// TestDiskThatIsFull limits how large a file may become, more and more: the run
// ends with an error that says so before it does what it cannot record. Unless
// TEST_EVERY_STEP is set, only some limits are tried.
func TestDiskThatIsFull(t *testing.T) {
	s := newSweep(t)
	full, every, least, hinted := 0, 8, 2, false
	if os.Getenv(everyStep) != "" {
		every, least = 1, 8
	}
	for blocks := 1; ; blocks += every { // of 512 bytes
		s.next()
		cmd := s.command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -f %d; exec "$0" "$@"`, blocks), s.program()}, s.args("-p", "go")...)...)
		out, err := cmd.Output()
		if err == nil {
			if string(out) != "the end\n" {
				t.Errorf("%d blocks: %q", blocks, out)
			}
			break
		}
		if text := stderrOf(err); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(text, "error: run agent root: journal: ") || !strings.Contains(text, "file too large") {
			t.Fatalf("%d blocks: %v: %s", blocks, err, text)
		} else if strings.Contains(text, "hint: `agents run --session") {
			hinted = true
		}
		full++
		s.resume(fmt.Sprintf("a file of %d blocks", blocks))
	}
	if full < least {
		t.Errorf("the disk was full %d times", full)
	}
	if !hinted {
		t.Error("nothing was said of how the run goes on")
	}
}

// TestSyncThatFails makes one sync after another fail, or kills the program at
// it, from outside; unless TEST_EVERY_STEP is set, the first and the third.
func TestSyncThatFails(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed: apt-get install strace")
	}
	for _, fault := range []string{"error=EIO", "signal=SIGKILL"} {
		t.Run(fault, func(t *testing.T) {
			s := newSweep(t)
			failed, last, every := 0, 3, 2
			if os.Getenv(everyStep) != "" {
				last, every = 6, 1
			}
			for n := 1; n <= last; n += every { // strace counts for each thread, and with --seccomp-bpf not beyond 1
				s.next()
				cmd := s.command("timeout", append([]string{"-k", "1", "120", "strace", "-f", "-o", filepath.Join(s.dir, "trace"),
					"-e", "trace=fsync", "-e", fmt.Sprintf("inject=fsync:%s:when=%d", fault, n), s.program()}, s.args("-p", "go")...)...)
				out, err := cmd.Output()
				if err == nil {
					if string(out) != "the end\n" {
						t.Errorf("sync %d: %q", n, out)
					}
					continue
				}
				if text := stderrOf(err); fault == "error=EIO" && !strings.Contains(text, "error: run agent root: journal: sync session ") {
					t.Fatalf("sync %d: %v: %s", n, err, text)
				}
				failed++
				s.resume(fmt.Sprintf("%s at sync %d", fault, n))
			}
			if failed == 0 {
				t.Error("no sync failed")
			}
		})
	}
}

// TestFolderWithoutLocks runs in a file system that has no locks.
func TestFolderWithoutLocks(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed: apt-get install strace")
	}
	s := newSweep(t)
	s.next()
	cmd := s.command("timeout", append([]string{"-k", "1", "120", "strace", "-f", "--seccomp-bpf", "-o", filepath.Join(s.dir, "trace"),
		"-e", "trace=flock", "-e", "inject=flock:error=EOPNOTSUPP", s.program()}, s.args("-p", "go")...)...)
	_, err := cmd.Output()
	if text := stderrOf(err); !strings.Contains(text, "journal.jsonl: operation not supported") || !strings.Contains(text, "hint: "+failure.HintElsewhere) {
		t.Errorf("%v: %s", err, text)
	}
	if left, _ := filepath.Glob(s.dir + "/sessions/*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
