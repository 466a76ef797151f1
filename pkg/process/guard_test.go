//go:build linux

package process

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A guardedRun is what the test binary does as a main program with a guardian.
type guardedRun struct {
	Commands []*Command
	Library  bool // neither a subreaper nor with a guardian
	Alone    bool // without a guardian
	Flood    int  // short commands to run once the guardian is stopped
	Report   string
}

// flood stops the guardian and runs commands, until their notices fill the pipe.
func (run *guardedRun) flood() error {
	for len(guardians(os.Getpid())) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	syscall.Kill(guardians(os.Getpid())[0], syscall.SIGSTOP)
	for range run.Flood {
		if _, err := Run(context.Background(), &Command{Path: "/bin/true", Mark: "short"}); err != nil {
			return err
		}
	}
	return os.WriteFile(run.Report, []byte("flooded"), 0o600)
}

// guarded is the test binary as that program. It runs the commands at the same time,
// ends its guardian and reports how many there were.
func guarded(spec string) error {
	var run guardedRun
	if err := json.Unmarshal([]byte(spec), &run); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if !run.Library {
		if err := BecomeSubreaper(); err != nil {
			return err
		}
		if !run.Alone {
			UseGuardian(self, []string{self, "tool", "guardian"}, []string{"PATH=" + os.Getenv("PATH"), cgroupsIn + "=" + os.Getenv(cgroupsIn)})
		}
	}
	done := make(chan error)
	for _, c := range run.Commands {
		go func() { _, err := Run(context.Background(), c); done <- err }()
	}
	if run.Flood > 0 {
		if err := run.flood(); err != nil {
			return err
		}
	}
	for range run.Commands {
		if err := <-done; err != nil {
			return err
		}
	}
	EndGuardian()
	children := 0
	for _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err == nil; _, err = syscall.Wait4(-1, nil, syscall.WNOHANG, nil) {
		children++
	}
	return os.WriteFile(run.Report, []byte(fmt.Sprint(all.guard.used, " guardians, ", children, " children left")), 0o600)
}

// guardedCommand starts the program that run describes.
func (r *rig) guardedCommand(run guardedRun) *exec.Cmd {
	r.t.Helper()
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	run.Report = r.dir + "/report"
	spec, err := json.Marshal(run)
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(self, "tool", "guarded", string(spec))
	cmd.Stderr = r.t.Output()
	return cmd
}

func (r *rig) startGuarded(run guardedRun) *exec.Cmd {
	r.t.Helper()
	cmd := r.guardedCommand(run)
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// guardians are the children of the process that are guardians.
func guardians(parent int) (pids []int) {
	for _, pid := range listProcesses() {
		st, err := readStat(pid)
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err == nil && !st.dead && st.parent == parent && bytes.HasSuffix(line, []byte("\x00tool\x00guardian\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func awaitGuardian(t *testing.T, parent int) (pid int) {
	t.Helper()
	eventually(t, "a guardian", func() bool {
		pids := guardians(parent)
		if len(pids) > 0 {
			pid = pids[0]
		}
		return len(pids) > 0
	})
	return pid
}

// wantAllDead waits until n processes that noted their number are dead.
func (r *rig) wantAllDead(n int, others ...int) {
	r.t.Helper()
	begin := time.Now()
	eventually(r.t, "the end of all processes", func() bool {
		return !slices.ContainsFunc(append(r.pids(), others...), alive)
	})
	r.t.Logf("all were dead after %s", time.Since(begin))
	r.wantDead(n)
}

const quietly = ` </dev/null >/dev/null 2>&1`

func TestTheGuardianEndsWhatSIGKILLLeft(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script string
		n            int
	}{
		{"plain", `eval "$SLEEPER"`, 1},
		{"ignores signals", `trap '' TERM HUP INT; eval "$SLEEPER"`, 1},
		{"setsid", `leave sh -c "$SLEEPER"` + quietly + ` & eval "$SLEEPER"`, 2},
		{"double fork", `(leave sh -c "$SLEEPER"` + quietly + ` &); eval "$SLEEPER"`, 2},
		{"without environment", `(leave env -i RIG="$RIG" PATH="$PATH" sh -c "$SLEEPER"` + quietly + ` &); eval "$SLEEPER"`, 2},
		{"another mark", `(AGENTS_CALL_ID=other leave sh -c "$SLEEPER"` + quietly + ` &); eval "$SLEEPER"`, 2},
		{"stopped", `: > "$RIG/$$"; kill -STOP $$; eval "$SLEEPER"`, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			cmd := r.startGuarded(guardedRun{Commands: []*Command{r.command(test.script)}})
			pids := r.awaitPids(test.n)
			guardian := awaitGuardian(t, cmd.Process.Pid)
			if st, err := readStat(guardian); err != nil || st.session != guardian {
				t.Errorf("the guardian is in session %d, %v; want its own", st.session, err)
			}
			if slices.ContainsFunc(pids, func(pid int) bool { return !alive(pid) }) {
				t.Error("something ended before it was to")
			}
			cmd.Process.Kill()
			cmd.Wait()
			r.wantAllDead(test.n, guardian)
		})
	}
}

// A program that resumes the work of one that was killed has processes with the same
// marks, and carries one itself while it starts them. The guardian leaves both alone.
func TestTheGuardianSparesAProgramThatResumes(t *testing.T) {
	t.Parallel()
	left, again := newRig(t), newRig(t)
	// A shell that waits for a program that carries the mark, which waits for another.
	resumed := again.command(`: > "$RIG/$$"; sh -c "$SLEEPER" & wait`)
	c := left.command(`eval "$SLEEPER"`)
	cmd := left.startGuarded(guardedRun{Commands: []*Command{c}})
	shell := exec.Command("/bin/sh", append([]string{"-c", `"$@"; :`, "sh", "env", MarkVariable + "=" + c.Mark, resumed.Path}, resumed.Args...)...)
	shell.Env = resumed.Env
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	defer shell.Wait()
	defer func() { syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }()
	pids := again.awaitPids(2)
	guardian := awaitGuardian(t, cmd.Process.Pid)
	cmd.Process.Kill()
	cmd.Wait()
	left.wantAllDead(1, guardian)
	for _, pid := range pids {
		if !alive(pid) {
			t.Errorf("the process %d of the program that resumes was ended", pid)
		}
	}
}

// What is started while the guardian is at work, by a process that it has not found
// yet, is ended too.
func TestTheGuardianEndsAChainOfForks(t *testing.T) {
	r := newRig(t)
	chain := `: > "$RIG/$$"; [ $1 -gt 0 ] && sleep 0.01 && "$SELF" tool setsid sh -c "$0" "$0" $(($1 - 1)) & exit`
	c := r.command(`leave sh -c "$CHAIN" "$CHAIN" 1000` + quietly + ` & eval "$SLEEPER"`)
	c.Env = append(c.Env, "CHAIN="+chain)
	cmd := r.startGuarded(guardedRun{Commands: []*Command{c}})
	guardian := awaitGuardian(t, cmd.Process.Pid)
	cmd.Process.Kill()
	cmd.Wait()
	eventually(t, "the end of the guardian", func() bool { return !alive(guardian) })
	if links := len(r.pids()); links > 900 {
		t.Errorf("the chain had %d links, want it to end early", links)
	}
	r.wantDead(len(r.pids()))
}

func TestCommandsAreGuardedWhileTheyRun(t *testing.T) {
	t.Parallel()
	long, short := `exec "$SELF" tool wait-for-guardian`, `:`
	tests := []struct {
		name   string
		run    guardedRun
		script string
		want   string
	}{
		{"short", guardedRun{}, short, "0 guardians, 0 children left"},
		{"long", guardedRun{}, long, "1 guardians, 0 children left"},
		{"library", guardedRun{Library: true}, `sleep 0.7`, "0 guardians, 0 children left"},
		{"without", guardedRun{Alone: true}, `sleep 0.7`, "0 guardians, 0 children left"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			test.run.Commands = []*Command{r.command(test.script), r.command(test.script)}
			cmd := r.guardedCommand(test.run)
			begin := time.Now()
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
			if test.name == "short" && time.Since(begin) >= guardAfter {
				t.Log("this machine was too busy to run anything in less time than a guardian waits")
				return
			}
			if got, err := os.ReadFile(r.dir + "/report"); string(got) != test.want {
				t.Errorf("there were %s, %v; want %s", got, err, test.want)
			}
		})
	}
}

// waitForGuardian is the program that ends once there is a guardian of its parent.
func waitForGuardian() {
	for len(guardians(os.Getppid())) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
}

func TestAGuardianThatIsKilledHasASuccessor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cmd := r.startGuarded(guardedRun{Commands: []*Command{r.command(`eval "$SLEEPER"`)}})
	first := awaitGuardian(t, cmd.Process.Pid)
	syscall.Kill(first, syscall.SIGKILL)
	eventually(t, "another guardian", func() bool {
		pids := guardians(cmd.Process.Pid)
		return len(pids) == 1 && pids[0] != first
	})
	r.awaitPids(1)
	cmd.Process.Kill()
	cmd.Wait()
	r.wantAllDead(1)
}

// A guardian that reads nothing is replaced, and what runs stays.
func TestAGuardianThatHangsIsReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cmd := r.startGuarded(guardedRun{Commands: []*Command{r.command(`eval "$SLEEPER"`)}, Flood: 700})
	first := awaitGuardian(t, cmd.Process.Pid)
	eventually(t, "the commands that nobody reads of", func() bool {
		report, _ := os.ReadFile(r.dir + "/report")
		return string(report) == "flooded"
	})
	eventually(t, "another guardian", func() bool {
		pids := guardians(cmd.Process.Pid)
		return len(pids) == 1 && pids[0] != first
	})
	pids := r.pids()
	if len(pids) != 1 || !alive(pids[0]) {
		t.Errorf("of %v nothing is alive", pids)
	}
	cmd.Process.Kill()
	cmd.Wait()
	r.wantAllDead(1)
}

func TestEndRunsWhereASignalOrTheContextEndedTheProgram(t *testing.T) {
	tests := []struct {
		name, script string
		cancel, want bool
	}{
		{"exit 0", `exit 0`, false, false},
		{"exit 1", `exit 1`, false, false},
		{"killed", `kill -9 $$`, false, true},
		{"cancelled", `echo ready; exec sleep ` + long, true, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := r.command(test.script)
			if test.cancel {
				c.Stdout = &watcher{text: "ready", seen: cancel}
			}
			c.End = []string{"/bin/sh", "-c", `: > "$RIG/$1"`, "sh", "ended"}
			mustRun(t, ctx, c)
			if _, err := os.Stat(r.dir + "/ended"); (err == nil) != test.want {
				t.Errorf("End ran: %t, want %t", err == nil, test.want)
			}
		})
	}
}

// The outer process waits for the guardian of a nested one that was killed, so that
// its End has happened when the outer call ends.
func TestTheGuardianOfANestedProcessMayFinish(t *testing.T) {
	if !inSubreaper(t) {
		return
	}
	r := newRig(t)
	inner := r.command(`eval "$SLEEPER"`)
	inner.Mark, inner.End = "inner", []string{"/bin/sh", "-c", `sleep 0.3; : > "$1"`, "sh", r.dir + "/ended"}
	nested := r.guardedCommand(guardedRun{Commands: []*Command{inner}})
	c := &Command{Path: nested.Path, Args: nested.Args[1:], Env: []string{"PATH=" + os.Getenv("PATH")}, Mark: "outer"}
	ended := make(chan Exit)
	go func() { e, _ := Run(t.Context(), c); ended <- e }()
	var pid int
	eventually(t, "the nested process and its guardian", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		for pid = range all.running {
			return len(r.pids()) == 1 && len(guardians(pid)) == 1
		}
		return false
	})
	syscall.Kill(pid, syscall.SIGKILL)
	if e := <-ended; e.Signal != syscall.SIGKILL {
		t.Errorf("Run = %#v, want killed", e)
	}
	if _, err := os.Stat(r.dir + "/ended"); err != nil {
		t.Errorf("End did not run before the outer call ended: %v", err)
	}
	r.wantDead(1)
	wantNoOrphans(t)
}

func TestEndContainer(t *testing.T) {
	tests := []struct {
		command string
		args    string
		options string // "-" means that nothing changes
	}{
		{"/usr/bin/podman run --rm IMG cmd run", "run --label agents.call=K --label agents.start=ID --rm IMG cmd run", ""},
		{"docker run IMG", "run --label agents.call=K --label agents.start=ID IMG", ""},
		{"docker -H tcp://h run IMG", "-H tcp://h run --label agents.call=K --label agents.start=ID IMG", "-H tcp://h"},
		{"podman --runtime runc --log-level=debug run IMG", "--runtime runc --log-level=debug run --label agents.call=K --label agents.start=ID IMG", "--runtime runc --log-level=debug"},
		{"docker container run IMG", "container run --label agents.call=K --label agents.start=ID IMG", ""},
		{"docker exec C run", "", "-"},
		{"docker compose run S", "", "-"},
		{"docker ps", "", "-"},
		{"/opt/tool run x", "", "-"},
	}
	for _, test := range tests {
		words := strings.Fields(test.command)
		c := &Command{Path: words[0], Args: words[1:], Mark: "K"}
		c.EndContainer()
		again := &Command{Path: words[0], Args: words[1:], Mark: "K"}
		if again.EndContainer(); test.options != "-" && slices.Equal(again.End, c.End) {
			t.Errorf("%s: two starts have the same End %q", test.command, c.End)
		}
		start := regexp.MustCompile(startLabel + "=[A-Z2-7]{26}$")
		for _, list := range [][]string{c.Args, c.End} {
			for i := range list {
				list[i] = start.ReplaceAllString(list[i], startLabel+"=ID")
			}
		}
		var want []string
		if test.options == "-" {
			test.args = strings.Join(words[1:], " ")
		} else {
			want = slices.Concat([]string{"/bin/sh", "-c", endContainers, "sh", "agents.start=ID", words[0]}, strings.Fields(test.options))
		}
		if got := strings.Join(c.Args, " "); got != test.args {
			t.Errorf("%s: args %q, want %q", test.command, got, test.args)
		}
		if d := cmp.Diff(want, c.End); d != "" {
			t.Errorf("%s: End (-want +got):\n%s", test.command, d)
		}
	}
}
