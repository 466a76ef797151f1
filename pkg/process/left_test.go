//go:build linux

package process

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestEndLeftEndsTheWholeFamily(t *testing.T) {
	mark := "left." + strconv.Itoa(os.Getpid())
	// A child in a session of its own that does not have the mark any more.
	cmd := exec.Command("sh", "-c", `env -u `+MarkVariable+` setsid sh -c 'echo $$; exec sleep 600' & echo $$; wait`)
	cmd.Env = append(os.Environ(), MarkVariable+"="+mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for range 2 {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err != nil || pid == os.Getpid() {
			t.Fatalf("pid %q", line)
		}
	}
	other := exec.Command("sleep", "600")
	other.Env = append(os.Environ(), MarkVariable+"="+mark+"0")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		other.Process.Kill()
		other.Wait()
	}()
	if ended, alive := EndLeft(mark); ended != 2 || alive != 0 {
		t.Errorf("EndLeft = %d, %d; want 2 ended", ended, alive)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the first process was not killed")
	}
	if _, err := lines.ReadString('\n'); err == nil { // EOF: nobody holds the pipe
		t.Error("the second process lives on")
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process with another mark: %v", err)
	}
	if ended, _ := EndLeft(mark); ended != 0 {
		t.Errorf("EndLeft again ended %d", ended)
	}
}

// A process that cleared its environment and left its session and family is found
// by what it inherited.
func TestEndLeftFindsWhatHides(t *testing.T) {
	r := newRig(t)
	mark := "hidden." + strconv.Itoa(os.Getpid())
	c := r.command(`(leave env -i RIG="$RIG" PATH="$PATH" sh -c "$SLEEPER" </dev/null >/dev/null 2>&1 &); await 1; read line`)
	c.Mark, c.Grace = mark, patience
	startServer(t, c)
	hidden := r.awaitPids(1)[0]
	if ended, left := EndLeft(mark); ended < 2 || left != 0 {
		t.Errorf("EndLeft = %d, %d; want at least 2 ended", ended, left)
	}
	if alive(hidden) {
		t.Error("the hidden process is alive")
	}
	var own unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &own); err != nil || own.Cur != unix.RLIM_INFINITY && own.Cur>>62 == 1 {
		t.Errorf("the limit of this process is %d, %v; want what it was", own.Cur, err)
	}
}

// A number that went to another process since it was seen is not that of the
// process that was seen.
func TestOpenSameKnowsAProcessByItsStart(t *testing.T) {
	st, err := readStat(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	fd, err := openSame(os.Getpid(), st.start)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	if fd, err := openSame(os.Getpid(), st.start-tick); err == nil {
		unix.Close(fd)
		t.Error("openSame takes this process for one that was started before")
	}
}
