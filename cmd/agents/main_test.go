package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary the program itself, so that scripts run it as
// `agents` in processes of its own.
func TestMain(m *testing.M) {
	sandboxed(os.Args) // a helper is this executable, by no other name
	if os.Getenv("GORACE") == "" {
		// The race detector sleeps a second at the end of every process.
		os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	_ = flag.Set("test.parallel", "4") // tests mostly wait for their processes; the flag -parallel comes later
	commands := map[string]func(){
		"agents": func() {
			if guardian(os.Args) {
				os.Exit(0)
			}
			p := program.System(release())
			p.Servers = nil            // whatever runs on this machine
			p.Describing = time.Minute // however busy this machine is
			p.NameSlow = os.Getenv("AGENTS_TEST_NAME_SLOW") != ""
			p.Journal = crash(os.Getenv(crashAt))
			p.Out = crashOutput(p.Out)
			if d, err := time.ParseDuration(os.Getenv(killAfter)); err == nil {
				p.KillAfter = d
			}
			os.Exit(start(p, os.Args))
		},
		"mcp-fake": mcpFakeMain,
		"tool":     toolMain,
	}
	if runtime.GOOS == "windows" { // where testscript copies this file for each
		os.Exit(linked(m, commands))
	}
	delete(commands, "tool")
	testscript.Main(m, commands)
}

func TestScripts(t *testing.T) {
	t.Parallel()
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(ts *testscript.TestScript, neg bool, args []string){"toolbox": buildToolbox(t.TempDir())},
		Setup: func(env *testscript.Env) error {
			env.Setenv("REPO", repository)
			// Tools in Go are built with what is built already.
			if cache, err := os.UserCacheDir(); err == nil && os.Getenv("GOCACHE") == "" {
				env.Setenv("GOCACHE", filepath.Join(cache, "go-build"))
			}
			env.Setenv("XDG_CACHE_HOME", filepath.Join(env.WorkDir, "cache"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("AGENTS_KEYRING", "off")
			env.Setenv("AGENTS_TTY", "off") // whoever runs the tests is not asked
			env.Setenv("GORACE", os.Getenv("GORACE"))
			return nil
		},
	})
}

// buildToolbox is a command of scripts: it builds agents-toolbox, once for all of them,
// and puts it in PATH.
func buildToolbox(dir string) func(*testscript.TestScript, bool, []string) {
	build := sync.OnceValue(func() error {
		out, err := exec.Command("go", "build", "-o", dir, "../agents-toolbox").CombinedOutput()
		if err != nil {
			return fmt.Errorf("build agents-toolbox: %w\n%s", err, out)
		}
		return nil
	})
	return func(ts *testscript.TestScript, _ bool, _ []string) {
		ts.Check(build())
		ts.Setenv("PATH", dir+string(filepath.ListSeparator)+ts.Getenv("PATH"))
	}
}
