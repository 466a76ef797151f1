package agentfile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/prices"
	"github.com/agents-exe/agents/pkg/provider"
	"github.com/agents-exe/agents/pkg/provider/responses"
	"github.com/agents-exe/agents/pkg/provider/unparsed"
)

// The flavor, the host and the key choose the protocol.
func TestDefaultProtocol(t *testing.T) {
	const chat, own, claude = "*openai.Provider", "*responses.Provider", "*anthropic.Provider"
	tests := []struct {
		name, flavor, url, more string
		choice                  agentfile.ModelChoice
		want                    string // the provider, or the problem
	}{
		{name: "OpenAI's own server", flavor: "OpenAIv1", url: "https://api.openai.com/v1", want: own},
		{name: "no URL", flavor: "openai", want: own},
		{name: "in capitals", flavor: "OpenAIv1", url: "https://API.OpenAI.com/v1", want: own},
		{name: "the key", flavor: "OpenAIv1", more: `,"protocol":"chat"`, want: chat},
		{name: "a compatible server of OpenAIv1", flavor: "OpenAIv1", url: "http://localhost:1/v1", want: chat},
		{name: "Azure", flavor: "OpenAIv1", url: "https://x.openai.azure.com/openai/v1", want: chat},
		{name: "compatible", flavor: "openai-compatible", url: "https://api.openai.com/v1", want: chat},
		{name: "Open Responses", flavor: "ollama", more: `,"protocol":"responses"`, want: own},
		{name: "null", flavor: "ollama", more: `,"protocol":null`, want: chat},
		{name: "ClaudeV1", flavor: "ClaudeV1", want: chat},
		{name: "anthropic", flavor: "anthropic", want: claude},
		{name: "anthropic elsewhere", flavor: "anthropic", url: "http://localhost:1", want: claude},
		{name: "the key with ClaudeV1", flavor: "ClaudeV1", more: `,"protocol":"anthropic"`, want: claude},
		{name: "another server", flavor: "OpenAIv1", more: `,"protocol":"responses"`, choice: agentfile.ModelChoice{URL: "http://localhost:1/v1"}, want: own},
		{name: "another server than the own", flavor: "OpenAIv1", choice: agentfile.ModelChoice{URL: "http://localhost:1/v1"}, want: chat},
		{name: "another flavor", flavor: "ollama", more: `,"protocol":"responses"`, choice: agentfile.ModelChoice{Flavor: "vllm", Name: "m"}, want: chat},
		{name: "unknown", flavor: "ollama", more: `,"protocol":"grpc"`, want: "contents.protocol: "},
		{name: "a member that cannot be replaced", flavor: "OpenAIv1", more: `,"extraBody":{"input":[]}`, want: "contents.extraBody: it cannot replace input"},
		{name: "one that can", flavor: "OpenAIv1", more: `,"extraBody":{"messages":[]}`, want: own},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url := ""
			if tt.url != "" {
				url = fmt.Sprintf(`"modelUrl":%q,`, tt.url)
			}
			write(t, "-- agent.json --\n"+fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":"a","flavor":%q,%s"modelName":"m","apiKeyEnv":"K"%s}}`, tt.flavor, url, tt.more))
			tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Environ: []string{"K=key-0123456789"}, Models: map[string]agentfile.ModelChoice{"": tt.choice}})
			got := ""
			if err != nil {
				got = strings.Join(lines(tree), "\n")
			} else {
				p := tree.Nodes[0].Agent.Provider
				if text, ok := p.(*unparsed.Provider); ok {
					p = text.Provider
				}
				p = p.(*provider.Retry).Provider.(*prices.Provider).Provider
				got = fmt.Sprintf("%T", p)
				if r, ok := p.(*responses.Provider); ok && r.OutputAlone != strings.Contains(r.BaseURL, "localhost") {
					t.Errorf("OutputAlone of %s = %v", r.BaseURL, r.OutputAlone)
				}
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
