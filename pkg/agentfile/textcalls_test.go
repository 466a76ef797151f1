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

// TestTextCalls: calls in the text count with the flavors of local servers, unless the
// file says otherwise, and with the others if it says so.
func TestTextCalls(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text := `[TOOL_CALLS]bash_true[ARGS]{}`
		if strings.Contains(string(body), `"role":"tool"`) {
			text = "called"
		}
		fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`, text)
	}))
	defer server.Close()
	for _, c := range []struct {
		flavor, key string
		count       bool
	}{
		{"ollama", "", true},
		{"vllm", "", true},
		{"llamacpp", "", true},
		{"lmstudio", `"textCalls": null,`, true},
		{"ollama", `"textCalls": false,`, false},
		{"openai-compatible", "", false},
		{"openai-compatible", `"textCalls": true,`, true},
		{"OpenAIv1", `"text-calls": true,`, true},
	} {
		write(t, fmt.Sprintf(`
-- agent.json --
{"tag": "OpenAIAgentDescription", "contents": {"slug": "a", "flavor": %q, %s "modelUrl": %q, "modelName": "m", "toolDirectory": "tools"}}
-- tools/true --
#!/bin/sh
echo '{"slug":"true","description":"","args":[]}'
`, c.flavor, c.key, server.URL))
		tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		out, err := host.New(tree).Runner(tree.Root).Run(t.Context(), agent.UserText("go"))
		if err != nil {
			t.Fatal(err)
		}
		if called := out.Answer == "called"; called != c.count {
			t.Errorf("flavor %s, %s the answer is %q", c.flavor, c.key, out.Answer)
		}
	}
}
