package agentfile_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agentfile"
)

// lockTree is a tree in a new folder, with a program in a PATH of its own.
func lockTree(t *testing.T) (file string, opts agentfile.Options) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tree/agent.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json",
			"bashToolboxes":[{"tag":"SingleTool","contents":{"path":"hi.sh"}},{"tag":"SingleTool","contents":{"path":"/opt/tool","runner":["wrap","-x","run.sh"]}}],
			"mcpServers":[{"tag":"McpSimpleBinary","contents":{"name":"s","executable":"interpreter","args":["server.py","--fast"],"cwd":"."}}]}}`,
		"tree/script.json": `{"rules":[{"answer":{"text":"x"}}]}`,
		"tree/hi.sh":       "#!/bin/sh\necho '{\"slug\":\"hi\",\"description\":\"d\",\"args\":[]}'\n",
		"tree/run.sh":      "",
		"tree/server.py":   "",
		"bin/interpreter":  "#!/bin/sh\n",
		"bin/wrap":         "#!/bin/sh\n",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	tree := filepath.Join(dir, "tree")
	return filepath.Join(tree, "agent.json"), agentfile.Options{Environ: []string{"PATH=" + filepath.Join(dir, "bin")}, WorkDir: tree}
}

func TestSurveyNamesWhatDecidesWhatRuns(t *testing.T) {
	file, opts := lockTree(t)
	_, lock := agentfile.Survey(file, opts)
	kinds := map[string]string{}
	for path, f := range lock.Files {
		if !strings.HasPrefix(f.Digest, "sha256:") {
			t.Errorf("digest of %s = %q", path, f.Digest)
		}
		kinds[path] = f.Kind
	}
	want := map[string]string{"agent.json": "agent", "script.json": "script", "hi.sh": "tool", "run.sh": "program", "server.py": "program"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for _, name := range []string{"interpreter", "wrap"} {
		if !strings.HasPrefix(lock.Programs[name], "sha256:") {
			t.Errorf("programs = %v, want %s", lock.Programs, name)
		}
	}
	if diff := cmp.Diff(map[string]agentfile.LockedServer{"agent.json: s": {Command: []string{"interpreter", "server.py", "--fast"}}}, lock.Servers); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]agentfile.LockedRunner{"agent.json: /opt/tool": {Command: []string{"wrap", "-x", "run.sh"}}}, lock.Runners); diff != "" {
		t.Errorf("runners (-want +got):\n%s", diff)
	}
}

// A program of the system is part of a lock; what a person trusts is the tree.
func TestProgramsInPathAreLockedAndNotTrusted(t *testing.T) {
	file, opts := lockTree(t)
	_, lock := agentfile.Survey(file, opts)
	if _, err := agentfile.WriteLock(file, lock); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(file), "../bin/interpreter")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho other\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	opts.Trusted = lock
	tree, err := agentfile.Load(context.Background(), file, opts)
	if err != nil {
		t.Errorf("Load of a trusted tree = %v", err)
	}
	tree.Close()
	opts.Trusted, opts.Locked = nil, true
	_, err = agentfile.Load(context.Background(), file, opts)
	drift, ok := errors.AsType[*agentfile.DriftError](err)
	if !ok || !cmp.Equal(drift.Changes, []string{"changed: program interpreter"}) {
		t.Errorf("Load of a locked tree = %v, want the program", err)
	}
}

// A changed root file is not interpreted: what it names is compared as the lock names it.
func TestAChangedAgentFileIsNotInterpreted(t *testing.T) {
	file, opts := lockTree(t)
	_, lock := agentfile.Survey(file, opts)
	for name, text := range map[string]string{"agent.json": `{"not even an agent`, "hi.sh": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	opts.Trusted = lock
	tree, err := agentfile.Load(context.Background(), file, opts)
	drift, ok := errors.AsType[*agentfile.DriftError](err)
	if want := []string{"changed: agent agent.json", "changed: tool hi.sh"}; !ok || !cmp.Equal(drift.Changes, want) {
		t.Errorf("Load = %v, want %q", err, want)
	}
	if len(tree.Problems) > 0 || tree.Root != nil {
		t.Errorf("problems %v, root %v: the file was interpreted", tree.Problems, tree.Root)
	}
}
