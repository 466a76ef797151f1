//go:build unix

package realmcp

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/anthropic"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// anthropicClient prints the content of an answer as Anthropic's library assembles it.
const anthropicClient = `
const {Anthropic} = require("@anthropic-ai/sdk");
const client = new Anthropic({apiKey: "k", baseURL: process.argv[1], maxRetries: 0});
const params = {model: "m", max_tokens: 100, messages: [{role: "user", content: "hi"}]};
const answer = process.argv[2] == "stream" ? client.messages.stream(params).finalMessage() : client.messages.create(params);
answer.then(m => console.log(JSON.stringify(m.content)));
`

// TestAnthropicLibrary compares what goes back to the model after an answer with what
// Anthropic's own library makes of the same answer, which is what its documentation says
// to send back.
func TestAnthropicLibrary(t *testing.T) {
	k := installed(t)
	for _, name := range []string{"text.sse", "thinking-and-parallel-calls.sse", "not-streamed.json", "paused-1.sse"} {
		t.Run(name, func(t *testing.T) {
			var bodies []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				bodies = append(bodies, string(body))
				file, form := name, "text/event-stream"
				if len(bodies) > 1 && !strings.HasPrefix(r.URL.Path, "/library/") {
					file = "paused-2.sse"
				}
				if strings.HasSuffix(file, ".json") {
					form = "application/json"
				}
				answer, err := os.ReadFile(filepath.Join("../../provider/anthropic/testdata", file))
				if err != nil {
					t.Error(err)
				}
				w.Header().Set("Content-Type", form)
				w.Write(answer)
			}))
			defer server.Close()

			p := &anthropic.Provider{Settings: modelhttp.Settings{BaseURL: server.URL, Model: "m", Client: server.Client()}}
			req := &agent.Request{Messages: []agent.Message{agent.UserText("hi")}}
			for len(bodies) < 2 { // a turn that the server paused makes both requests at once
				resp, err := p.Generate(t.Context(), req, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Messages = append(req.Messages, resp.Message, agent.UserText("go on"))
			}
			var sent struct {
				Messages []struct{ Content []map[string]any }
			}
			if err := json.Unmarshal([]byte(bodies[1]), &sent); err != nil || len(sent.Messages) < 2 {
				t.Fatalf("%v: %s", err, bodies[1])
			}

			how := "stream"
			if strings.HasSuffix(name, ".json") {
				how = "create"
			}
			cmd := exec.Command(k.node, "-e", anthropicClient, server.URL+"/library", how)
			cmd.Env = append(k.environ(t.TempDir()), "NODE_PATH="+k.modules)
			out := finish(t, cmd)
			var want []map[string]any
			if err := json.Unmarshal([]byte(out.stdout), &want); err != nil {
				t.Fatalf("%v: %s%s", err, out.stdout, out.stderr)
			}
			for _, block := range want {
				if block["citations"] == nil {
					delete(block, "citations")
				}
			}
			if diff := cmp.Diff(want, sent.Messages[1].Content); diff != "" {
				t.Errorf("content (-Anthropic's library +what is sent back):\n%s", diff)
			}
		})
	}
}
