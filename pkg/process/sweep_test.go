//go:build linux

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSubreaper runs tests of this package once more in a process that called
// BecomeSubreaper.
func TestSubreaper(t *testing.T) {
	runAsSubreaper(t, "^(TestManyRuns|TestCancel|TestServer|TestOutputOf|TestSlow)", "TestCancel")
}

// runAsSubreaper runs the tests that match the pattern in a subreaper, and wants
// the one named to be among them.
func runAsSubreaper(t *testing.T, pattern, name string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.v", "-test.run", pattern)
	cmd.Env = append(os.Environ(), asSubreaper+"=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("in a subreaper: %v\n%s", err, &out)
	}
	if !bytes.Contains(out.Bytes(), []byte("--- PASS: "+name)) {
		t.Errorf("%s did not run in the subreaper:\n%s", name, &out)
	}
}

// inSubreaper reports whether this process is a subreaper. Where it is not, the
// test has run in one when inSubreaper returns.
func inSubreaper(t *testing.T) bool {
	t.Helper()
	if os.Getenv(asSubreaper) != "" {
		return true
	}
	runAsSubreaper(t, "^"+t.Name()+"$", t.Name())
	return false
}

// wantNoOrphans fails the test if a child is left that nobody knows.
func wantNoOrphans(t *testing.T) {
	t.Helper()
	if orphans := all.settledOrphans(); len(orphans) > 0 {
		t.Errorf("unknown children are left: %v", orphans)
	}
}

func TestSweepEndsWhatLeftTheGroup(t *testing.T) {
	if !inSubreaper(t) {
		return
	}
	const quiet = ` </dev/null >/dev/null 2>&1`
	tests := []struct {
		name, script string
		n            int // processes that note their number
	}{
		{"background", `sh -c "$SLEEPER"` + quiet + ` & await 1`, 1},
		{"holds stdout", `leave sh -c "$SLEEPER" & await 1`, 1},
		{"setsid", `leave sh -c "$SLEEPER"` + quiet + ` & await 1`, 1},
		{"double fork", `(leave sh -c "$SLEEPER"` + quiet + ` &) & await 1`, 1},
		{"child of a member of the group", `("$SELF" tool setsid sh -c "$SLEEPER"; :)` + quiet + ` & await 1`, 1},
		{"double fork without environment",
			`(leave env -i RIG="$RIG" PATH="$PATH" sh -c "$SLEEPER"` + quiet + ` &) & await 1`, 1},
		{"another mark", `(AGENTS_CALL_ID=other leave sh -c "$SLEEPER"` + quiet + ` &) & await 1`, 1},
		{"ignores signals", `leave sh -c "trap '' TERM HUP INT; $SLEEPER"` + quiet + ` & await 1`, 1},
		{"stopped", `leave sh -c ': > "$RIG/$$"; kill -STOP $$; sleep ` + long + `'` + quiet + ` & await 1`, 1},
		{"groups of its own", `set -m; sh -c "$SLEEPER"` + quiet + ` & sh -c "$SLEEPER"` + quiet + ` & await 2`, 2},
		{"family that left", `leave sh -c 'sh -c "$1" & sh -c "$1" & eval "$1"' sh "$SLEEPER"` + quiet + ` & await 3`, 3},
		{"nested sessions", `leave sh -c '"$SELF" tool setsid sh -c "$1" & eval "$1"' sh "$SLEEPER"` + quiet + ` & await 2`, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t)
			c := r.command(test.script + "; exit 4")
			c.PipeWait = time.Millisecond
			e := mustRun(t, t.Context(), c)
			if e.Code != 4 || e.Held {
				t.Errorf("Run = %#v, want exit status 4", e)
			}
			if e.Left < test.n && test.name != "another mark" { // which is not counted
				t.Errorf("Run = %#v, want %d left", e, test.n)
			}
			r.wantDead(test.n)
			wantNoOrphans(t)
		})
	}
}

func TestSweepAfterCancel(t *testing.T) {
	if !inSubreaper(t) {
		return
	}
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := r.command(`leave sh -c "trap '' TERM; $SLEEPER" & (leave sh -c "$SLEEPER" &) & await 2; echo ready; exec sleep ` + long)
	c.Stdout = &watcher{text: "ready", seen: cancel}
	if e := mustRun(t, ctx, c); !e.Cancelled || e.Signal != syscall.SIGTERM || e.Left != 2 {
		t.Errorf("Run = %#v, want cancelled by SIGTERM and 2 left", e)
	}
	r.wantDead(2)
	wantNoOrphans(t)
}

func TestSweepEndsAChainOfForks(t *testing.T) {
	if !inSubreaper(t) {
		return
	}
	r := newRig(t)
	// Every link leaves into a session of its own, starts the next one and
	// exits. Left alone, the chain has 500 links.
	chain := `: > "$RIG/$$"; [ $1 -gt 0 ] && "$SELF" tool setsid sh -c "$0" "$0" $(($1 - 1)) & exit`
	c := r.command(`leave sh -c "$CHAIN" "$CHAIN" 500 </dev/null >/dev/null 2>&1 & await 5`)
	c.Env = append(c.Env, "CHAIN="+chain)
	mustRun(t, t.Context(), c)
	links := r.pids()
	if len(links) < 5 || len(links) > 400 {
		t.Errorf("the chain had %d links, want it to end early", len(links))
	}
	r.wantDead(len(links))
	wantNoOrphans(t)
}

func TestSweepEndsAHiddenProcessWhileAnOlderCommandRuns(t *testing.T) {
	if !inSubreaper(t) {
		return
	}
	older := newRig(t).command(`read line`)
	older.Mark += "-older"
	older.Grace = patience
	startServer(t, older)
	r := newRig(t)
	c := r.command(`(leave env -i RIG="$RIG" PATH="$PATH" sh -c "$SLEEPER" </dev/null >/dev/null 2>&1 &); await 1; exit 3`)
	c.PipeWait = time.Millisecond
	if e := mustRun(t, t.Context(), c); e.Code != 3 || e.Left != 1 {
		t.Errorf("Run = %#v, want exit status 3 and one left", e)
	}
	r.wantDead(1)
}

func TestSweepEndsManyChainsOfForks(t *testing.T) {
	if !inSubreaper(t) {
		return
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	r := newRig(t)
	// Every link leaves its session and forks the next one after a millisecond: as fast as the
	// machine allows, the chains would take its processors, and on a busy one the sweep would lose
	// the race.
	script := r.dir + "/chains.py"
	err := os.WriteFile(script, []byte(`
import os, time
end = time.monotonic() + 30
for i in range(12):
    if os.fork() == 0:
        os.closerange(0, 3)
        while time.monotonic() < end:
            if os.fork():
                os._exit(0)
            os.setsid()
            time.sleep(.001)
        open(os.environ["RIG"] + f"/survived{i}", "w").close()
        os._exit(0)
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, t.Context(), r.command(`exec env -i RIG="$RIG" python3 `+script))
	left := len(all.settledOrphans())
	if survived, _ := filepath.Glob(r.dir + "/survived*"); left+len(survived) > 0 {
		t.Errorf("%d processes are left, %d chains reached their end", left, len(survived))
	}
}

func TestSweepEndsABroodInOneGroup(t *testing.T) {
	if !inSubreaper(t) {
		return
	}
	r := newRig(t)
	// Each process starts two more and stays, up to 2^7.
	brood := `: > "$RIG/$$"; if [ $1 -gt 0 ]; then sh -c "$0" "$0" $(($1 - 1)) & sh -c "$0" "$0" $(($1 - 1)) & fi; exec sleep ` + long
	c := r.command(`leave sh -c "$BROOD" "$BROOD" 6 </dev/null >/dev/null 2>&1 & await 20`)
	c.Env = append(c.Env, "BROOD="+brood)
	mustRun(t, t.Context(), c)
	r.wantDead(len(r.pids()))
	wantNoOrphans(t)
}

func TestSweepLeavesOrphansOfRunningCommands(t *testing.T) {
	if !inSubreaper(t) {
		return
	}
	tests := []struct{ name, leave string }{
		{"with the mark", `leave sh -c "$SLEEPER"`},
		{"without a mark", `leave env -i RIG="$RIG" PATH="$PATH" sh -c "$SLEEPER"`},
		{"in the session", `AGENTS_CALL_ID=other sh -c "$SLEEPER"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t)
			c := r.command(`(` + test.leave + ` >/dev/null 2>&1 &); await 1; while read line; do echo $line; done`)
			c.Grace = patience
			p := startServer(t, c)
			helper := r.awaitPids(1)[0]
			eventually(t, "the orphan to be our child", func() bool {
				st, err := readStat(helper)
				return err == nil && st.parent == os.Getpid()
			})
			other := newRig(t)
			c = other.command(`leave sh -c "$SLEEPER" >/dev/null 2>&1 & await 1`)
			c.Mark += "-other"
			mustRun(t, t.Context(), c)
			other.wantDead(1)
			if !alive(helper) {
				t.Error("the helper of a running command was killed")
			}
			if e, err := p.Close(t.Context()); err != nil || e != (Exit{Left: 1}) {
				t.Errorf("Close = %#v, %v; want success and the helper left", e, err)
			}
			r.wantDead(1)
			wantNoOrphans(t)
		})
	}
}

func TestSweepOfAHiddenProcessDoesNotWaitForYoungerCommands(t *testing.T) {
	if !inSubreaper(t) {
		return
	}
	r := newRig(t)
	old := r.command(`(leave env -i RIG="$RIG" PATH="$PATH" sh -c "$SLEEPER" >/dev/null 2>&1 &); await 1; read line`)
	old.Grace = patience
	p := startServer(t, old)
	r.awaitPids(1)
	young := newRig(t).command(`read line`)
	young.Mark += "-young"
	startServer(t, young)
	if _, err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	r.wantDead(1)
}

func TestSweepLeavesChildrenOfTheEmbeddingProgram(t *testing.T) {
	if !inSubreaper(t) {
		return
	}
	// The list of children has those of the main thread; without it all of
	// them are met.
	all.mu.Lock()
	list := all.children
	all.children = nil
	all.mu.Unlock()
	defer func() {
		all.mu.Lock()
		all.children = list
		all.mu.Unlock()
	}()
	running := exec.Command("sleep", long)
	ended := exec.Command("sh", "-c", "exit 8")
	for _, cmd := range []*exec.Cmd{running, ended} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t)
	// The sweep has work to do and meets the two; a lost sleep would be seen
	// by its exit, a reaped one by the error of Wait.
	mustRun(t, t.Context(), r.command(`leave sh -c "$SLEEPER" >/dev/null 2>&1 & await 1`))
	r.wantDead(1)
	if !alive(running.Process.Pid) {
		t.Error("a child of the embedding program was killed")
	}
	running.Process.Kill()
	running.Wait()
	if err := ended.Wait(); err == nil || err.Error() != "exit status 8" {
		t.Errorf("Wait of an ended child: %v, want exit status 8", err)
	}
}

func TestSweepsAtTheSameTime(t *testing.T) {
	if !inSubreaper(t) {
		return
	}
	const n = 30
	r := newRig(t)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c := r.command(`(leave sh -c "$SLEEPER" &) ; while [ ! -s "$RIG/go" ]; do sleep 0.01; done; exit 2`)
			c.Mark, c.PipeWait = fmt.Sprintf("same-time-%d", i), time.Millisecond
			if e, err := Run(t.Context(), c); err != nil || e.Code != 2 {
				t.Errorf("Run %d = %#v, %v", i, e, err)
			}
		})
	}
	r.awaitPids(n)
	if err := os.WriteFile(r.dir+"/go", []byte("go"), 0o600); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	r.wantDead(n)
	wantNoOrphans(t)
}

func TestSweepFindsChildrenWithoutTheChildrenFile(t *testing.T) {
	if !inSubreaper(t) {
		return
	}
	r := newRig(t)
	c := r.command(`(leave sh -c "$SLEEPER" >/dev/null 2>&1 &); await 1; read line`)
	c.Grace = patience
	p := startServer(t, c)
	orphan := r.awaitPids(1)[0]
	eventually(t, "the orphan to be our child", func() bool { return slices.Contains(all.listChildren(), orphan) })
	if got := scanChildren(); !slices.Contains(got, orphan) || !slices.Contains(got, p.PID()) {
		t.Errorf("scanChildren = %v, want %d and %d among them", got, orphan, p.PID())
	}
}

func TestLeaverIsFoundByItsMark(t *testing.T) {
	tests := []struct {
		name, script string
		cancel       bool
	}{
		{"keeps stdout open", `leave sh -c "$SLEEPER" & await 1; echo ready`, false},
		{"after cancellation", `leave sh -c "$SLEEPER" >/dev/null 2>&1 & await 1; echo ready; exec sleep ` + long, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out := &watcher{text: "ready\n"}
			if test.cancel {
				out.seen = cancel
			}
			c := r.command(test.script)
			c.Stdout, c.PipeWait = out, time.Millisecond
			e := mustRun(t, ctx, c)
			if e.Left != 1 || e.Held || out.String() != "ready\n" {
				t.Errorf("Run = %#v, %q; want one process left", e, out)
			}
			r.wantDead(1)
		})
	}
}

func TestMarkOfARunningCommandProtects(t *testing.T) {
	r := newRig(t)
	mark := r.command("").Mark
	other := r.command(`note $$; read line; echo alive`)
	other.Grace = patience
	p := startServer(t, other)
	r.awaitPids(1)
	c := r.command(`leave sleep ` + long + ` & exit 0`)
	c.PipeWait = time.Millisecond
	if c.Mark != mark || !all.anyRunning(markCode(mark)) {
		t.Fatalf("marks are %q and %q", c.Mark, mark)
	}
	mustRun(t, t.Context(), c)
	io.WriteString(p.Stdin, "line\n")
	if b, err := io.ReadAll(p.Stdout); string(b) != "alive\n" || err != nil {
		t.Errorf("a running command with the same mark answers %q, %v", b, err)
	}
}

func TestWaitingWithoutAPidfd(t *testing.T) {
	pid, _, err := syscall.StartProcess("/bin/sh", []string{"sh", "-c", "exit 6"}, &syscall.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	p := &child{entry: entry{pid: pid, handle: handle{pidfd: -1}}}
	if err := p.waitExit(); err != nil {
		t.Error(err)
	}
	if err := p.reap(); err != nil || p.exit.Code != 6 {
		t.Errorf("reap: %v, %#v; want exit status 6", err, p.exit)
	}
}

func TestHideEnviron(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "tool", "dumpable")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	if want := "1 0\n"; err != nil || string(out) != want {
		t.Errorf("dumpable before and after: %q, %v; want %q", out, err, want)
	}
}

// toolDumpable tells whether others may look at the process, before and after
// HideEnviron.
func toolDumpable() error {
	before, err1 := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	err2 := HideEnviron()
	after, err3 := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	fmt.Println(before, after)
	return errors.Join(err1, err2, err3)
}

func TestParseStat(t *testing.T) {
	const rest = " 12 34 56 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 789 1 1"
	want := stat{parent: 12, group: 34, session: 56, start: 7890 * time.Millisecond}
	tests := []struct {
		name, line string
		want       stat
		ok         bool
	}{
		{"plain", "1 (sh) S" + rest, want, true},
		{"name with anything", "1 (a) R 9 9 9 (b) S" + rest, want, true},
		{"zombie", "1 (sh) Z" + rest, stat{true, 12, 34, 56, want.start}, true},
		{"empty", "", stat{}, false},
		{"short", "1 (sh) S 12", stat{}, false},
		{"no number", "1 (sh) S x" + rest, stat{}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseStat([]byte(test.line))
			if got != test.want || (err == nil) != test.ok {
				t.Errorf("parseStat(%q) = %#v, %v; want %#v, ok %v", test.line, got, err, test.want, test.ok)
			}
		})
	}
	own, err := readStat(os.Getpid())
	if err != nil || own.parent != os.Getppid() || own.session != sessionOf(0) {
		t.Errorf("own stat is %#v, %v", own, err)
	}
}

func FuzzParseStat(f *testing.F) {
	for _, pid := range []int{1, os.Getpid()} {
		if b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil {
			f.Add(b)
		}
	}
	f.Add([]byte(")"))
	f.Add([]byte("1 (a) b) Z 1 2 3"))
	f.Fuzz(func(t *testing.T, b []byte) { parseStat(b) })
}
