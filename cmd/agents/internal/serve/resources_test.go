package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/servers"
	"github.com/agents-exe/agents/pkg/edge/mcpserver"
	"github.com/agents-exe/agents/pkg/edge/serve"
)

func TestPublicHidesWhatMayBeSecret(t *testing.T) {
	in := map[string]any{
		"apiKeyId": "openai", "password": "p", "modelUrl": "https://me:pw@host/v1?key=k", "slug": "s",
		"headers": map[string]any{"X": "h"}, "toolEnv": []any{"GITHUB_TOKEN", "HOME"},
		"args": []any{"--token", "t", "--name=n", "--api-key=k", "-v", "x"},
	}
	want := map[string]any{
		"apiKeyId": "openai", "password": hidden, "modelUrl": "https://me:secret@host/v1?secret", "slug": "s",
		"headers": map[string]any{"X": hidden}, "toolEnv": []any{"GITHUB_TOKEN", "HOME"},
		"args": []any{"--token", hidden, "--name=" + hidden, "--api-key=" + hidden, "-v", hidden},
	}
	if got := public("", in); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("public = %v, want %v", got, want)
	}
}

// TestPublicFileHidesTokens: a token in args or extraBody has no mark.
func TestPublicFileHidesTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.json")
	text := `{"tag":"OpenAIAgentDescription","contents":{"slug":"a","flavor":"openai","modelName":"m","extraBody":{"user":{"n":"tok-1"}},"mcpServers":[
 {"tag":"McpSimpleBinary","contents":{"name":"s","executable":"x","args":["-y","--token","tok-2","--key=tok-3","tok-4","-Htok-5","-e","A=tok-6","--verbose"]}}]}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := publicFile(path)
	if err != nil || strings.Contains(got, "tok-") {
		t.Errorf("publicFile = %v\n%s", err, got)
	}
	for _, want := range []string{`"-y"`, `"--token"`, `"--key=[secret]"`, `"--verbose"`, `"user": "[secret]"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
}

// TestDefaultsAreThoseOfTheServers: `agents` shows them without linking the servers.
func TestDefaultsAreThoseOfTheServers(t *testing.T) {
	shown := []any{servers.DefaultRuns, servers.DefaultQueue, servers.DefaultQueueTime, servers.DefaultConnections, servers.DefaultGrace, servers.DefaultLinger, servers.DefaultTaskAfter}
	for i, want := range []any{serve.DefaultRuns, serve.DefaultQueue, serve.DefaultQueueTime, serve.DefaultConnections, serve.DefaultGrace, mcpserver.DefaultLinger, mcpserver.DefaultTaskAfter} {
		if shown[i] != want {
			t.Errorf("default %d is %v, want %v", i, shown[i], want)
		}
	}
}
