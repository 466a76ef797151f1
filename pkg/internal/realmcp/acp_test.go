//go:build unix

package realmcp

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The example client and the example agent of the Agent Client Protocol's SDK. The client
// starts its agent with npx, the agent is a conversation that is written in advance.
const (
	acpClient = "@agentclientprotocol/sdk/dist/examples/client.js"
	acpAgent  = "@agentclientprotocol/sdk/dist/examples/agent.js"
)

// acpTree writes an agent that writes a file and asks the SDK's example agent.
func acpTree(t *testing.T, k *installation) string {
	t.Helper()
	dir := t.TempDir()
	command, err := json.Marshal([]string{k.node, k.module(acpAgent)})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"agent.json":         `{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","toolDirectory":"tools"}}`,
		"script.json":        `{"rules":[{"when":{"role":"user"},"answer":{"text":"I begin.","calls":[{"tool":"expert_example","args":{"prompt":"go"}}]}},{"answer":{"text":"It said: ${result.expert_example}"}}]}`,
		"tools/example.json": `{"tag":"AcpAgent","contents":{"slug":"example","command":` + string(command) + `}}`,
		"bin/npx":            "#!/bin/sh\nexec " + k.agents + " acp --no-session --agent-file agent.json\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestACPExamples runs the example client with an agent whose sub-agent is the example
// agent: the permission that this asks for reaches the client.
func TestACPExamples(t *testing.T) {
	k := installed(t)
	for answer, want := range map[string]string{
		"1": "It said:  Perfect! I've successfully updated the configuration.",
		"4": "It said:  I understand you prefer not to make that change.",
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			dir := acpTree(t, k)
			cmd := exec.Command(k.node, k.module(acpClient))
			cmd.Dir, cmd.Stdin = dir, strings.NewReader(answer+"\n")
			cmd.Env = append(k.environ(dir), "PATH="+filepath.Join(dir, "bin")+":"+filepath.Dir(k.node)+":/usr/bin:/bin")
			got := finish(t, cmd)
			solid := func(s string) string { return strings.Join(strings.Fields(s), "") } // pieces are lines
			text := solid(got.stdout)
			for _, part := range []string{"Connected to agent (protocol v1)", "I begin.", "🔧 expert_example prompt=go (pending)", "🔧 example: edit", "Permission requested: example: edit",
				"1. Allow (allow_once)", "4. Reject (reject_once)", want, "Agent completed with: end_turn"} {
				before, rest, ok := strings.Cut(text, solid(part))
				if !ok {
					t.Errorf("the client does not print %q behind %q; it printed:\n%s\n%s", part, tail(before), got.stdout, got.stderr)
					break
				}
				text = rest
			}
			if got.stderr != "" {
				t.Errorf("stderr: %s", got.stderr)
			}
		})
	}
}

// TestACPExampleAgent asks the example agent without an editor.
func TestACPExampleAgent(t *testing.T) {
	k := installed(t)
	dir := acpTree(t, k)
	cmd := exec.Command(k.agents, "run", "--no-session", "--agent-file", "agent.json", "-p", "go")
	cmd.Dir, cmd.Env = dir, k.environ(dir)
	got := finish(t, cmd)
	if !strings.HasPrefix(got.stdout, "It said:  Perfect!") || !strings.Contains(got.stderr, "✓ example: edit") {
		t.Errorf("%s%s", got.stdout, got.stderr)
	}
}
