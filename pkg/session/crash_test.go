//go:build unix

package session_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/session"
	"go.uber.org/goleak"
)

// The test binary is also the process that dies, or that holds a session.
const (
	envDir   = "SESSION_TEST_DIR"
	envDieAt = "SESSION_TEST_DIE_AT"
	envHold  = "SESSION_TEST_HOLD"
	envLeave = "SESSION_TEST_LEAVE"
	// everyStep makes the sweep kill at each change to the disk.
	everyStep = "TEST_EVERY_STEP"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(envDir) != "":
		dieAt, _ := strconv.Atoi(os.Getenv(envDieAt))
		os.Exit(runAndDie(os.Getenv(envDir), dieAt))
	case os.Getenv(envHold) != "":
		os.Exit(hold(os.Getenv(envHold)))
	case os.Getenv(envLeave) != "":
		os.Exit(leave(os.Getenv(envLeave)))
	}
	goleak.VerifyTestMain(m)
}

// runAndDie runs the tree once, or continues what an earlier process left, and kills
// itself before the change to the disk with a number.
func runAndDie(dir string, dieAt int) int {
	if err := resume(context.Background(), dir, keptEffects(dir), func(_ string, n int) error {
		if n == dieAt {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// keptEffects are effects on a file that outlives the process.
func keptEffects(dir string) *effects {
	f := &effects{}
	f.kept = func(key string) {
		w, err := os.OpenFile(filepath.Join(dir, "effects"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(w, key)
		w.Close()
	}
	return f
}

// resume runs the tree in the folder dir: from the beginning, or from where it is.
func resume(ctx context.Context, dir string, f *effects, fail func(string, int) error) error {
	store := filepath.Join(dir, "sessions")
	o := session.Options{Fail: fail}
	r := &runner.Runner{Agent: newTree(f)}
	path, err := session.Find(session.Latest, store)
	var j *session.Journal
	switch {
	case errors.Is(err, session.ErrNotFound):
		j = session.Create(store, o)
	case err != nil:
		return err
	default:
		var past *session.Past
		if j, past, err = session.Open(path, o); err != nil {
			return err
		}
		r.From = &past.Resume
	}
	defer j.Close()
	r.Journal, r.NewID = j, j.NewID
	var out *agent.Outcome
	switch {
	case len(r.Session().Messages) == 0:
		out, err = r.Run(ctx, agent.UserText("go"))
	case r.Session().Unfinished():
		out, err = r.Resume(ctx)
	default:
		return j.Close()
	}
	if err != nil {
		return err
	}
	if out.Answer != "all done" || out.Total.Usage.Requests-out.Total.Usage.Estimated != 5 { // and one that was lost
		return fmt.Errorf("the answer is %q after %d requests, want %q after 5", out.Answer, out.Total.Usage.Requests-out.Total.Usage.Estimated, "all done")
	}
	return j.Close()
}

// checkStore checks the one session in dir, which is finished: every call of it took
// effect once, or its result says that this is not known.
func checkStore(t *testing.T, dir string, keys []string) {
	t.Helper()
	path, err := session.Find(session.Latest, filepath.Join(dir, "sessions"))
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, key := range keys {
		count[key]++
	}
	ended := map[string]int{}
	for _, e := range collect(t, session.Events(path)) {
		if e.Kind != agent.EventCallEnded {
			continue
		}
		ended[e.Key]++
		unknown := strings.Contains(e.Result.Text(), "whether it took effect is not known")
		if n := count[e.Key]; e.Tool == "once" && (n > 1 || n == 0 && !unknown) {
			t.Errorf("the call %s took effect %d times; its result: %s", e.Key, n, e.Result.Text())
		}
	}
	if len(ended) != 7 {
		t.Errorf("%d calls have results, want 7: %v", len(ended), ended)
	}
	for key, n := range ended {
		if n != 1 {
			t.Errorf("the call %s has %d results", key, n)
		}
	}
}

func readKeys(t *testing.T, dir string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "effects"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}

func TestKilledAtEveryWriteNothingIsLostOrRepeated(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// die runs a process that dies at n, and reports whether it did.
	die := func(t *testing.T, dir string, n int) bool {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", envDir+"="+dir, envDieAt+"="+strconv.Itoa(n))
		out, err := cmd.CombinedOutput()
		if err == nil {
			return false
		}
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
			t.Fatalf("killed at %d: %v: %s", n, err, out)
		}
		return true
	}
	var last atomic.Bool
	var wg sync.WaitGroup
	next := make(chan int)
	for range 2 {
		wg.Go(func() {
			for n := range next {
				dir := t.TempDir()
				if !die(t, dir, n) {
					last.Store(true)
				} else if n%2 == 0 {
					die(t, dir, n) // and once more after the resume
				}
				if err := resume(t.Context(), dir, keptEffects(dir), nil); err != nil {
					t.Errorf("killed at %d and resumed: %v", n, err)
					continue
				}
				checkStore(t, dir, readKeys(t, dir))
			}
		})
	}
	n, every := 1, 5 // odd, so that some die twice
	if os.Getenv(everyStep) != "" {
		every = 1
	}
	for ; !last.Load() && !t.Failed(); n += every {
		next <- n
	}
	close(next)
	wg.Wait()
	if n < 40 {
		t.Errorf("there were only %d changes to the disk", n)
	}
}

// A failure is reported with its cause before the run acts on anything that is not
// recorded, and the session can be continued.
func TestEveryFailingChangeEndsTheRun(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		dir, f, failed := t.TempDir(), &effects{}, ""
		var mu sync.Mutex
		err := resume(t.Context(), dir, f, func(op string, i int) error {
			mu.Lock()
			defer mu.Unlock()
			if i == n {
				failed = op
			}
			if failed != "" {
				return syscall.ENOSPC // and it stays so
			}
			return nil
		})
		if failed == "" {
			if err != nil {
				t.Fatal(err)
			}
			if n < 40 {
				t.Errorf("there were only %d changes to the disk", n)
			}
			return
		}
		if err == nil {
			if n < 40 || failed != "write" { // the last line, after the last sync
				t.Errorf("%s %d failed without an error", failed, n)
			}
		} else if !errors.Is(err, agent.ErrJournal) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "session") {
			t.Errorf("%s %d failed: %v", failed, n, err)
		}
		if err := resume(t.Context(), dir, f, nil); err != nil {
			t.Fatalf("%s %d had failed, and then: %v", failed, n, err)
		}
		checkStore(t, dir, f.keys)
	}
}

func TestARunThatFailsAtItsFirstEventLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	err := resume(t.Context(), dir, &effects{}, func(op string, _ int) error {
		if op == "write" {
			return syscall.ENOSPC
		}
		return nil
	})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error = %v", err)
	}
	if list, err := os.ReadDir(filepath.Join(dir, "sessions")); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}

func TestAfterAFailureNothingIsWritten(t *testing.T) {
	for _, fails := range []string{"write", "sync"} {
		broken, ops := false, 0
		j := session.Create(t.TempDir(), session.Options{Fail: func(op string, _ int) error {
			if ops++; broken && op == fails {
				return syscall.EIO
			}
			return nil
		}})
		e := agent.Event{Kind: agent.EventEnd, Session: "s", Agent: "a"}
		if err := errors.Join(j.Append(t.Context(), e), j.Sync(t.Context()), j.Append(t.Context(), e)); err != nil {
			t.Fatal(err)
		}
		broken = true
		first := errors.Join(j.Append(t.Context(), e), j.Sync(t.Context()))
		broken, ops = false, 0
		for _, err := range []error{first, j.Append(t.Context(), e), j.Sync(t.Context())} {
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("a failed %s, and then the error %v", fails, err)
			}
		}
		if err := j.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		if ops != 0 {
			t.Errorf("a failed %s, and then %d changes to the disk", fails, ops)
		}
		if n := len(collect(t, session.Events(j.Path()))); n < 2 {
			t.Errorf("%d events are left of 2", n)
		}
	}
}

// hold writes to a session and keeps it open until its standard input ends.
func hold(path string) int {
	j, _, err := session.Open(path, session.Options{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if err := j.Append(context.Background(), agent.Event{Kind: agent.EventSetup, Session: j.ID()}); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("held")
	io.Copy(io.Discard, os.Stdin)
	j.Close()
	return 0
}

func TestASecondWriterIsRefused(t *testing.T) {
	path := closedSession(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", envHold+"="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the first process: %q, %v", line, err)
	}
	refused := func(pid int) {
		t.Helper()
		for _, err := range []error{second(path), session.Remove(path)} {
			inUse, ok := errors.AsType[*session.InUseError](err)
			if !ok || inUse.PID != pid {
				t.Errorf("error = %v, want one that names process %d", err, pid)
			}
		}
	}
	refused(cmd.Process.Pid)
	if len(collect(t, session.Events(path))) == 0 {
		t.Error("a session in use cannot be read")
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	j, _ := open(t, path)
	refused(os.Getpid())
	j.Close()
	if err := second(path); err != nil {
		t.Errorf("after both are gone: %v", err)
	}
}

// A copy of a session names the process that still writes the original.
func TestACopyNamesTheOwnerOfTheOriginal(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux is the owner recorded with its start")
	}
	path := closedSession(t)
	if _, past := open(t, path); past.OwnerPID != 0 {
		t.Errorf("the owner of a session of this process is %d", past.OwnerPID)
	}
	path = closedSession(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", envHold+"="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the first process: %q, %v", line, err)
	}
	copied := func() string {
		dir := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(dir, os.DirFS(path)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	if _, past := open(t, copied()); past.OwnerPID != cmd.Process.Pid {
		t.Errorf("owner %d, want %d", past.OwnerPID, cmd.Process.Pid)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, past := open(t, copied()); past.OwnerPID != 0 {
		t.Errorf("owner %d, but it has ended", past.OwnerPID)
	}
}

func second(path string) error {
	j, _, err := session.Open(path, session.Options{})
	if err == nil {
		j.Close()
	}
	return err
}

// Calls of Sync during a sync share the next one.
func TestSyncsAreShared(t *testing.T) {
	under, goAhead := make(chan bool, 10), make(chan bool)
	syncs := 0
	j := session.Create(t.TempDir(), session.Options{Fail: func(op string, _ int) error {
		if op == "sync" {
			syncs++
			under <- true
			<-goAhead
		}
		return nil
	}})
	e := agent.Event{Kind: agent.EventEnd, Session: "s", Agent: "a"}
	var wg sync.WaitGroup
	sync1 := func() {
		if err := j.Append(t.Context(), e); err != nil {
			t.Error(err)
		}
		appended := make(chan bool)
		wg.Go(func() {
			close(appended)
			if err := j.Sync(t.Context()); err != nil {
				t.Error(err)
			}
		})
		<-appended
	}
	sync1()
	<-under
	for range 20 {
		sync1()
	}
	close(goAhead)
	wg.Wait()
	if err := j.Sync(t.Context()); err != nil || syncs > 3 {
		t.Errorf("21 callers made %d syncs, want 2 or, if one came late, 3 (%v)", syncs, err)
	}
	j.Close()
}

// A disk that is a file, with an ext4 file system in it.
type loopDisk struct{ image, dir string }

// mountLoop mounts an image at a new folder. A test without root or loop devices
// is skipped.
func mountLoop(t *testing.T, image string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Skipf("this needs root and loop devices: mount: %v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command("umount", dir).Run() })
	return dir
}

func newLoopDisk(t *testing.T) loopDisk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("this needs root and loop devices")
	}
	image := filepath.Join(t.TempDir(), "disk")
	f, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(8<<20), f.Close()); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Skipf("this needs mkfs.ext4: %v: %s", err, out)
	}
	return loopDisk{image, mountLoop(t, image)}
}

// A loss of power leaves what was synced and whatever else the system had written.
// The image of the file system is copied before the first change after something became
// certain, and before some of the others; each copy is what a machine finds that stopped
// there.
func TestALossOfPowerTakesNothingThatWasSynced(t *testing.T) {
	t.Parallel()
	disk := newLoopDisk(t)
	var copies []string
	var synced []int // by copy: the events that were certain
	changes := 0
	var certain atomic.Int64
	var mu sync.Mutex // one writes while another syncs
	j := session.Create(filepath.Join(disk.dir, "sessions"), session.Options{Fail: func(string, int) error {
		mu.Lock()
		defer mu.Unlock()
		now := int(certain.Load())
		if changes++; changes%20 != 1 && synced[len(synced)-1] == now {
			return nil
		}
		b, err := os.ReadFile(disk.image)
		if err != nil {
			return err
		}
		copied := fmt.Sprintf("%s.%d", disk.image, len(copies))
		copies, synced = append(copies, copied), append(synced, now)
		return writeSparse(copied, b)
	}})
	r := &runner.Runner{Agent: newTree(&effects{}), NewID: j.NewID, Journal: &counting{Journal: j, certain: &certain}}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if certain.Load() < 15 || changes < 40 {
		t.Fatalf("%d events were synced, %d changes", certain.Load(), changes)
	}
	for i, image := range copies {
		dir := t.TempDir()
		if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
			t.Fatalf("copy %d: mount: %v: %s", i, err, out)
		}
		checkAfterPowerLoss(t, i, filepath.Join(dir, "sessions"), synced[i])
		unmount(t, dir)
	}
}

// unmount unmounts a loop device. A process that another test starts has, until it
// executes its program, the files that are open here.
func unmount(t *testing.T, dir string) {
	t.Helper()
	for try := 0; ; try++ {
		out, err := exec.Command("umount", dir).CombinedOutput()
		switch {
		case err == nil:
			return
		case try == 1000 || !strings.Contains(string(out), "busy"):
			t.Fatalf("umount: %v: %s", err, out)
		}
	}
}

func checkAfterPowerLoss(t *testing.T, copied int, store string, certain int) {
	t.Helper()
	path, err := session.Find(session.Latest, store)
	if errors.Is(err, session.ErrNotFound) && certain == 0 {
		return
	}
	if err != nil {
		t.Errorf("copy %d: %v", copied, err)
		return
	}
	j, _, err := session.Open(path, session.Options{})
	if err != nil {
		t.Errorf("copy %d: %v", copied, err)
		return
	}
	defer j.Close()
	n := 0
	for _, err := range session.Events(path) {
		if err != nil {
			t.Errorf("copy %d: %v", copied, err)
		}
		n++
	}
	if n < certain {
		t.Errorf("copy %d: %d events, but %d were synced", copied, n, certain)
	}
}

// counting counts the events that a Sync made certain.
type counting struct {
	*session.Journal
	mu       sync.Mutex
	appended int
	certain  *atomic.Int64
}

func (c *counting) Append(ctx context.Context, e agent.Event) error {
	err := c.Journal.Append(ctx, e)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.appended++
	return err
}

func (c *counting) Sync(ctx context.Context) error {
	c.mu.Lock()
	n := c.appended
	c.mu.Unlock()
	err := c.Journal.Sync(ctx)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.certain.Store(max(c.certain.Load(), int64(n)))
	}
	return err
}

// writeSparse leaves out zeros.
func writeSparse(path string, b []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	zeros := make([]byte, 64<<10)
	for at := 0; at < len(b); at += len(zeros) {
		piece := b[at:min(at+len(zeros), len(b))]
		if bytes.Equal(piece, zeros[:len(piece)]) {
			continue
		}
		if _, err := f.WriteAt(piece, int64(at)); err != nil {
			return err
		}
	}
	return f.Truncate(int64(len(b)))
}

// On a full disk the run ends with an error, and it can be continued when there is
// space again.
func TestAFullDiskEndsTheRunUntilThereIsSpace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this needs root, to mount small file systems")
	}
	full := 0
	for kib := 8; kib <= 260; kib += 4 + kib/4 {
		dir := t.TempDir()
		if out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dk", kib), "tmpfs", dir).CombinedOutput(); err != nil {
			t.Skipf("this needs root, to mount small file systems: %v: %s", err, out)
		}
		defer exec.Command("umount", dir).Run()
		f := &effects{}
		err := resume(t.Context(), dir, f, nil)
		if err != nil {
			full++
			if !errors.Is(err, agent.ErrJournal) || !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("with %d KiB: %v", kib, err)
			}
		}
		if out, err := exec.Command("mount", "-o", "remount,size=1m", dir).CombinedOutput(); err != nil {
			t.Fatalf("remount: %v: %s", err, out)
		}
		if err := resume(t.Context(), dir, f, nil); err != nil {
			t.Errorf("with %d KiB at first: %v", kib, err)
		}
		checkStore(t, dir, f.keys)
	}
	if full < 5 {
		t.Errorf("the disk was full only %d times", full)
	}
}
