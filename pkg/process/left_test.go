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
