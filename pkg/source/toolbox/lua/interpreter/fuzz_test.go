//go:build linux && !race

package interpreter_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/source/toolbox/lua"
)

// FuzzLimits runs scripts and checks that none takes more time or memory than it may.
func FuzzLimits(f *testing.F) {
	for _, script := range append(tooMuch, `return 1`, `while true do end`, `time.sleep(100)`, `return tools.call("x", {a = 1})`,
		`for i = 1, 100 do tools.all{{"a"}, {"b", {i}}} end`, `return (("a"):rep(40)):find(("a*"):rep(40) .. "b")`, strings.Repeat("(", 10_000)) {
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script string) {
		const allowed = time.Second
		state, took := runAlone(t, script, lua.Limits{MemoryMB: 16, Instructions: 5_000_000}, allowed)
		if took > allowed+20*time.Second { // the machine may be busy
			t.Errorf("it ran for %s", took)
		}
		// What the runtime itself takes does not depend on the script.
		if used := state.SysUsage().(*syscall.Rusage).Maxrss >> 10; used > 16+128+64 {
			t.Errorf("it took %d MB", used)
		}
	})
}

// runAlone runs a script in a process, answers its calls, and kills it after allowed.
func runAlone(t *testing.T, script string, limits lua.Limits, allowed time.Duration) (*os.ProcessState, time.Duration) {
	t.Helper()
	command := options(limits).Command
	cmd := exec.Command(command.Path)
	cmd.Env = command.Env
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(allowed, func() { cmd.Process.Kill() })
	defer timer.Stop()
	enc, dec := json.NewEncoder(in), json.NewDecoder(out)
	err = enc.Encode(lua.Start{Script: script, Tools: []any{"x"}})
	for err == nil {
		var step lua.Step
		if err = dec.Decode(&step); err != nil || len(step.Calls) == 0 {
			break
		}
		results := make([]lua.Result, len(step.Calls))
		for i, c := range step.Calls {
			results[i] = lua.Result{Text: string(c.Args), Failed: c.Name != "x"}
		}
		err = enc.Encode(results)
	}
	_ = cmd.Wait() // it may have been killed
	return cmd.ProcessState, time.Since(start)
}

// The limit of the system holds where a single step takes the memory.
func TestTheProcessIsLimited(t *testing.T) {
	limits := lua.Limits{MemoryMB: 16}
	none, _ := runAlone(t, "return 1", limits, time.Minute)
	base := none.SysUsage().(*syscall.Rusage).Maxrss
	for _, script := range tooMuch {
		state, _ := runAlone(t, script, limits, time.Minute)
		if used := (state.SysUsage().(*syscall.Rusage).Maxrss - base) >> 10; used > 16+128 {
			t.Errorf("%s took %d MB more than a script that does nothing", script, used)
		} else {
			t.Logf("%4d MB, %v: %.60s", used, state, script)
		}
	}
}
