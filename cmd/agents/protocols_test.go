package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A protocolServer is a server of models in one protocol: calls is the turn that answers a
// prompt, with reasoning and two calls of bash_weather, and answer the one after their
// results. In calls, %d makes the ids of calls differ between turns.
type protocolServer struct {
	name, path, calls, answer string
	// kept is in each request for each turn whose reasoning is sent back.
	kept string

	mu     sync.Mutex
	bodies []string
}

const reasoningItem = `{"id":"rs_1","type":"reasoning","encrypted_content":"gAAAA<&>==","summary":[{"type":"summary_text","text":"I look."}]}`

func protocolServers() []*protocolServer {
	return []*protocolServer{
		{
			name: "chat", path: "/v1/chat/completions",
			calls: `{"choices":[{"index":0,"delta":{"reasoning_content":"I look.","tool_calls":[` +
				`{"index":0,"id":"call_%[1]d0","function":{"name":"bash_weather","arguments":"{\"city\":\"Rome\"}"}},` +
				`{"index":1,"id":"call_%[1]d1","function":{"name":"bash_weather","arguments":"{\"city\":\"Oslo\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens":5}}`,
			answer: `{"choices":[{"index":0,"delta":{"content":"Both are sunny."},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens":5}}`,
			kept:   `"reasoning_content":"I look."`,
		},
		{
			name: "responses", path: "/v1/responses",
			calls: `{"type":"response.completed","response":{"status":"completed","output":[` + reasoningItem + `,` +
				`{"type":"function_call","id":"fc_0","call_id":"call_%[1]d0","name":"bash_weather","arguments":"{\"city\":\"Rome\"}"},` +
				`{"type":"function_call","id":"fc_1","call_id":"call_%[1]d1","name":"bash_weather","arguments":"{\"city\":\"Oslo\"}"}],"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":5}}}`,
			answer: `{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","id":"msg_1","phase":"final_answer","content":[{"type":"output_text","text":"Both are sunny."}]}],"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":5}}}`,
			kept:   reasoningItem + `,{"type":"function_call","id":"fc_0"`,
		},
		{
			name: "anthropic", path: "/v1/messages",
			calls: `{"type":"message","content":[{"type":"thinking","thinking":"I look.","signature":"c2ln"},` +
				`{"type":"tool_use","id":"call_%[1]d0","name":"bash_weather","input":{"city":"Rome"}},` +
				`{"type":"tool_use","id":"call_%[1]d1","name":"bash_weather","input":{"city":"Oslo"}}],"stop_reason":"tool_use","usage":{"input_tokens":6,"cache_read_input_tokens":4,"output_tokens":5}}`,
			answer: `{"type":"message","content":[{"type":"text","text":"Both are sunny."}],"stop_reason":"end_turn","usage":{"input_tokens":6,"cache_read_input_tokens":4,"output_tokens":5}}`,
			kept:   `{"type":"thinking","thinking":"I look.","signature":"c2ln"}`,
		},
	}
}

func (s *protocolServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.bodies = append(s.bodies, string(body))
	s.mu.Unlock()
	if r.URL.Path != s.path {
		w.WriteHeader(404)
		return
	}
	answer := s.answer
	if prompts := strings.Count(string(body), "PROMPT"); strings.Count(string(body), "sunny: ") < 2*prompts {
		answer = fmt.Sprintf(s.calls, prompts)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\n\n", answer)
}

func (s *protocolServer) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies[len(s.bodies)-1]
}

const weatherTool = `#!/bin/sh
[ "$1" = describe ] && echo '{"slug":"weather","description":"tells the weather","args":[{"name":"city","description":"c","type":"string","backing_type":"string","arity":"single","mode":"dashdashspace"}]}' || echo "sunny: $*"
`

// The same run is made in each protocol, continued by another process, recorded, replayed,
// and repeated as a test without the server. Recordings do not depend on the protocol.
func TestRunsInEachProtocol(t *testing.T) {
	t.Parallel()
	recorded := map[string]string{}
	for _, model := range protocolServers() {
		t.Run(model.name, func(t *testing.T) { recorded[model.name] = runInProtocol(t, model) })
	}
	if chat := recorded["chat"]; chat == "" || recorded["responses"] != chat || recorded["anthropic"] != chat {
		t.Errorf("the recorded tests are %q", recorded)
	}
}

// runInProtocol returns the recorded test.
func runInProtocol(t *testing.T, model *protocolServer) string {
	server := httptest.NewServer(model)
	defer server.Close()
	cmd := agentsCommand(t, map[string]string{
		"agent.json":    fmt.Sprintf(`{"tag": "OpenAIAgentDescription", "contents": {"slug": "a", "flavor": "openai-compatible", "protocol": "%s", "modelUrl": "%s/v1", "modelName": "m", "maxParallelTools": 1, "toolDirectory": "tools"}}`, model.name, server.URL),
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
	if got := agents("run", "--agent-file", "agent.json", "--prompt", "PROMPT"); got != want {
		t.Errorf("the answer is %q", got)
	}
	if got := agents("run", "--agent-file", "agent.json", "--continue", "--prompt", "PROMPT"); got != want {
		t.Errorf("the second answer is %q", got)
	}
	if body := model.last(); strings.Count(body, model.kept) != 2 || model.name == "responses" && !strings.Contains(body, `"phase":"final_answer"`) {
		t.Errorf("the request of the other process does not have all reasoning: %s", body)
	}
	agents("run", "--agent-file", "agent.json", "--prompt", "PROMPT", "--record", "rec")
	agents("test", "--record", "a.agenttest.json", "--agent-file", "agent.json", "--prompt", "PROMPT")
	server.Close()
	sessions, err := filepath.Glob(filepath.Join(cmd.Dir, "rec", "*"))
	if err != nil || len(sessions) != 1 {
		t.Fatal(sessions, err)
	}
	if got := agents("replay", sessions[0]); got != want {
		t.Errorf("the replay says %q", got)
	}
	agents("test", "a.agenttest.json")
	test, err := os.ReadFile(filepath.Join(cmd.Dir, "a.agenttest.json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(test)
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
