//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// launchWord as the first argument makes this program start another one and write
// what it cost to descriptor 3. The kernel counts the memory of the process that
// starts a program as the program's own, so a small process must start it, and not
// the one that runs the model server.
const launchWord = "launch"

// A cost is what a launched program cost.
type cost struct {
	Start, End int64 // nanoseconds since 1970
	CPU        time.Duration
	PeakKiB    int64
	Failure    string
}

// launchLimit is how long a program may take.
const launchLimit = 5 * time.Minute

// launch runs argv and returns an exit code.
func launch(argv []string) int {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	var c cost
	c.Start = time.Now().UnixNano()
	err := cmd.Start()
	if err == nil {
		timer := time.AfterFunc(launchLimit, func() { cmd.Process.Kill() })
		err = cmd.Wait()
		timer.Stop()
	}
	c.End = time.Now().UnixNano()
	if err != nil {
		c.Failure = err.Error()
	}
	if state := cmd.ProcessState; state != nil {
		c.CPU = state.UserTime() + state.SystemTime()
		if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
			c.PeakKiB = int64(usage.Maxrss)
		}
		if runtime.GOOS == "darwin" {
			c.PeakKiB /= 1024
		}
	}
	if err := json.NewEncoder(os.NewFile(3, "cost")).Encode(c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
