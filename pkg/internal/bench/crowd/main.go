// Command crowd runs many sessions at once in one process, through the library as
// any program would, and prints what each cost in memory.
//
//	crowd -base URL -runs 1000
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
	"github.com/agents-exe/agents/pkg/provider/openai"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/schema"
)

func main() {
	base := flag.String("base", "", "`URL` of the model")
	runs := flag.Int("runs", 1000, "how many sessions run at once")
	flag.Parse()
	if err := crowd(*base, *runs); err != nil {
		fmt.Fprintln(os.Stderr, "crowd:", err)
		os.Exit(1)
	}
}

// crowd runs the sessions together. What the process needs only once counts too.
func crowd(base string, runs int) error {
	a := &agent.Agent{
		Slug: "crowd", Model: "fake", System: "You run commands.",
		Provider: &provider.Retry{Provider: &openai.Provider{Settings: modelhttp.Settings{BaseURL: base, Model: "fake"}}},
		Toolsets: []agent.Toolset{agent.ToolList{schema.Checked(shell{})}},
	}
	before := peak()
	start := time.Now()
	errs := make([]error, runs)
	var wg sync.WaitGroup
	for i := range runs {
		wg.Go(func() {
			out, err := (&runner.Runner{Agent: a}).Run(context.Background(), agent.UserText("Run the commands."))
			if err == nil && (out.Turns != 3 || out.Total.Tools["shell"].Calls == 0) {
				err = fmt.Errorf("a run of %d turns and %d calls", out.Turns, out.Total.Tools["shell"].Calls)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Printf("%.1f kB a run, %.0f ms together\n", float64(peak()-before)*1024/1000/float64(runs), time.Since(start).Seconds()*1000)
	return nil
}

// shell is a tool that only returns what it would run.
type shell struct{}

func (shell) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: "shell", Description: "run a command",
		Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"],"additionalProperties":false}`),
	}
}

func (shell) Call(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
	args, err := inv.Args()
	if err != nil {
		return agent.Result{}, err
	}
	return agent.TextResult("ran " + string(args["command"])), nil
}

// peak is the largest resident set of this process so far, in KiB; 0 where the
// system does not tell.
func peak() (kib int) {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib
		}
	}
	return 0
}
