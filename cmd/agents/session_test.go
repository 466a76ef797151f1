package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
)

// The search with the program that searches, as both are installed.
func TestSearchFindsSessionsOfRuns(t *testing.T) {
	bin, home := t.TempDir(), t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(bin, program.Search), "../agents-search")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "agents")); err != nil { // see TestMain
		t.Fatal(err)
	}
	agents := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(bin, "agents"), args...)
		cmd.Dir = repository
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+home, "XDG_CACHE_HOME="+home, "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("agents %q: %v %v", args, err, out)
		}
		return string(out)
	}
	agents("run", "--quiet", "--agent-file", "examples/quickstart/agent.json", "--prompt", "What is in the folder examples/quickstart?")
	got := agents("session", "search", "folder", "quickst*", "--agent", "quickstart")
	if !strings.Contains(got, "turn 1, prompt: What is in the folder examples/quickstart?") {
		t.Errorf("found\n%s", got)
	}
	if got := agents("session", "search", "README.md", "--tool", "bash_list_files"); !strings.Contains(got, "result bash_list_files: ") {
		t.Errorf("found\n%s", got)
	}
	if got := agents("session", "search", "folder", "--until", "2020-01-01", "--json"); got != "[]\n" {
		t.Errorf("found\n%s", got)
	}
	agents("session", "rm", "latest")
	if got := agents("session", "search", "folder", "--json"); got != "[]\n" {
		t.Errorf("a session that was removed is still found:\n%s", got)
	}
}
