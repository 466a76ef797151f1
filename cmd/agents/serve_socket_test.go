package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/source/remote"
)

// A server on a socket is found and used by other programs of its user, without a token,
// and ends when they have gone.
func TestServeSocket(t *testing.T) {
	t.Parallel()
	cmd := agentsCommand(t, servedFiles, "serve", "--agent-file", "agent.json", "--listen", "unix:run/s", "--until-idle", "--approval", "never")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	list := filepath.Join(cmd.Dir, "state", "agents", "servers")
	waitFor(t, func() bool { return len(remote.Locals(list)) == 1 })
	l := remote.Locals(list)[0]
	socket := filepath.Join(cmd.Dir, "run", "s")
	if l.PID != cmd.Process.Pid || l.Address != "unix:"+socket || strings.Join(l.Agents, " ") != "counter" || l.TokenFile != "" || l.Folder != cmd.Dir {
		t.Errorf("the list has %+v", l)
	}
	for path, want := range map[string]os.FileMode{socket: 0o600, filepath.Dir(socket): 0o700, list: 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has the mode %v (%v), want %v", path, info.Mode(), err, want)
		}
	}
	s := &remote.Server{URL: l.Address}
	var ws interface{ Close() error }
	for runs, err := range s.FollowRuns(t.Context()) { // the server is not idle meanwhile
		if err != nil {
			t.Fatal(err)
		}
		if ws != nil {
			if len(runs) > 0 && runs[0].State == "ok" && runs[0].Prompt == "count" {
				break
			}
			continue
		}
		agents, err := s.Agents(t.Context())
		if err != nil || len(agents) != 1 || len(agents[0].Tools) != 2 {
			t.Fatalf("Agents: %+v, %v", agents, err)
		}
		c, err := s.Dial(t.Context(), agents[0].Name)
		if err != nil {
			t.Fatal(err)
		}
		held := channel.Open(c, c, agent.Start{Args: json.RawMessage(`{"prompt":"count"}`)})
		ws = held
		for e, err := range held.Events() {
			if err != nil {
				t.Fatal(err)
			}
			if waits(e) {
				break
			}
		}
		_ = held.Close()
		writeFiles(t, cmd.Dir, map[string]string{"go": ""})
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the idle server: %v\n%s", err, &stderr)
	}
	for _, path := range []string{socket, filepath.Join(list, "*.json")} {
		if left, _ := filepath.Glob(path); left != nil {
			t.Errorf("it left %v", left)
		}
	}
}

// A socket that others could use, or that has a server, is refused; that of a server that
// was killed is used again.
func TestServeSocketRefuses(t *testing.T) {
	first := agentsCommand(t, servedFiles, "serve", "--agent-file", "agent.json", "--listen", "unix:run/s")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { first.Process.Kill(); first.Wait() })
	list := filepath.Join(first.Dir, "state", "agents", "servers")
	waitFor(t, func() bool { return len(remote.Locals(list)) == 1 })
	if err := os.Chmod(first.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for listen, want := range map[string]string{
		"unix:run/s":                           "another server listens there",
		"unix:s":                               "others may use the folder",
		"unix:run/" + strings.Repeat("x", 100): "invalid argument",
	} {
		out, err := again(t, first, "serve", "--agent-file", "agent.json", "--listen", listen).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("--listen %s: %v\n%s, want %s", listen, err, out, want)
		}
	}
	first.Process.Kill()
	first.Wait()
	if l := remote.Locals(list); len(l) > 0 {
		t.Errorf("a server that was killed is listed: %+v", l)
	}
	second := again(t, first, first.Args[1:]...)
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { second.Process.Kill(); second.Wait() })
	waitFor(t, func() bool { return len(remote.Locals(list)) == 1 })
}
