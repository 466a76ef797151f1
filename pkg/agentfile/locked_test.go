package agentfile

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/google/go-cmp/cmp"
)

// Where a tree is, and in which order a server writes its keys, is not part of a lock.
func TestLocksDoNotDependOnTheMachine(t *testing.T) {
	for _, c := range []struct{ dir, path, want string }{
		{"/home/me/tree", "/home/me/tree/tools/x", "tools/x"},
		{"/home/me/tree", "/home/me/shared/x", "../shared/x"},
		{"/home/me/tree", "/opt/tools/x", "/opt/tools/x"},
		{"/tree", "/shared/x", "/shared/x"},
	} {
		if got := relative(c.dir, c.path); got != c.want {
			t.Errorf("relative(%q, %q) = %q, want %q", c.dir, c.path, got, c.want)
		}
	}
	one := canonical(json.RawMessage(`{"type": "object", "properties": {"b": {"maximum": 1e400}, "a": {"const": "<"}}}`))
	two := canonical(json.RawMessage(`{"properties":{"a":{"const":"<"},"b":{"maximum":1e400}},"type":"object"}`))
	if string(one) != string(two) || string(one) != `{"properties":{"a":{"const":"<"},"b":{"maximum":1e400}},"type":"object"}` {
		t.Errorf("canonical = %s and %s, want the same", one, two)
	}
}

// A variable with a key is not passed on, however it spells the key.
func TestVariablesWithAKeyAreRemoved(t *testing.T) {
	l := newLoader(Options{Environ: []string{"A=https://u:sk-12%2f34%22567@host", `B={"k":"sk-12\/34\u0022567"}`, `C=sk-12/34"567`, "D=harmless", `E=sk-12/34"567`}})
	l.tree.secrets = append(l.tree.secrets, config.NewSecret(`sk-12/34"567`))
	if diff := cmp.Diff([]string{"D=harmless", `E=sk-12/34"567`}, l.environ([]string{"E"})); diff != "" {
		t.Errorf("environ (-want +got):\n%s", diff)
	}
}

// A program that is no tool is compared with the lock too before it runs, also if the file that
// names it is read before the one that says "locked".
func TestProgramsMatchTheLockOfALaterFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"agent.json":       `{"tag":"OpenAIAgentDescription","contents":{"slug":"root","step":"step.sh","accept":[{"run":"judge.sh"}],"toolDirectory":"tools"}}`,
		"tools/agent.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"sub","locked":true,"flavor":"scripted","script":"script.json"}}`, "tools/script.json": `{"rules":[{"answer":{"text":"x"}}]}`,
		"step.sh": "#!/bin/sh\n", "judge.sh": "#!/bin/sh\n",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "agent.json")
	_, lock := Survey(file, Options{})
	if _, err := WriteLock(t.Context(), file, lock); err != nil {
		t.Fatal(err)
	}
	tree, err := Load(t.Context(), file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	n := tree.Nodes[0]
	checks := map[string]func() error{"step.sh": n.step.Verify, "judge.sh": func() error {
		_, err := n.Agent.Accept[0].Tool.Call(t.Context(), &agent.Invocation{})
		return err
	}}
	for name, check := range checks {
		if err := check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n:\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := check(); err == nil || !strings.Contains(err.Error(), "has changed") {
			t.Errorf("%s after a change: %v, want that it has changed", name, err)
		}
	}
}
