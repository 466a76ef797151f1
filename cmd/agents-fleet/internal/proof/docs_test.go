package proof

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
)

// TestDocs runs the shell blocks of docs/fleet.md and its line for cron, with the programs that
// AGENTS_TEST_FLEET and its folder have. Servers elsewhere are replaced by that of `agents-fleet
// dev`, the Postgres store by dev's folder, and a repository on the web by one on this machine:
// package store has the tests of Postgres and S3, package deploycheck those of Kubernetes.
func TestDocs(t *testing.T) {
	program := os.Getenv("AGENTS_TEST_FLEET")
	if program == "" {
		t.Skip("AGENTS_TEST_FLEET does not name agents-fleet, with agents beside it: see `make fleet`")
	}
	page, err := os.ReadFile("../../../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for i, part := range strings.Split(string(page), "\n```") {
		language, block, _ := strings.Cut(part, "\n")
		switch {
		case i%2 == 0: // between blocks
		case language == "shell":
			blocks = append(blocks, block)
		case strings.Contains(block, " * * * "):
			_, command, _ := strings.Cut(block, " * * * ")
			blocks = append(blocks, command)
		}
	}
	if len(blocks) != 7 || blocks[0] != "agents-fleet dev" {
		t.Fatalf("the page has the blocks %q", blocks)
	}
	env := append(os.Environ(), "XDG_STATE_HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir(),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a", "GIT_CONFIG_GLOBAL=/dev/null",
		"PATH="+filepath.Dir(program)+string(os.PathListSeparator)+os.Getenv("PATH"))
	address, location := startDev(t, program, env)
	shell := func(dir, script string) string {
		t.Helper()
		sh := exec.Command("sh", "-eu", "-c", script)
		sh.Env, sh.Dir = env, dir
		out, err := sh.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, script, out)
		}
		return string(out)
	}
	if out := shell("../../../..", blocks[1]); strings.Count(out, "README.md") < 3 {
		t.Errorf("the folder is not shown three times:\n%s", out)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../../../examples/quickstart")); err != nil {
		t.Fatal(err)
	}
	commit := shell(dir, "git init -q project; cd project; touch file; git add file; git commit -q -m one; git rev-parse HEAD")
	here := strings.NewReplacer("temporal.example.com:7233", address, "postgres://agents@db.example.com/agents", location,
		"git+https://example.com/project.git#4f2c…", "git+file://"+dir+"/project#"+strings.TrimSpace(commit))
	for _, block := range blocks[2:] {
		var script strings.Builder
		for line := range strings.Lines(here.Replace(block)) {
			switch line = strings.TrimSpace(line); {
			case strings.HasPrefix(line, "agents-fleet worker"):
				line += " 2>log & trap \"kill -INT $!; wait\" EXIT; until grep 'taking runs' log; do sleep 0.1; done"
			case strings.HasPrefix(line, "agents-fleet submit"):
				line = "agents-fleet attach $(" + line + ")" // which reports how it ended
			}
			script.WriteString(line + "\n")
		}
		out := shell(dir, script.String())
		t.Logf("%s%s", script.String(), out)
		if strings.Contains(block, " prune ") && !strings.Contains(out, "remove") {
			t.Errorf("prune printed %q", out)
		}
	}
}

// TestDevOutlivesWorkers: the worker of dev takes runs after others have been there, however
// they ended, and makes its build the current one when it starts.
func TestDevOutlivesWorkers(t *testing.T) {
	program := os.Getenv("AGENTS_TEST_FLEET")
	if program == "" {
		t.Skip("AGENTS_TEST_FLEET does not name agents-fleet, with agents beside it: see `make fleet`")
	}
	env := append(os.Environ(), "XDG_STATE_HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir())
	address, _ := startDev(t, program, env)
	c, err := client.Dial(client.Options{HostPort: address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fleet := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env, cmd.Dir = env, "../../../.."
		return cmd
	}
	for _, end := range []os.Signal{os.Interrupt, os.Kill} {
		worker := fleet("worker")
		stderr, err := worker.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := worker.Start(); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(stderr); lines.Scan() && !strings.Contains(lines.Text(), "worker: "); {
		}
		for {
			d, err := c.WorkerDeploymentClient().GetHandle("agents-fleet").Describe(t.Context(), client.WorkerDeploymentDescribeOptions{})
			if err == nil && d.Info.RoutingConfig.CurrentVersion != nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		_ = worker.Process.Signal(end)
		_ = worker.Wait()
		out, err := fleet("run", "--agent-file", "examples/quickstart/agent.json", "--prompt", "hi", "--timeout", "60s").CombinedOutput()
		if err != nil {
			t.Errorf("after a worker that ended by %v: %v\n%s", end, err, out)
		}
	}
}

// startDev runs `agents-fleet dev` until the test ends, and returns the address of its server
// and its store.
func startDev(t *testing.T, program string, env []string) (address, location string) {
	t.Helper()
	dev := exec.Command(program, "dev", "--listen", "127.0.0.1:0") // another one may have the usual port
	dev.Env, dev.Dir = env, "../../../.."
	stdout, err := dev.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := dev.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := dev.Wait(); err != nil {
			t.Errorf("dev ended with %v", err)
		}
	})
	for lines := bufio.NewScanner(stdout); location == "" && lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		if name == "store" {
			location = value
		} else {
			address = value
		}
	}
	for lines := bufio.NewScanner(stderr); lines.Scan() && !strings.Contains(lines.Text(), "worker: "); {
	}
	return address, location
}
