package examples_test

import (
	"os"
	"os/exec"
	"testing"
)

// TestHarborAdapter runs the unit test of the adapter, which needs no Harbor.
func TestHarborAdapter(t *testing.T) {
	cmd := exec.Command("python3", "-B", "harbor/test_agents_harbor.py")
	cmd.Env = append(os.Environ(), "PATH="+agents.searchPath())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
