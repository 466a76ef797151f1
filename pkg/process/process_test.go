//go:build linux

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// asSubreaper names the variable that makes the test binary a main program that
// called BecomeSubreaper. TestSubreaper starts it so.
const asSubreaper = "PROCESS_TEST_SUBREAPER"

// long is how long the nasty tools would live, and patience how long a test
// waits for what should come soon. No test that passes waits for either.
const (
	long     = "1000"
	patience = 30 * time.Second
)

func TestMain(m *testing.M) {
	all.cgroups.root = os.Getenv(cgroupsIn)
	if len(os.Args) > 2 && os.Args[1] == "tool" {
		tool(os.Args[2], os.Args[3:])
		return
	}
	if os.Getenv(asSubreaper) != "" {
		if err := BecomeSubreaper(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

// tool is the test binary as a program that a test runs.
func tool(name string, args []string) {
	var err error
	switch name {
	case "setsid": // leaves its process group and becomes another program
		if _, err = syscall.Setsid(); err == nil {
			var path string
			if path, err = exec.LookPath(args[0]); err == nil {
				err = syscall.Exec(path, args, os.Environ())
			}
		}
	case "shed": // does the same without the limit that marks it
		if err = unix.Setrlimit(unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: 1 << 40, Max: 1 << 40}); err == nil {
			tool("setsid", args)
		}
	case "guarded":
		err = guarded(args[0])
	case "guardian":
		Guardian(os.Stdin, os.Environ())
	case "wait-for-guardian":
		waitForGuardian()
	case "feed": // gives a text to a script
		_, err = Run(context.Background(), &Command{Path: "/bin/sh", Args: []string{"-c", args[0]}, Env: os.Environ(), Stdin: strings.NewReader(args[1] + strings.Repeat("x", fedBytes-len(args[1])))})
	case "dumpable":
		err = toolDumpable()
	default:
		err = errors.New("no such tool")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tool", name, args, err)
		os.Exit(1)
	}
}

// A rig runs shell scripts whose processes leave their numbers in a folder.
type rig struct {
	t   *testing.T
	dir string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t, t.TempDir()}
	t.Cleanup(func() { // a failed test must not leave anything either
		for _, pid := range r.pids() {
			if alive(pid) {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return r
}

// prelude is at the beginning of every script: "note" tells the number of the
// process, "await N" waits for that many of them, and "leave", for the
// background, runs its arguments in a session of its own.
const prelude = `
note() { : > "$RIG/$1"; }
await() { while [ $(ls "$RIG" | wc -l) -lt $1 ]; do sleep 0.01; done; }
leave() { exec "$SELF" tool setsid "$@"; }
shed() { exec "$SELF" tool shed "$@"; }
SLEEPER=': > "$RIG/$$"; exec sleep ` + long + `'
`

// command is a Command that runs the script, with a mark of its own.
func (r *rig) command(script string) *Command {
	r.t.Helper()
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	return &Command{
		Path: "/bin/sh",
		Args: []string{"-c", prelude + script},
		Env:  []string{"PATH=" + os.Getenv("PATH"), "SELF=" + self, "RIG=" + r.dir, cgroupsIn + "=" + os.Getenv(cgroupsIn)},
		Mark: "mark-of-" + r.t.Name(),
	}
}

// pids returns the numbers that were noted.
func (r *rig) pids() (pids []int) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// awaitPids waits until n numbers were noted.
func (r *rig) awaitPids(n int) []int {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d processes to be there", n), func() bool { return len(r.pids()) >= n })
	return r.pids()
}

// wantDead fails the test unless n processes were noted and all are dead.
func (r *rig) wantDead(n int) {
	r.t.Helper()
	pids := r.pids()
	if len(pids) != n {
		r.t.Errorf("%d processes noted their number, want %d", len(pids), n)
	}
	for _, pid := range pids {
		if alive(pid) {
			r.t.Errorf("process %d is alive", pid)
		}
	}
}

// alive reports whether the process is there and no zombie.
func alive(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil {
		return err == syscall.EPERM
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH)
	}
	return !bytes.Contains(b, []byte(") Z ")) && !bytes.Contains(b, []byte(") X "))
}

// eventually waits for something that happens in another process.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// A watcher is a writer that calls seen once when text has been written.
type watcher struct {
	text string
	seen func()

	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(p)
	if w.seen != nil && strings.Contains(w.buf.String(), w.text) {
		w.seen()
		w.seen = nil
	}
	return len(p), nil
}

func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// mustRun runs c and fails the test on an error.
func mustRun(t *testing.T, ctx context.Context, c *Command) Exit {
	t.Helper()
	e, err := Run(ctx, c)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return e
}

func TestExitSaysHowTheProgramEnded(t *testing.T) {
	tests := []struct {
		name, script string
		want         Exit
		text         string
	}{
		{"success", "exit 0", Exit{}, "exit status 0"},
		{"status", "exit 3", Exit{Code: 3}, "exit status 3"},
		{"largest status", "exit 255", Exit{Code: 255}, "exit status 255"},
		{"signal", "kill -9 $$", Exit{Code: -1, Signal: syscall.SIGKILL}, "signal: killed"},
		{"own SIGTERM is no cancellation", "kill $$", Exit{Code: -1, Signal: syscall.SIGTERM}, "signal: terminated"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := mustRun(t, t.Context(), newRig(t).command(test.script))
			if got != test.want || got.String() != test.text {
				t.Errorf("Run(%q) = %#v (%v), want %#v (%s)", test.script, got, got, test.want, test.text)
			}
		})
	}
}

func TestEnvironmentIsExactlyTheGivenOne(t *testing.T) {
	tests := []struct {
		name string
		env  []string
		mark string
		want string
	}{
		{"empty", nil, "", ""},
		{"as given", []string{"A=1", "B=x y", "AGENTS_CALL_ID=c"}, "", "A=1\nB=x y\nAGENTS_CALL_ID=c\n"},
		{"mark added", []string{"A=1"}, "m1", "A=1\nAGENTS_CALL_ID=m1\n"},
		{"mark replaces", []string{"AGENTS_CALL_ID=c", "A=1", "AGENTS_CALL_ID=d"}, "m1", "A=1\nAGENTS_CALL_ID=m1\n"},
	}
	env, err := exec.LookPath("env")
	if err != nil {
		t.Skip(err)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			mustRun(t, t.Context(), &Command{Path: env, Env: test.env, Mark: test.mark, Stdout: &out})
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

func TestArgumentsAndDirectoryArrive(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"", "-n", "a b", "é\xff", strings.Repeat("x", 100_000)}
	var out bytes.Buffer
	mustRun(t, t.Context(), &Command{
		Path: "/bin/sh", Args: append([]string{"-c", `pwd; for a; do printf '%s|' "$a"; done`, "sh"}, args...),
		Dir: dir, Stdout: &out,
	})
	if want := dir + "\n" + strings.Join(args, "|") + "|"; out.String() != want {
		t.Errorf("output is %.200q, want %.200q", out.String(), want)
	}
}

func TestOnlyThreeDescriptorsAreOpen(t *testing.T) {
	fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY, 0) // without O_CLOEXEC, as if inherited
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	var out bytes.Buffer
	c := newRig(t).command(`for f in /proc/$$/fd/*; do [ -e $f ] && echo ${f##*/} $(readlink $f | tr -d '[:digit:][]'); done`)
	c.Stdout = &out
	mustRun(t, t.Context(), c)
	if want := "0 /dev/null\n1 pipe:\n2 pipe:\n"; out.String() != want {
		t.Errorf("open descriptors:\n%swant:\n%s", &out, want)
	}
}

func TestDescriptorsAreMarkedOnOldKernels(t *testing.T) {
	fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	closeOnExecEach()
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags of descriptor %d: %#x, %v; want close-on-exec", fd, flags, err)
	}
}

func TestProgramLeadsItsOwnSessionAndGroup(t *testing.T) {
	var out bytes.Buffer
	c := newRig(t).command(`echo $$; cat /proc/$$/stat`)
	c.Stdout = &out
	mustRun(t, t.Context(), c)
	pid, line, _ := strings.Cut(out.String(), "\n")
	st, err := parseStat([]byte(line))
	if want, _ := strconv.Atoi(pid); err != nil || st.group != want || st.session != want {
		t.Errorf("process %s has %#v (%v), want its own group and session", pid, st, err)
	}
}

func TestCancelledBeforeTheStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e, err := Run(ctx, &Command{Path: "/bin/sh"})
	var startErr *StartError
	if !errors.As(err, &startErr) || !errors.Is(err, context.Canceled) || !e.Cancelled {
		t.Errorf("Run = %#v, %v; want a StartError with context.Canceled", e, err)
	}
	if want := "start /bin/sh: context canceled"; err.Error() != want {
		t.Errorf("error is %q, want %q", err, want)
	}
}

func TestCancel(t *testing.T) {
	tests := []struct {
		name, script string
		grace        time.Duration
		want         Exit
		output       string
	}{
		{"ends at SIGTERM", `echo ready; exec sleep ` + long, patience,
			Exit{Code: -1, Signal: syscall.SIGTERM, Cancelled: true}, "ready\n"},
		{"cleans up at SIGTERM", `trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done`, patience,
			Exit{Code: 7, Cancelled: true}, "ready\nbye\n"},
		{"ignores SIGTERM", `trap '' TERM; echo ready; while :; do sleep 1; done`, 20 * time.Millisecond,
			Exit{Code: -1, Signal: syscall.SIGKILL, Cancelled: true}, "ready\n"},
		{"is stopped", `echo ready; kill -STOP $$; echo no`, patience,
			Exit{Code: -1, Signal: syscall.SIGTERM, Cancelled: true}, "ready\n"},
		{"a child needs longer than the program",
			`(trap 'sleep 0.1; echo child done; exit' TERM; echo ready; while :; do sleep 0.01; done) & wait`, patience,
			Exit{Code: -1, Signal: syscall.SIGTERM, Cancelled: true}, "ready\nchild done\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out := &watcher{text: "ready\n", seen: cancel}
			c := newRig(t).command(test.script)
			c.Stdout, c.Grace = out, test.grace
			got := mustRun(t, ctx, c)
			if test.grace < patience {
				got.Left = 0 // the sleep may have outlived the shell
			}
			if got != test.want || out.String() != test.output {
				t.Errorf("Run = %#v, %q; want %#v, %q", got, out, test.want, test.output)
			}
		})
	}
}

func TestManyRunsAtOnce(t *testing.T) {
	const n = 100 // six times as many files are open: a usual limit is 1024
	before := openDescriptors(t)
	r := newRig(t)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var out, errs bytes.Buffer
			text := strconv.Itoa(i)
			c := r.command(`note $$; cat; echo e$1 >&2; if [ $(($1 % 10)) = 0 ]; then sleep ` + long + ` & fi; exit $(($1 % 7))`)
			c.Args = append(c.Args, "sh", text)
			c.Stdin, c.Stdout, c.Stderr = strings.NewReader(text), &out, &errs
			c.Mark = "many-" + text
			e, err := Run(t.Context(), c)
			if err != nil || e.Code != i%7 || out.String() != text || errs.String() != "e"+text+"\n" || i%10 == 0 && e.Left == 0 {
				t.Errorf("run %d = %#v, %v, stdout %q, stderr %q", i, e, err, &out, &errs)
			}
		})
	}
	wg.Wait()
	r.wantDead(n)
	if after := openDescriptors(t); !slices.Equal(after, before) {
		t.Errorf("open descriptors before %v, after %v", before, after)
	}
}

// openDescriptors lists what this process has open, besides the listing itself.
func openDescriptors(t *testing.T) (fds []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			fds = append(fds, e.Name()+" "+target)
		}
	}
	return fds
}
