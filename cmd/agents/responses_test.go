package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A responsesServer answers a prompt with reasoning and two calls, and their results with
// text; it keeps the bodies of the requests.
type responsesServer struct {
	mu     sync.Mutex
	bodies []string
}

const reasoningItem = `{"id":"rs_1","type":"reasoning","encrypted_content":"gAAAA<&>==","summary":[]}`

func (s *responsesServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.bodies = append(s.bodies, string(body))
	s.mu.Unlock()
	output := `{"type":"message","id":"msg_1","phase":"final_answer","content":[{"type":"output_text","text":"Both are sunny."}]}`
	if 2*strings.Count(string(body), `"role":"user"`) > strings.Count(string(body), `"function_call_output"`) {
		output = reasoningItem
		for i, city := range []string{"Rome", "Oslo"} {
			output += fmt.Sprintf(`,{"type":"function_call","id":"fc_%d","call_id":"call_%d","name":"bash_weather","arguments":"{\"city\":\"%s\"}"}`, i, len(body)+i, city)
		}
	}
	if r.URL.Path != "/v1/responses" {
		w.WriteHeader(404)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"model\":\"gpt-5\",\"output\":[%s],\"usage\":{\"input_tokens\":10,\"input_tokens_details\":{\"cached_tokens\":4},\"output_tokens\":5,\"output_tokens_details\":{\"reasoning_tokens\":3}}}}\n\n", output)
}

func (s *responsesServer) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies[len(s.bodies)-1]
}

const weatherTool = `#!/bin/sh
[ "$1" = describe ] && echo '{"slug":"weather","description":"tells the weather","args":[{"name":"city","description":"c","type":"string","backing_type":"string","arity":"single","mode":"dashdashspace"}]}' || echo "sunny: $*"
`

// A run in the Responses protocol is continued by another process, recorded, replayed and
// repeated as a test, without the server.
func TestARunInTheResponsesProtocol(t *testing.T) {
	t.Parallel()
	model := &responsesServer{}
	server := httptest.NewServer(model)
	defer server.Close()
	cmd := agentsCommand(t, map[string]string{
		"agent.json":    fmt.Sprintf(`{"tag": "OpenAIAgentDescription", "contents": {"slug": "a", "flavor": "openai-compatible", "protocol": "responses", "modelUrl": "%s/v1", "modelName": "gpt-5", "toolDirectory": "tools"}}`, server.URL),
		"tools/weather": weatherTool,
	})
	agents := func(args ...string) string {
		t.Helper()
		c := exec.Command(cmd.Path, args...)
		c.Args[0], c.Dir, c.Env = "agents", cmd.Dir, cmd.Env
		var said strings.Builder
		c.Stderr = &said
		out, err := c.Output()
		if err != nil {
			t.Fatalf("agents %v: %v: %s%s", args, err, out, said.String())
		}
		return string(out)
	}
	const want = "Both are sunny.\n"
	if got := agents("run", "--agent-file", "agent.json", "--prompt", "go"); got != want {
		t.Errorf("the answer is %q", got)
	}
	if got := agents("run", "--agent-file", "agent.json", "--continue", "--prompt", "again"); got != want {
		t.Errorf("the second answer is %q", got)
	}
	if body := model.last(); strings.Count(body, reasoningItem+`,{"type":"function_call","id":"fc_0"`) != 2 || !strings.Contains(body, `"phase":"final_answer"`) {
		t.Errorf("the request of the other process has not all reasoning: %s", body)
	}
	agents("run", "--agent-file", "agent.json", "--prompt", "go", "--record", "rec")
	agents("test", "--record", "a.agenttest.json", "--agent-file", "agent.json", "--prompt", "go")
	server.Close()
	sessions, err := filepath.Glob(filepath.Join(cmd.Dir, "rec", "*"))
	if err != nil || len(sessions) != 1 {
		t.Fatal(sessions, err)
	}
	if got := agents("replay", sessions[0]); got != want {
		t.Errorf("the replay says %q", got)
	}
	agents("test", "a.agenttest.json")
}

// Our own server speaks Responses too: an agent there is the model of one here, whose tools
// are those of the request.
func TestAnAgentIsTheModelOfAnother(t *testing.T) {
	t.Parallel()
	s := serveSite(t, agentsCommand(t, map[string]string{
		"inner.json": `{"tag": "OpenAIAgentDescription", "contents": {"slug": "inner", "flavor": "scripted", "script": "script.json", "announce": "answers"}}`,
		"script.json": `{"rules": [
			{"when": {"role": "user"}, "answer": {"text": "I ask.", "calls": [{"tool": "bash_weather", "args": {"city": "Oslo"}}, {"tool": "bash_weather", "args": {"city": "Rome"}}]}},
			{"answer": {"text": "{\"weather\": \"warm\"}"}}]}`,
	}, "--agent-file", "inner.json", "serve", "--listen", "127.0.0.1:0", "--no-token"))
	for _, keys := range []string{"", `, "outputSchema": {"type": "object", "properties": {"weather": {"type": "string"}}, "required": ["weather"]}`} {
		cmd := agentsCommand(t, map[string]string{
			"agent.json":    fmt.Sprintf(`{"tag": "OpenAIAgentDescription", "contents": {"slug": "a", "flavor": "openai-compatible", "protocol": "responses", "modelUrl": "http://nowhere.invalid/v1", "modelName": "inner", "toolDirectory": "tools"%s}}`, keys),
			"tools/weather": weatherTool,
		}, "run", "--agent-file", "agent.json", "--model-url", "http://"+s.addr+"/v1", "--prompt", "Is it warm?")
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), `{"weather": "`) || strings.Count(said.String(), "✓ bash_weather") != 2 {
			t.Errorf("%s: %s%s, %v", keys, out, said.String(), err)
		}
	}
}
