package agentfile_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/host"
)

const messagesTurn = `data: {"type":"message_start","message":{"model":"claude-opus-5","usage":{"input_tokens":100000,"cache_creation_input_tokens":1000000,"cache_read_input_tokens":2000000,"output_tokens":1}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"I look.","signature":"c2ln"}}

data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"bash_true","input":{}}}

data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":100000}}

data: {"type":"message_stop"}

`

// spoken is a server of both protocols; it notes what was asked.
func spoken(t *testing.T) (url string, paths, bodies *[]string) {
	t.Helper()
	paths, bodies = &[]string{}, &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*paths, *bodies = append(*paths, r.URL.Path), append(*bodies, string(body))
		switch {
		case !strings.HasSuffix(r.URL.Path, "/messages"):
			io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"done"},"finish_reason":"stop"}]}`)
		case strings.Contains(string(body), `"tool_result"`) || !strings.Contains(string(body), `"tools"`):
			io.WriteString(w, `{"type":"message","content":[{"type":"text","text":"done"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)
		default:
			io.WriteString(w, messagesTurn)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, paths, bodies
}

func TestProtocol(t *testing.T) {
	for _, c := range []struct {
		keys, path string
		choice     agentfile.ModelChoice
	}{
		{`"flavor": "anthropic"`, "/v1/messages", agentfile.ModelChoice{}},
		{`"flavor": "Anthropic", "protocol": "chat"`, "/chat/completions", agentfile.ModelChoice{}},
		{`"flavor": "ClaudeV1"`, "/chat/completions", agentfile.ModelChoice{}},
		{`"flavor": "ClaudeV1", "protocol": "anthropic"`, "/v1/messages", agentfile.ModelChoice{}},
		{`"flavor": "openai-compatible", "protocol": "anthropic"`, "/v1/messages", agentfile.ModelChoice{}},
		{`"flavor": "openai-compatible", "protocol": null`, "/chat/completions", agentfile.ModelChoice{}},
		{`"flavor": "anthropic"`, "/v1/messages", agentfile.ModelChoice{Name: "another"}},
		{`"flavor": "openai-compatible", "protocol": "anthropic"`, "/chat/completions", agentfile.ModelChoice{Flavor: "ollama"}},
		{`"flavor": "openai-compatible"`, "/v1/messages", agentfile.ModelChoice{Flavor: "anthropic"}},
	} {
		url, paths, _ := spoken(t)
		write(t, fmt.Sprintf("-- agent.json --\n"+`{"tag": "OpenAIAgentDescription", "contents": {"slug": "a", %s, "modelUrl": %q, "modelName": "m"}}`, c.keys, url))
		if c.choice.Flavor != "" {
			c.choice.URL = url
		}
		tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Models: map[string]agentfile.ModelChoice{"": c.choice}})
		if err != nil {
			t.Fatalf("%s: %v", c.keys, err)
		}
		out, err := host.New(tree).Runner(tree.Root).Run(t.Context(), agent.UserText("go"))
		if err != nil || out.Answer != "done" || fmt.Sprint(*paths) != "["+c.path+"]" {
			t.Errorf("%s and %+v: %q, %v, paths %v, want %s", c.keys, c.choice, out.Answer, err, *paths, c.path)
		}
	}
}

// A run in Anthropic's protocol: its call is answered, its thought goes back, and what was
// written to the cache has its price.
func TestRunInAnthropicsProtocol(t *testing.T) {
	url, _, bodies := spoken(t)
	write(t, fmt.Sprintf(`
-- agent.json --
{"tag": "OpenAIAgentDescription", "contents": {"slug": "a", "flavor": "anthropic", "modelUrl": %q, "modelName": "claude-opus-5", "contextTokens": 400000,
 "price": {"input": 5, "cached": 0.5, "cacheWrite": 6.25, "output": 25}, "toolDirectory": "tools"}}
-- tools/true --
#!/bin/sh
[ "$1" = describe ] && echo '{"slug":"true","description":"","args":[]}' || echo fine
`, url))
	tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := host.New(tree).Runner(tree.Root).Run(t.Context(), agent.UserText("go"))
	if err != nil || out.Answer != "done" || len(*bodies) != 2 {
		t.Fatalf("%+v, %v, %d requests", out, err, len(*bodies))
	}
	// 0.1 million tokens at $5, 1 at $6.25, 2 at $0.50, and 0.1 at $25; then one token at each end.
	if u := out.Total.Usage; u.Cost.String() != "10.25003" || u.CacheWriteTokens != 1_000_000 {
		t.Errorf("usage %+v", u)
	}
	for _, want := range []string{`"max_tokens":100000`, `{"type":"thinking","thinking":"I look.","signature":"c2ln"},{"type":"tool_use","id":"toolu_1"`, `{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"fine\n"}`} {
		if !strings.Contains((*bodies)[1], want) {
			t.Errorf("the second request has no %s:\n%s", want, (*bodies)[1])
		}
	}
}

func TestSystemIsNotAnExtraOfAnthropicsProtocol(t *testing.T) {
	for protocol, want := range map[string]bool{"chat": false, "anthropic": true} {
		write(t, fmt.Sprintf("-- agent.json --\n"+`{"tag": "OpenAIAgentDescription", "contents": {"slug": "a", "flavor": "ollama", "protocol": %q, "modelName": "m", "extraBody": {"system": "x"}}}`, protocol))
		_, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{})
		if refused := err != nil && strings.Contains(err.Error(), "extraBody: it cannot replace system"); refused != want {
			t.Errorf("%s: %v", protocol, err)
		}
	}
}
