package proof

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestQuickStart runs the commands of docs/fleet.md that need nothing but this machine, with
// the programs that AGENTS_TEST_FLEET and its folder have.
func TestQuickStart(t *testing.T) {
	program := os.Getenv("AGENTS_TEST_FLEET")
	if program == "" {
		t.Skip("AGENTS_TEST_FLEET does not name agents-fleet, with agents beside it: see `make fleet`")
	}
	page, err := os.ReadFile("../../../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## Quick start\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var blocks []string
	for rest := section; ; {
		var block string
		var found bool
		if _, rest, found = strings.Cut(rest, "```shell\n"); !found {
			break
		}
		block, rest, _ = strings.Cut(rest, "```")
		blocks = append(blocks, block)
	}
	if len(blocks) != 2 || strings.TrimSpace(blocks[0]) != "agents-fleet dev" {
		t.Fatalf("the section has the blocks %q", blocks)
	}
	env := append(os.Environ(), "XDG_STATE_HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir(),
		"PATH="+filepath.Dir(program)+string(os.PathListSeparator)+os.Getenv("PATH"))
	dev := exec.Command(program, "dev", "--listen", "127.0.0.1:0") // another one may have the usual port
	dev.Env, dev.Dir = env, "../../../.."
	pipe, err := dev.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := dev.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := dev.Wait(); err != nil {
			t.Errorf("dev ended with %v", err)
		}
	}()
	for lines := bufio.NewScanner(pipe); lines.Scan() && !strings.Contains(lines.Text(), "worker: "); {
	}
	sh := exec.Command("sh", "-eux", "-c", blocks[1])
	sh.Env, sh.Dir = env, dev.Dir
	out, err := sh.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "README.md"); n < 3 {
		t.Errorf("the folder is shown %d times, want 3:\n%s", n, out)
	}
}
