package sandbox

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/process"
	"golang.org/x/sys/unix"
)

// attackFlag makes the test binary a program that tries what a sandbox refuses.
const attackFlag = "--attack"

// attack tries something and prints "done" if it was possible.
func attack(what string, args []string) int {
	var err error
	switch what {
	case "unix":
		_, err = net.Dial("unix", args[0])
	case "tcp":
		_, err = net.Dial("tcp", args[0])
	case "ptrace":
		pid, _ := strconv.Atoi(args[0])
		err = unix.PtraceSeize(pid)
	case "prlimit":
		pid, _ := strconv.Atoi(args[0])
		err = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	case "shm":
		_, err = unix.SysvShmGet(unix.IPC_PRIVATE, 4096, 0o600|unix.IPC_CREAT)
	case "kill":
		pid, _ := strconv.Atoi(args[0])
		err = unix.Kill(pid, 0)
	case "namespace":
		_, err = syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}})
	case "keyctl":
		_, err = unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
	case "io_uring":
		if _, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0); errno == unix.EPERM {
			err = errno // without a sandbox it is another error, of the address
		}
	case "memory":
		var b []byte
		const size = 10 << 30
		if b, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE); err == nil {
			for i := 0; i < size; i += 4096 {
				b[i] = 1
			}
		}
	case "hide": // without the mark, in a session of its own
		if err = unix.Setrlimit(unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: 1 << 40, Max: 1 << 40}); err == nil {
			_, err = syscall.ForkExec("/bin/sleep", []string{"sleep", args[0]}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}})
		}
	case "inner":
		l := &Ladder{Helper: []string{"/proc/self/exe", helperFlag}}
		fmt.Println("rung", l.Rung())
		b := New(Place{Dir: args[0], Ladder: l}, Config{Write: []string{}})
		e, runErr := process.Run(context.Background(), &process.Command{Path: "/bin/sh", Args: []string{"-c", "echo x > " + args[0] + "/inner"}, Sandbox: b})
		fmt.Println("inner", e, runErr)
		return 0
	}
	if err != nil {
		fmt.Println("refused:", err)
		return 1
	}
	fmt.Println("done")
	return 0
}

// self is the command line of an attack.
func self(t *testing.T, what ...string) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe + " " + attackFlag + " " + strings.Join(what, " ")
}

// full are the rungs that confine what a program can reach.
var full = []string{Namespaces, Bubblewrap, Landlock}

func TestSecretsCannotBeRead(t *testing.T) {
	onEach(t, func(t *testing.T, l *Ladder) {
		b := box(t, l, Config{Workspace: true})
		b.place.Secrets = nil
		keys := filepath.Join(b.place.Dir, "agents-exe.keys")
		if err := os.WriteFile(keys, []byte("the key"), 0o600); err != nil {
			t.Fatal(err)
		}
		r := run(t, b, "cat "+b.place.Home+"/.ssh/id "+b.place.Home+"/.netrc "+keys+"; ln -s "+b.place.Home+"/.ssh l; cat l/id; cat ../home/notes/a")
		if !strings.HasSuffix(r.out, "a note") || strings.Contains(r.out, "key") || strings.Contains(r.out, "password") {
			t.Errorf("read %q (%s), want the note alone", r.out, r.err)
		}
		if said := strings.Join(b.Refused(r.err), "\n"); !strings.Contains(said, `.ssh/id is outside "read"`) {
			t.Errorf("Refused(%q) = %q, want .ssh/id", r.err, said)
		}
	}, full...)
}

func TestNothingOutsideIsWritten(t *testing.T) {
	onEach(t, func(t *testing.T, l *Ladder) {
		b := box(t, l, Config{Workspace: true})
		r := run(t, b, "echo x > inside; echo x > ../home/notes/a; echo x > ../new; ln -s ../home/notes l; echo x > l/a; mv ../home/notes . ; rm -rf ../home/notes; echo x > $TMPDIR/t && echo $TMPDIR")
		if got, _ := os.ReadFile(b.place.Home + "/notes/a"); string(got) != "a note" {
			t.Errorf("the note is now %q (%s)", got, r.err)
		}
		if _, err := os.Stat(b.place.Dir + "/../new"); err == nil {
			t.Error("a file outside was made")
		}
		if _, err := os.Stat(b.place.Dir + "/inside"); err != nil {
			t.Error(err)
		}
		temp := strings.TrimSpace(r.out)
		if _, err := os.Stat(temp); temp == "" || err == nil {
			t.Errorf("the private folder %q: %v, want it to be gone (%s)", temp, err, r.err)
		}
	}, full...)
}

// TestLinkMadeLater replaces a folder that may be written by a link to one that may not,
// after it was checked.
func TestLinkMadeLater(t *testing.T) {
	onEach(t, func(t *testing.T, l *Ladder) {
		b := box(t, l, Config{Write: []string{"out"}})
		if err := os.Symlink(b.place.Home+"/notes", b.place.Dir+"/out"); err != nil {
			t.Fatal(err)
		}
		r := run(t, b, "echo x > out/a; echo x > ../home/notes/a")
		if got, _ := os.ReadFile(b.place.Home + "/notes/a"); string(got) != "a note" {
			t.Errorf("the note is now %q (%v %v %s)", got, r.exit, r.fail, r.err)
		}
	}, full...)
}

func TestSocketsAreRefused(t *testing.T) {
	onEach(t, func(t *testing.T, l *Ladder) {
		b := box(t, l, Config{Workspace: true})
		u, err := net.Listen("unix", b.place.Dir+"/socket")
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer tcp.Close()
		for _, try := range []string{self(t, "unix", b.place.Dir+"/socket"), self(t, "tcp", tcp.Addr().String())} {
			if r := run(t, b, try); !strings.HasPrefix(r.out, "refused") {
				t.Errorf("%s: %s%s", try, r.out, r.err)
			}
		}
	}, full...)
}

// TestToWriteEverywhereIsNotToReadSecrets: a mount over the root would cover what is hidden.
func TestToWriteEverywhereIsNotToReadSecrets(t *testing.T) {
	onEach(t, func(t *testing.T, l *Ladder) {
		b := box(t, l, Config{Workspace: true, Write: []string{"/"}})
		r := run(t, b, "echo x >../home/notes/b; cat ../home/notes/b; cat ../home/.ssh/id; cat /proc/"+strconv.Itoa(os.Getpid())+"/environ | wc -c")
		if strings.TrimSpace(r.out) != "x\n0" {
			t.Errorf("read %q (%s), want what was written alone", r.out, r.err)
		}
	}, full...)
}

func TestOtherProcessesAreOutOfReach(t *testing.T) {
	onEach(t, func(t *testing.T, l *Ladder) {
		b := box(t, l, Config{Workspace: true})
		pid := strconv.Itoa(os.Getpid())
		for _, try := range []string{
			self(t, "ptrace", pid), self(t, "kill", pid), self(t, "prlimit", pid), self(t, "namespace"), self(t, "keyctl"), self(t, "io_uring"),
		} {
			if r := run(t, b, try); !strings.HasPrefix(r.out, "refused") {
				t.Errorf("%s: %s%s %v", try, r.out, r.err, r.fail)
			}
		}
		if r := run(t, b, "grep CapEff /proc/self/status"); strings.TrimSpace(r.out) != "CapEff:\t00000000000004fb" && !strings.Contains(r.out, "0000000000000000") {
			t.Errorf("capabilities: %q", r.out)
		}
		r := run(t, b, "cat /proc/"+pid+"/root"+b.place.Home+"/.ssh/id /proc/1/root"+b.place.Home+"/.ssh/id; cat /proc/"+pid+"/environ /proc/1/environ | wc -c")
		if strings.TrimSpace(r.out) != "0" {
			t.Errorf("through /proc: %q (%s)", r.out, r.err)
		}
	}, full...)
}

func TestLimits(t *testing.T) {
	const most = 60
	onEach(t, func(t *testing.T, l *Ladder) {
		b := box(t, l, Config{Processes: most, FileSize: 1 << 20, OpenFiles: 20, CPUSeconds: 1})
		for _, e := range b.Enforced() {
			if e.By == "" {
				t.Errorf("%s is not enforced here", e.What)
			}
		}
		r := run(t, b, "dd if=/dev/zero of=big bs=65536 count=64; ulimit -n; ulimit -t; ulimit -n 100 || echo kept")
		if info, err := os.Stat(b.place.Dir + "/big"); err != nil || info.Size() > 1<<20 {
			t.Errorf("a file of %v bytes (%v) was written, want at most 1 MB", info, err)
		}
		if os.Geteuid() != 0 && !strings.Contains(r.out, "kept") || !strings.HasPrefix(r.out, "20\n1\n") {
			t.Errorf("limits: %q (%s), want 20 files and 1 s", r.out, r.err)
		}
		// A fork bomb of a size that a machine survives if nothing stops it.
		// Without a namespace, the limit of a user is above what runs on the machine.
		var machine unix.Sysinfo_t
		if err := unix.Sysinfo(&machine); err != nil {
			t.Fatal(err)
		}
		bomb := 400 + int(machine.Procs)
		r = run(t, b, fmt.Sprintf("i=0; while [ $i -lt %d ]; do sleep 20 & i=$((i+1)); done; echo all", bomb))
		if strings.Contains(r.out, "all") {
			t.Errorf("%d processes were started: %v", bomb, r.exit)
		}
	}, Namespaces, Bubblewrap, Landlock, Limits)
}

// TestProcessesAreCountedExactly: in a control group, the limit is that of the program and of
// what it starts, although the helper before it has more threads.
func TestProcessesAreCountedExactly(t *testing.T) {
	onEach(t, func(t *testing.T, l *Ladder) {
		t.Parallel()
		if l.cgroups["pids"] == "" {
			t.Skip("this process may not limit processes by a control group")
		}
		for _, most := range []int64{2, 12} {
			r := run(t, box(t, l, Config{Processes: most}), "while sleep 20 & do echo; done")
			if started := int64(strings.Count(r.out, "\n")); started != most-1 { // the shell is one
				t.Errorf("with processes: %d, %d were started: %s %v", most, started+1, r.err, r.fail)
			}
		}
	}, Namespaces, Bubblewrap, Landlock, Limits)
}

// TestLimitsAreNotLeft: who may write everywhere may not write itself out of the control group
// with its limits.
func TestLimitsAreNotLeft(t *testing.T) {
	onEach(t, func(t *testing.T, l *Ladder) {
		parent := l.cgroups["pids"]
		if parent == "" {
			t.Skip("this process may not limit processes by a control group")
		}
		for _, c := range []Config{{Processes: 60}, {Processes: 60, Write: []string{"/"}}} {
			b := box(t, l, c)
			r := run(t, b, "echo 0 >"+parent+"/cgroup.procs && echo left; echo x >file && cat file")
			if r.out != "x\n" {
				t.Errorf("with %s: %q %s %v", b, r.out, r.err, r.fail)
			}
		}
	}, Namespaces, Bubblewrap)
}

// TestControlGroupsThatWereLeftAreRemoved: those of a killed process, and no others.
func TestControlGroupsThatWereLeftAreRemoved(t *testing.T) {
	l := ladder(t, Limits)
	parent := l.cgroups["pids"]
	if parent == "" {
		t.Skip("this process may not limit processes by a control group")
	}
	group := func(name string, age time.Duration) string {
		dir := filepath.Join(parent, name+strconv.FormatInt(time.Now().Add(-age).UnixNano(), 36))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((&cgroup{dirs: []string{dir}}).remove)
		return dir
	}
	left, fresh, other := group("agents-1-", time.Hour), group("agents-1-", 0), group("agents-call-1-1-1-", time.Hour)
	used := group("agents-2-", time.Hour)
	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer sleeper.Wait()
	defer sleeper.Process.Kill()
	if err := (&cgroup{dirs: []string{used}}).add(sleeper.Process.Pid); err != nil {
		t.Fatal(err)
	}
	run(t, box(t, l, Config{Processes: 60}), "true")
	for dir, want := range map[string]bool{left: false, fresh: true, other: true, used: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s exists: %v, want %v", dir, err == nil, want)
		}
	}
}

func TestMemory(t *testing.T) {
	onEach(t, func(t *testing.T, l *Ladder) {
		b := box(t, l, Config{Memory: 256 << 20})
		r := run(t, b, self(t, "memory")+" 2>/dev/null")
		if strings.Contains(r.out, "done") || r.exit.Code == 0 {
			t.Errorf("10 GB were used: %q %v", r.out, r.exit)
		}
		if r := run(t, b, "echo fine"); r.out != "fine\n" {
			t.Errorf("a small program: %q %v %v %s", r.out, r.exit, r.fail, r.err)
		}
	}, Namespaces, Bubblewrap, Landlock, Limits)
}

func TestEnvironment(t *testing.T) {
	onEach(t, func(t *testing.T, l *Ladder) {
		b := box(t, l, Config{Environment: []string{"SHOWN"}})
		b.place.Environ = append(b.place.Environ, "SHOWN=1", "HIDDEN=2")
		r := run(t, b, "echo $SHOWN$HIDDEN; tr '\\0' '\\n' </proc/1/environ | grep HIDDEN")
		if r.out != "1\n" {
			t.Errorf("the environment shows %q, want 1", r.out)
		}
	}, Namespaces, Bubblewrap, Landlock, Limits)
}

// TestProgramIsUnchanged: streams and the end of a program are the same in a sandbox.
func TestProgramIsUnchanged(t *testing.T) {
	onEach(t, func(t *testing.T, l *Ladder) {
		b := box(t, l, Config{Workspace: true})
		for script, want := range map[string]process.Exit{
			"exit 7":                     {Code: 7},
			"exit 137":                   {Code: 137},
			"kill -TERM $$":              {Code: -1, Signal: syscall.SIGTERM},
			"(sleep 0.1; echo late) &":   {},
			"sleep 60 >/dev/null 2>&1 &": {Left: 1},
		} {
			r := run(t, b, script)
			if l.Rung() == Bubblewrap && want.Signal != 0 { // it exits as a shell does
				want = process.Exit{Code: 128 + int(want.Signal)}
			}
			if r.fail != nil || r.exit.Code != want.Code || r.exit.Signal != want.Signal {
				t.Errorf("%s: %+v %v %s, want %+v", script, r.exit, r.fail, r.err, want)
			}
			if l.Rung() == Namespaces && r.exit.Left != want.Left {
				t.Errorf("%s: %d processes left, want %d", script, r.exit.Left, want.Left)
			}
			if strings.Contains(script, "late") && r.out != "late\n" {
				t.Errorf("%s: printed %q, want what a child prints later", script, r.out)
			}
		}
		// A program that cannot be executed is the same error as without a sandbox.
		file := b.place.Dir + "/bad"
		if err := os.WriteFile(file, []byte("#!/no/such/shell\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := process.Run(t.Context(), &process.Command{Path: file, Dir: b.place.Dir, Sandbox: b, Mark: t.Name()})
		if err == nil || !strings.Contains(err.Error(), "the interpreter of its #! line") {
			t.Errorf("a script without interpreter: %v", err)
		}
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid > 0 {
			t.Errorf("process %d (%v) was not reaped", pid, err)
		}
	}, full...)
}

// TestInnerSandboxNarrows: in a sandbox no namespaces are made, and what it permits can
// only become less.
func TestInnerSandboxNarrows(t *testing.T) {
	onEach(t, func(t *testing.T, l *Ladder) {
		b := box(t, l, Config{Workspace: true})
		r := run(t, b, self(t, "inner", b.place.Dir))
		if !strings.Contains(r.out, "rung landlock\n") || !strings.Contains(r.out, "inner exit status 2") {
			t.Errorf("the inner sandbox: %s%s", r.out, r.err)
		}
		if _, err := os.Stat(b.place.Dir + "/inner"); err == nil {
			t.Error("the inner sandbox wrote a file that only the outer one permits")
		}
	}, full...)
}

func TestRequired(t *testing.T) {
	l := ladder(t, Limits)
	b := box(t, l, Config{Workspace: true, Required: true})
	if r := run(t, b, "echo ran"); r.fail == nil || r.out != "" || !strings.Contains(r.fail.Error(), "cannot enforce read, write, network") {
		t.Errorf("ran with %q, %v; want a refusal", r.out, r.fail)
	}
	var said []string
	b = box(t, l, Config{Workspace: true})
	b.place.Log = func(line string) { said = append(said, line) }
	run(t, b, "true")
	run(t, b, "true")
	if len(said) != 1 || !strings.Contains(said[0], "cannot enforce read, write, network") {
		t.Errorf("said %q, want once what is not enforced", said)
	}
}

func TestLadderIsRemembered(t *testing.T) {
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	helper := filepath.Join(t.TempDir(), "helper")
	if err := os.WriteFile(helper, []byte("#!/bin/sh\nexec "+exe+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	first := &Ladder{Helper: []string{helper, helperFlag}, CacheDir: dir}
	want := first.String()
	if err := os.Remove(helper); err != nil { // without it nothing can be tried again
		t.Fatal(err)
	}
	second := &Ladder{Helper: first.Helper, CacheDir: dir}
	if got := second.String(); got != want {
		t.Errorf("remembered %q, want %q", got, want)
	}
}

func TestRungsFall(t *testing.T) {
	ladder(t, Landlock)                          // or skip
	l := &Ladder{Helper: []string{"/bin/false"}} // no namespaces with such a helper
	if got := l.Rung(); got != Landlock {
		t.Errorf("Rung() = %s, want %s:\n%s", got, Landlock, l)
	}
	if why := l.String(); !strings.Contains(why, "namespaces: ") || strings.Contains(why, "namespaces: works") {
		t.Errorf("String() = %q, want why there are no namespaces", why)
	}
}

func TestNarrowing(t *testing.T) {
	home := "/home/p"
	place := Place{Dir: "/work", Home: home}
	for _, test := range []struct {
		configs []Config
		want    string
	}{
		{[]Config{{Workspace: true}, {Write: []string{"out", "/tmp"}}}, "read all but secrets; write /work/out; no network"},
		{[]Config{{Write: []string{"a"}}, {Write: []string{"b"}}}, "write nothing"},
		{[]Config{{Workspace: true}, {Read: []string{"~/.ssh"}}}, "read nothing; write /work; no network"},
		{[]Config{{Network: &Network{Domains: []string{"*.a.org", "b.org"}}}, {Network: &Network{Domains: []string{"x.a.org", "c.org"}}}}, "network x.a.org"},
		{[]Config{{Network: &Network{All: true}, Memory: 9}, {Network: &Network{}, Memory: 5}}, "no network; memory 5 bytes"},
		{[]Config{{Environment: []string{"A", "B"}}, {Environment: []string{"B", "C"}}}, "environment PATH, B"},
	} {
		if got := New(place, test.configs...).String(); got != test.want {
			t.Errorf("New(%v) = %q, want %q", test.configs, got, test.want)
		}
	}
	if b := New(place, Config{}); b != nil {
		t.Errorf("New of nothing = %v, want nil", b)
	}
}

// TestWhatProcessesShare: without a namespace for it, shared memory is refused.
func TestWhatProcessesShare(t *testing.T) {
	file, err := os.CreateTemp("/dev/shm", "agents-test-")
	if err != nil {
		t.Skip(err)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if _, err := file.WriteString("shared"); err != nil {
		t.Fatal(err)
	}
	onEach(t, func(t *testing.T, l *Ladder) {
		b := box(t, l, Config{Workspace: true})
		r := run(t, b, "cat "+file.Name()+"; echo x >"+file.Name()+"; ulimit -c 0 && echo own; "+self(t, "shm"))
		if refused := strings.Contains(r.out, "refused"); refused != (l.Rung() == Landlock) || strings.Contains(r.out, "shared") || !strings.Contains(r.out, "own") {
			t.Errorf("shared memory: %q %s", r.out, r.err)
		}
	}, full...)
}

// TestMovesBetweenFolders: what may be read is restricted, and moves are not.
func TestMovesBetweenFolders(t *testing.T) {
	onEach(t, func(t *testing.T, l *Ladder) {
		b := box(t, l, Config{Read: []string{"."}})
		if r := run(t, b, "mkdir a b && echo x >a/f && mv a/f b/f && ln b/f a/g && cat a/g"); r.out != "x\n" || r.err != "" {
			t.Errorf("moved: %q %s %v", r.out, r.err, r.fail)
		}
	}, full...)
}

func TestFewOpenFiles(t *testing.T) {
	onEach(t, func(t *testing.T, l *Ladder) {
		for _, n := range []int64{5, 8} {
			b := box(t, l, Config{Workspace: true, OpenFiles: n})
			if r := run(t, b, "ulimit -n"); r.out != fmt.Sprintln(n) {
				t.Errorf("openFiles %d: %q %s %v", n, r.out, r.err, r.fail)
			}
		}
	}, full...)
}

// TestOldKernels: what an old version of Landlock does not do is not said to be enforced.
func TestOldKernels(t *testing.T) {
	for version, want := range map[int]string{0: "read, write, network, signals, protected files", 1: "write, signals, protected files", 2: "write, signals, protected files", 3: "signals, protected files", 5: "signals, protected files", 6: "protected files", 9: "protected files"} {
		l := ladder(t, Landlock)
		l.landlock = version
		b := tree(t, l, Config{Workspace: true, Required: true})
		rung := Landlock
		if version == 0 {
			rung = Limits
		}
		err := b.check(rung)
		if err == nil || !strings.Contains(err.Error(), "cannot enforce "+want+" (") {
			t.Errorf("with version %d: %v, want it to be refused for %s", version, err, want)
		}
		if _, got := b.split(Namespaces); len(got) > 0 {
			t.Errorf("with version %d namespaces do not enforce %s", version, got)
		}
	}
}
