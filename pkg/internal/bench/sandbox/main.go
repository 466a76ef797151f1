// Command sandbox prints what a sandbox costs a call: it runs /bin/true without and with
// one in turn.
//
//	sandbox -rung namespaces -calls 200
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/sandbox"
)

// helperWord makes this program the helper of its sandboxes.
const helperWord = "helper"

func main() {
	if len(os.Args) > 2 && os.Args[1] == helperWord {
		os.Exit(sandbox.Helper(os.Args[2:]))
	}
	rung := flag.String("rung", "", "what confines the calls; empty: a sandbox that restricts nothing")
	calls := flag.Int("calls", 200, "how many calls are made of each kind, one after the other")
	flag.Parse()
	if err := measure(*rung, *calls); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1)
	}
}

// measure makes calls and prints the difference of the medians.
func measure(rung string, calls int) error {
	dir, err := os.MkdirTemp("", "agents-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ladder := &sandbox.Ladder{Helper: []string{"/proc/self/exe", helperWord}, Only: []string{rung}}
	defer ladder.Close()
	plain := &process.Command{Path: "/bin/true", Dir: dir}
	boxed := *plain
	if rung != "" && ladder.Rung() != rung {
		return fmt.Errorf("this machine has no %s: %s", rung, ladder)
	}
	config := sandbox.Config{Workspace: rung != ""}
	if box := sandbox.New(sandbox.Place{Dir: dir, Home: dir, Ladder: ladder}, config); box != nil {
		boxed.Sandbox = box
	}
	var first time.Duration
	var without, with []time.Duration
	for i := range calls + 1 {
		a, errA := call(plain)
		b, errB := call(&boxed)
		if err := errors.Join(errA, errB); err != nil {
			return err
		}
		if i == 0 {
			first = b
			continue
		}
		without, with = append(without, a), append(with, b)
	}
	slices.Sort(without)
	slices.Sort(with)
	fmt.Printf("%.4f ms a call, %.2f ms the first\n", (with[calls/2]-without[calls/2]).Seconds()*1000, first.Seconds()*1000)
	return nil
}

func call(c *process.Command) (time.Duration, error) {
	start := time.Now()
	e, err := process.Run(context.Background(), c)
	if err == nil && e.Code != 0 {
		err = errors.New(e.String())
	}
	return time.Since(start), err
}
