package examples_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A proc is a process of this machine, those in containers included.
type proc struct {
	pid, parent int
	args        []string
}

// procs are the processes with a text in their arguments.
func procs(t *testing.T, text string) []proc {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []proc
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte(text)) {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(file), "stat"))
		if err != nil {
			continue
		}
		p := proc{args: strings.Split(string(line), "\x00")}
		var state string
		if _, err := fmt.Sscan(string(stat[bytes.LastIndexByte(stat, ')')+1:]), &state, &p.parent); err != nil {
			t.Fatal(err)
		}
		if p.pid, err = strconv.Atoi(filepath.Base(filepath.Dir(file))); err != nil {
			t.Fatal(err)
		}
		found = append(found, p)
	}
	return found
}

// await waits for a condition, which describes what there is instead.
func await(t *testing.T, what string, condition func() (ok bool, instead any)) {
	t.Helper()
	start := time.Now()
	for {
		ok, instead := condition()
		if ok {
			return
		}
		if time.Since(start) > timeout {
			t.Fatalf("%s: still %v", what, instead)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestContainersEndWithTheirCaller kills the treasurer, and what it started the
// auditor's container with, while the auditor's model takes its time.
func TestContainersEndWithTheirCaller(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, e *engine) {
		for _, test := range []struct {
			name   string
			signal syscall.Signal
			client bool // the signal is for the client and not for the treasurer
		}{{"kill", syscall.SIGKILL, false}, {"interrupt", syscall.SIGINT, false}, {"kill the client", syscall.SIGKILL, true}} {
			t.Run(test.name, func(t *testing.T) {
				folder := filepath.Base(e.dir) + "-" + strings.ReplaceAll(test.name, " ", "-")
				root := slowAuditor(t, e, folder)
				var inside, client []proc
				await(t, "the auditor is at work", func() (bool, any) {
					all := procs(t, folder)
					inside = slices.DeleteFunc(slices.Clone(all), func(p proc) bool { return p.args[0] != "agents" || !slices.Contains(p.args, "run") })
					client = slices.DeleteFunc(slices.Clone(all), func(p proc) bool { return p.parent != root.Process.Pid })
					guarded := slices.ContainsFunc(procs(t, "--guardian"), func(p proc) bool { return p.parent == root.Process.Pid })
					return len(inside) > 0 && len(client) > 0 && guarded, all
				})
				pid := root.Process.Pid
				if test.client {
					pid = client[0].pid
				}
				killed := time.Now()
				if err := syscall.Kill(pid, test.signal); err != nil {
					t.Fatal(err)
				}
				if test.client { // the auditor is started again, and nothing is left of the first
					await(t, "started again", func() (bool, any) {
						all := procs(t, folder)
						again := slices.ContainsFunc(all, func(p proc) bool { return p.parent == root.Process.Pid && p.pid != pid })
						old := slices.ContainsFunc(all, func(p proc) bool {
							return slices.ContainsFunc(append(inside, client...), func(o proc) bool { return o.pid == p.pid })
						})
						return again && !old, all
					})
					if err := root.Process.Signal(syscall.SIGINT); err != nil {
						t.Fatal(err)
					}
				}
				await(t, "nothing is left", func() (bool, any) {
					left := procs(t, folder)
					list := agents.run(t, command{env: e.environ, args: []string{"podman", "ps", "-aq"}}).stdout
					return len(left) == 0 && list == "", fmt.Sprint(left, list)
				})
				t.Logf("nothing is left after %v", time.Since(killed).Round(10*time.Millisecond))
				if err := root.Wait(); err == nil {
					t.Errorf("the treasurer answered\n%s", root.Stderr)
				}
			})
		}
	})
}

// slowAuditor starts the treasurer with an auditor whose model does not answer, and
// whose files are in a folder of this name.
func slowAuditor(t *testing.T, e *engine, folder string) *exec.Cmd {
	t.Helper()
	file := copyContainers(t)
	dir := filepath.Dir(file)
	auditor := filepath.Join(dir, "auditor")
	writeFile(t, filepath.Join(auditor, "script.json"), `{"rules": [{"delayMillis": 3600000, "answer": {"text": "too late"}}]}`, 0o644)
	text := strings.Replace(readFile(t, file), `"path": "/agent/agent.json"`, `"path": "/`+folder+`/agent.json"`, 1)
	text = strings.Replace(text, `"--volume=./ledger:/ledger:ro"`, `"--volume=./ledger:/ledger:ro", "--volume=./auditor:/`+folder+`:ro"`, 1)
	writeFile(t, file, text, 0o644)
	cmd := exec.Command(filepath.Join(agents.dir, "bin/agents"), "run", "--quiet", "--agent-file", file, "--prompt", "What did we spend in 2026-03?")
	cmd.Env = append(agents.environ[:len(agents.environ):len(agents.environ)], e.environ...)
	cmd.Stderr = &bytes.Buffer{}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}
