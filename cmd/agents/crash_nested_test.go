package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
)

// The environment variables that kill a nested agent: the level of the agent (each
// wrapper sets its own), the level to kill, the step, and a file that says that it was
// killed once.
const (
	levelOf    = "TEST_LEVEL"
	crashLevel = "TEST_CRASH_LEVEL"
	crashLine  = "TEST_CRASH_LINE"
	crashOnce  = "TEST_CRASH_ONCE"
	// everyStep makes the sweeps kill at each step; it takes minutes.
	everyStep = "TEST_EVERY_STEP"
)

// crashOutput kills a nested agent with SIGKILL at one of its events: before it is
// written, in the middle of its line, or behind it.
func crashOutput(w io.Writer) io.Writer {
	at, err := strconv.Atoi(os.Getenv(crashLine))
	if err != nil || os.Getenv(levelOf) != os.Getenv(crashLevel) || !slices.Contains(os.Args, "--channel") {
		return w
	}
	return &crashingOutput{Writer: w, at: at}
}

type crashingOutput struct {
	io.Writer
	at, steps int
}

func (c *crashingOutput) Write(p []byte) (int, error) {
	for _, upTo := range []int{0, len(p) / 2, len(p)} {
		if c.steps++; c.steps != c.at {
			continue
		}
		if f, err := os.OpenFile(os.Getenv(crashOnce), os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			f.Close()
			c.Writer.Write(p[:upTo])
			self, _ := os.FindProcess(os.Getpid())
			self.Kill()
			select {}
		}
	}
	return c.Writer.Write(p)
}

// nestedFiles are three agents, each in a process of its own, the last one in a container
// or, if c is nil, in namespaces of its own too. Their tools note the id of each of their
// calls.
func nestedFiles(c *containers) map[string]string {
	files := map[string]string{}
	tool := func(effects string) string {
		return fmt.Sprintf(`#!/bin/sh
[ "$1" = describe ] && { echo '{"slug":"%s","description":"d","effects":"%[1]s","args":[]}'; exit 0; }
echo "$AGENTS_CALL_ID" >> "$CALLS"
echo done
`, effects)
	}
	level := func(dir, below string) {
		contained := below == "leaf" && c != nil
		extra := ""
		if contained {
			runner := c.runner("--env="+levelOf+"=leaf", "--env="+crashLevel, "--env="+crashLine, "--env="+crashOnce, "--env=CALLS")
			command, _ := json.Marshal(append(runner, "sh", "-c", `"$@"; exit $?`, "sh")) // strings always encode
			extra = fmt.Sprintf(`,"extraAgents":[{"slug":"leaf","path":"%s/leaf/agent.json","runner":%s}]`, c.dir, command)
		}
		files[dir+"/agent.json"] = fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":%q,"announce":"a","flavor":"scripted","script":"script.json","toolDirectory":"tools"%s}}`, filepath.Base(dir), extra)
		files[dir+"/tools/once"], files[dir+"/tools/idempotent"] = tool("once"), tool("idempotent")
		next := `{"tool":"bash_idempotent","args":{}}`
		if contained {
			next = `{"tool":"expert_leaf","args":{"prompt":"p"}}`
		} else if below != "" {
			next = fmt.Sprintf(`{"tool":"bash_%s","args":{"prompt":"p"}}`, below)
			isolated := ""
			if below == "leaf" && len(isolation()) > 0 { // its first process cannot kill itself
				isolated = strings.Join(isolation(), " ") + ` sh -c '"$@"; exit $?' sh `
			}
			files[dir+"/tools/"+below] = fmt.Sprintf("#!/bin/sh\n%s=%s exec %[3]s\"$TEST_AGENTS\" --agent-file \"${0%%/*}/../../%[2]s/agent.json\" \"$@\"\n", levelOf, below, isolated)
		}
		files[dir+"/script.json"] = fmt.Sprintf(`{"rules":[
 {"when":{"turn":1},"answer":{"calls":[{"tool":"bash_once","args":{}}]}},
 {"when":{"turn":2},"answer":{"calls":[%s]}},
 {"when":{"turn":3},"answer":{"text":"%s is done"}}]}`, next, filepath.Base(dir))
	}
	level("top", "mid")
	level("mid", "leaf")
	level("leaf", "")
	return files
}

// TestThreeProcessesKilledAtAnyEvent kills the root at steps of its journal, and the
// agents below it at steps of their output. With the root killed another process
// resumes it; an agent below is started again by its caller. The answers are the same,
// no effect happens twice, and no process is left. Unless TEST_EVERY_STEP is set, each is
// killed at two steps.
func TestThreeProcessesKilledAtAnyEvent(t *testing.T) {
	cmd := agentsCommand(t, nestedFiles(nil))
	if err := os.Symlink(cmd.Path, filepath.Join(cmd.Dir, "agents")); err != nil {
		t.Fatal(err)
	}
	for level, every := range map[string]int{"top": 47, "mid": 31, "leaf": 23} {
		last := every + 1
		if os.Getenv(everyStep) != "" {
			last, every = math.MaxInt, 1
		}
		s := &nestedSweep{sweep: sweep{t: t, home: cmd.Dir}, level: level}
		killed := 0
		for at := 1; at <= last && s.round(at); at += every {
			killed++
		}
		if killed < 2 {
			t.Errorf("%s: killed %d times", level, killed)
		}
	}
}

// TestATreeWithAContainerKilled is the same with the last agent in a container, once for
// each level.
func TestATreeWithAContainerKilled(t *testing.T) {
	cmd := agentsCommand(t, nil)
	c := newContainers(t, cmd.Dir)
	if c == nil {
		t.Skip("podman runs no containers here")
	}
	writeFiles(t, cmd.Dir, nestedFiles(c))
	if err := os.Symlink(cmd.Path, filepath.Join(cmd.Dir, "agents")); err != nil {
		t.Fatal(err)
	}
	for level, at := range map[string]int{"top": 70, "mid": 40, "leaf": 20} {
		s := &nestedSweep{sweep: sweep{t: t, home: cmd.Dir}, level: level}
		if !s.round(at) {
			t.Errorf("%s was not killed", level)
		}
		waitFor(t, c.gone)
	}
}

type nestedSweep struct {
	sweep
	level string
}

// round runs the tree and kills a level at a step. It reports whether that happened.
func (s *nestedSweep) round(at int) (killed bool) {
	s.t.Helper()
	s.next()
	what := fmt.Sprintf("%s killed at step %d", s.level, at)
	env := []string{"TEST_AGENTS=" + s.program()}
	once := filepath.Join(s.dir, "once")
	if s.level == "top" {
		env = append(env, fmt.Sprintf("%s=%d", crashAt, at))
	} else {
		env = append(env, crashLevel+"="+s.level, fmt.Sprintf("%s=%d", crashLine, at), crashOnce+"="+once)
	}
	args := []string{"run", "--quiet", "--agent-file", "top/agent.json", "--session-dir", filepath.Join(s.dir, "sessions")}
	cmd := s.command("agents", append(slices.Clone(args), "-p", "go")...)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.Output()
	if status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus); s.level == "top" && status.Signal() == syscall.SIGKILL {
		killed = true
		out, err = s.finish(what, args, env[:1])
	} else if _, stat := os.Stat(once); stat == nil {
		killed = true
	}
	if err != nil || string(out) != "top is done\n" {
		s.t.Errorf("%s: %q, %v\n%s", what, out, err, stderrOf(err))
	}
	s.effects(what)
	return killed
}

// finish resumes what the killed root left.
func (s *nestedSweep) finish(what string, args, env []string) ([]byte, error) {
	list, err := session.List(session.Filter{}, filepath.Join(s.dir, "sessions"))
	if err != nil || len(list) > 1 {
		s.t.Fatalf("%s: sessions: %v, %v", what, list, err)
	}
	switch {
	case len(list) == 0 || list[0].Turns+len(list[0].Prompt) == 0:
		args = append(slices.Clone(args), "-p", "go")
	case list[0].Status != "":
		return []byte("top is done\n"), nil // only its answer was not printed
	default:
		args = append(slices.Clone(args), "--session", list[0].ID)
	}
	cmd := s.command("agents", args...)
	cmd.Env = append(cmd.Env, env...)
	return cmd.Output()
}

// effects checks that the journal of the root has one result for each call of the three
// agents, and that none took effect twice.
func (s *nestedSweep) effects(what string) {
	s.t.Helper()
	list, err := session.List(session.Filter{}, filepath.Join(s.dir, "sessions"))
	if err != nil || len(list) == 0 {
		s.t.Fatalf("%s: sessions: %v, %v", what, list, err)
	}
	slices.SortFunc(list, func(a, b session.Info) int { return cmp.Compare(b.Turns, a.Turns) })
	noted, _ := os.ReadFile(s.calls)
	ended := map[string]int{}
	for e, err := range session.Events(list[0].Path) {
		if err != nil {
			s.t.Fatalf("%s: %v", what, err)
		}
		if e.Kind != agent.EventCallEnded {
			continue
		}
		ended[e.Key]++
		n := bytes.Count(noted, []byte(e.Key+"\n"))
		unknown := strings.Contains(e.Result.Text(), "whether it took effect is not known")
		_, tool, _ := strings.Cut(e.Tool, "_")
		below := tool == "mid" || tool == "leaf"
		if below && e.Result.Answer() != tool+" is done" {
			s.t.Errorf("%s: the result of %s is %q", what, tool, e.Result.Text())
		}
		if tool == "once" && n > 1 || !below && n == 0 && !unknown {
			s.t.Errorf("%s: the call %s of %s took effect %d times; its result is %q", what, e.Key, e.Tool, n, e.Result.Text())
		}
	}
	if len(ended) != 6 {
		s.t.Errorf("%s: results of %d calls, want 6: %v", what, len(ended), ended)
	}
	for key, n := range ended {
		if n != 1 {
			s.t.Errorf("%s: the call %s has %d results", what, key, n)
		}
	}
}
