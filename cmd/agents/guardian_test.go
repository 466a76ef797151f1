//go:build linux

package main

import (
	"bufio"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A forest is a tree of three agents in three processes, each the tool of the one
// before, whose tools leave their group in every way they can.
type forest struct {
	t    *testing.T
	dir  string
	mark string // in the arguments of every process of a tool
	env  []string
}

const levels = 3

func newForest(t *testing.T) *forest {
	nest := `#!/bin/sh
[ "$1" = describe ] && { echo '{"slug":"nest","description":"an agent in another process","args":[]}'; exit 0; }
agents run --no-session --quiet --agent-file "$ROOM/level%d.json" -p go
echo "$?"
`
	// A process without environment, one in a session of its own, and its own.
	hang := `#!/bin/sh
[ "$1" = describe ] && { echo '{"slug":"hang","description":"never ends","args":[]}'; exit 0; }
(setsid env -i sleep 1000.%[1]d"$MARK"1 </dev/null >/dev/null 2>&1 &)
setsid sleep 1000.%[1]d"$MARK"2 &
exec sleep 1000.%[1]d"$MARK"3
`
	files := map[string]string{}
	for level := 1; level <= levels; level++ {
		name := fmt.Sprint("level", level)
		files[name+".json"] = fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":%q,"flavor":"scripted","script":"%s-script.json","toolDirectory":"%s-tools"}}`, name, name, name)
		files[name+"-script.json"] = `{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"bash_hang","args":{}},{"tool":"bash_nest","args":{}}]}},{"answer":{"text":"the end"}}]}`
		files[name+"-tools/hang"] = fmt.Sprintf(hang, level)
		if level < levels {
			files[name+"-tools/nest"] = fmt.Sprintf(nest, level+1)
		} else {
			files[name+"-script.json"] = strings.Replace(files[name+"-script.json"], "bash_nest", "bash_hang", 1)
		}
	}
	cmd := agentsCommand(t, files)
	if err := os.Symlink(cmd.Path, filepath.Join(cmd.Dir, "agents")); err != nil {
		t.Fatal(err)
	}
	f := &forest{t: t, dir: cmd.Dir}
	for _, c := range rand.Text()[:8] {
		f.mark += fmt.Sprintf("%02d", c)
	}
	f.env = append(cmd.Env, "PATH="+cmd.Dir+":"+os.Getenv("PATH"), "ROOM="+cmd.Dir, "MARK="+f.mark)
	return f
}

// start starts the root.
func (f *forest) start() *exec.Cmd {
	f.t.Helper()
	cmd := exec.Command(filepath.Join(f.dir, "agents"), "run", "--no-session", "--quiet", "--agent-file", filepath.Join(f.dir, "level1.json"), "-p", "go")
	cmd.Env = f.env
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	return cmd
}

// A look is what /proc shows of a forest: processes of tools and of agents by level,
// and the guardians of the agents.
type look struct {
	tools, agents [levels + 1][]int
	guardians     []int
}

func (f *forest) look() (l look) {
	parents, lines := map[int]int{}, map[int]string{}
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range entries {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		line, _ := os.ReadFile(dir + "/cmdline")
		stat, err := os.ReadFile(dir + "/stat")
		_, rest, ok := strings.Cut(string(stat), ") ")
		if err != nil || !ok || rest[0] == 'Z' || rest[0] == 'X' {
			continue
		}
		lines[pid] = string(line)
		parents[pid], _ = strconv.Atoi(strings.Fields(rest)[1])
	}
	for pid, line := range lines {
		for level := 1; level <= levels; level++ {
			switch {
			case strings.Contains(line, fmt.Sprint("1000.", level, f.mark)), strings.Contains(line, fmt.Sprint(f.dir, "/level", level, "-tools/")):
				l.tools[level] = append(l.tools[level], pid)
			case strings.Contains(line, fmt.Sprint(f.dir, "/level", level, ".json")):
				l.agents[level] = append(l.agents[level], pid)
			}
		}
		if strings.HasSuffix(line, "\x00"+guardianFlag+"\x00") && strings.Contains(lines[parents[pid]], f.dir) {
			l.guardians = append(l.guardians, pid)
		}
	}
	return l
}

// below counts the processes of tools from a level on and of agents below it.
func (l look) below(level int) (n int) {
	for i := level; i <= levels; i++ {
		n += len(l.tools[i])
		if i > level {
			n += len(l.agents[i])
		}
	}
	return n
}

func TestNothingSurvivesSIGKILLOfAnyLevel(t *testing.T) {
	t.Parallel()
	for level := 1; level <= levels; level++ {
		t.Run(fmt.Sprint("level ", level), func(t *testing.T) {
			t.Parallel()
			f := newForest(t)
			root := f.start()
			ended := make(chan error, 1)
			go func() { ended <- root.Wait() }()
			defer root.Process.Kill()
			var before look
			waitFor(t, func() bool {
				before = f.look()
				return len(before.guardians) == levels && before.below(1) == 3*levels+3+2*(levels-1)
			})
			syscall.Kill(before.agents[level][0], syscall.SIGKILL)
			begin := time.Now()
			waitFor(t, func() bool { return f.look().below(level) == 0 })
			t.Logf("all below were dead after %s", time.Since(begin))
			for above := 1; above < level; above++ {
				if l := f.look(); len(l.agents[above]) != 1 || len(l.tools[above]) < 3 {
					t.Errorf("level %d has %d agents and %d processes of tools, want it to be alive", above, len(l.agents[above]), len(l.tools[above]))
				}
			}
			root.Process.Kill()
			<-ended
			waitFor(t, func() bool {
				for _, pid := range before.guardians {
					if syscall.Kill(pid, 0) == nil {
						return false
					}
				}
				return f.look().below(1) == 0
			})
		})
	}
}

// It runs alone, because it measures time.
func TestCancelAtRandomMoments(t *testing.T) {
	f := newForest(t)
	late := 0
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan bool, 4)
	for i := range 100 {
		slots <- true
		group.Go(func() {
			defer func() { <-slots }()
			moment := mathrand.N(300 * time.Millisecond)
			root := f.start()
			time.Sleep(moment)
			begin := time.Now()
			if err := root.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			err := root.Wait()
			mu.Lock()
			defer mu.Unlock()
			if took := time.Since(begin); took > time.Second {
				t.Logf("run %d, cancelled after %s, ended %s later: %v", i, moment, took, err)
				late++
			}
		})
	}
	group.Wait()
	// A few may be late on a busy machine; nothing may be left on any.
	if left := f.look().below(1); left > 0 || late > 5 {
		t.Errorf("of 100 runs %d took more than a second to end; %d processes are left", late, left)
	}
}

// TestNothingInTheBackgroundSurvivesSIGKILL kills an agent whose model is busy while a
// command of the toolbox bash runs in the background.
func TestNothingInTheBackgroundSurvivesSIGKILL(t *testing.T) {
	cmd := agentsCommand(t, map[string]string{
		"agent.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"a","flavor":"scripted","script":"script.json","toolWorkingDirectory":".",
			"builtinToolboxes":[{"tag":"BashToolbox","contents":{"backgroundAfterSeconds":0.7}}]}}`,
		"script.json": `{"rules":[{"when":{"turn":1},"answer":{"calls":[{"tool":"bash","args":{"command":"setsid sleep 1000 & echo $! >pid; sleep 1000"}}]}},
			{"delayMillis":3600000,"answer":{"text":"late"}}]}`,
	})
	cmd.Stderr = t.Output()
	cmd.Args = append(cmd.Args[:1], "run", "--no-session", "--agent-file", filepath.Join(cmd.Dir, "agent.json"), "--output", "jsonl", "-p", "go")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.Contains(lines.Text(), "as command 1.1. ") {
	}
	text, err := os.ReadFile(filepath.Join(cmd.Dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(string(text))
	alive := func() bool {
		line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
		return strings.HasPrefix(string(line), "sleep\x00")
	}
	if !alive() {
		t.Fatal("the command has ended too early")
	}
	cmd.Process.Kill()
	waitFor(t, func() bool { return !alive() })
}
