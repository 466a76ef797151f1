//go:build unix

package realmcp

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOpenAIClient runs the example for the npm package openai: streamed chat completions
// and responses, with a tool of the client. Its README shows what it prints.
func TestOpenAIClient(t *testing.T) {
	k := installed(t)
	url := k.serveAgents(t, "--agent-file", "../../../examples/openai-client/agent.json", "--no-token")
	client, err := filepath.Abs("../../../examples/openai-client/client.cjs")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(k.node, client, url+"/v1")
	cmd.Env = append(k.environ(t.TempDir()), "NODE_PATH="+k.modules)
	got := finish(t, cmd)
	readme, err := os.ReadFile("../../../examples/openai-client/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(string(readme), "client.cjs http://127.0.0.1:8420/v1\n")
	want, _, _ = strings.Cut(want, "```")
	if diff := cmp.Diff(want, got.stdout); diff != "" || got.stderr != "" {
		t.Errorf("the client prints (-want +got):\n%s%s", diff, got.stderr)
	}
}
