package python_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestPythonEndsWithTheRun(t *testing.T) {
	got := results(t, options(t), "import os, subprocess\np = subprocess.Popen(['sleep', '60'], start_new_session=True)\nos.getpid(), p.pid")
	var python, below int
	if _, err := fmt.Sscanf(got[0], "(%d, %d)", &python, &below); err != nil {
		t.Fatal(got)
	}
	for _, pid := range []int{python, below} {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if len(stat) > 0 && !strings.Contains(string(stat), ") Z ") {
			t.Errorf("process %d is alive", pid)
		}
	}
}
