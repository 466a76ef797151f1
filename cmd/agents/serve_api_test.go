package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

var apiFiles = map[string]string{
	"one.json": `{"tag": "OpenAIAgentDescription", "contents": {"slug": "one", "flavor": "scripted", "script": "script.json", "announce": "answers"}}`,
	"two.json": `{"tag": "OpenAIAgentDescription", "contents": {"slug": "two", "flavor": "scripted", "script": "script.json",
		"inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}`,
	"script.json": `{"rules": [
		{"when": {"role": "user", "prompt": "lost"}, "answer": {"calls": [{"tool": "find", "args": {}}]}},
		{"answer": {"text": "You say: ${lastMessage}"}}
	]}`,
	"tokens": `{"tokens": [{"name": "all", "token": "a-token-for-all-agents"}, {"name": "some", "token": "a-token-for-one-agent", "agents": ["one"]}]}`,
}

// request sends a request and returns status and body. A body makes it a POST.
func (s *site) request(token, path, body string, header ...string) (int, string, http.Header) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), "GET", "http://"+s.addr+path, nil)
	if body != "" {
		r, err = http.NewRequestWithContext(s.t.Context(), "POST", "http://"+s.addr+path, strings.NewReader(body))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token}}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// OpenAI's API and MCP have the agents of the token, and keep sessions.
func TestServeOpenAIAndMCP(t *testing.T) {
	t.Parallel()
	const all, some = "a-token-for-all-agents", "a-token-for-one-agent"
	cmd := agentsCommand(t, apiFiles, "--agent-file", "one.json", "--agent-file", "two.json", "serve", "--listen", "127.0.0.1:0", "--token-file", "tokens")
	s := serveSite(t, cmd)
	if _, body, _ := s.request(all, "/v1/models", ""); !strings.Contains(body, `"id":"one"`) || !strings.Contains(body, `"id":"two"`) {
		t.Errorf("models of all: %s", body)
	}
	if _, body, _ := s.request(some, "/v1/models", ""); !strings.Contains(body, `"id":"one"`) || strings.Contains(body, `"id":"two"`) {
		t.Errorf("models of some: %s", body)
	}
	if status, body, _ := s.request(some, "/v1/responses", `{"model":"two","input":"{\"city\":\"Rome\"}"}`); status != 404 {
		t.Errorf("another agent: status %d: %s", status, body)
	}
	if status, body, _ := s.request("a-token-of-nobody", "/v1/models", ""); status != 401 {
		t.Errorf("another token: status %d: %s", status, body)
	}
	if status, body, _ := s.request(all, "/v1/responses", `{"model":"two","input":"{\"city\":\"Rome\"}"}`); status != 200 || !strings.Contains(body, `Rome`) {
		t.Errorf("an agent with arguments: status %d: %s", status, body)
	}

	status, body, _ := s.request(some, "/v1/chat/completions", `{"model":"one","messages":[{"role":"user","content":"My name is Ada."},{"role":"assistant","content":"Hello."},{"role":"user","content":"What is it?"}]}`)
	var answer struct {
		Agents struct{ Session string }
	}
	if json.Unmarshal([]byte(body), &answer) != nil || status != 200 {
		t.Fatalf("chat: status %d: %s", status, body)
	}
	show := again(t, cmd, "session", "show", answer.Agents.Session)
	text, err := show.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "My name is Ada.") || !strings.Contains(string(text), "You say: What is it?") || !strings.Contains(string(text), "outcome: ok") {
		t.Errorf("session show: %v\n%s", err, text)
	}

	const streams = "application/json, text/event-stream"
	_, body, header := s.request(some, "/mcp", mcpGreeting, "Accept", streams)
	session := header.Get("Mcp-Session-Id")
	if session == "" {
		t.Fatalf("mcp: %s", body)
	}
	if _, body, _ := s.request(some, "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "Accept", streams, "Mcp-Session-Id", session); !strings.Contains(body, `"name":"one"`) || strings.Contains(body, `"name":"two"`) {
		t.Errorf("tools: %s", body)
	}
	call := `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"one","arguments":{"prompt":"hi"}}}`
	if _, body, _ := s.request(some, "/mcp", call, "Accept", streams, "Mcp-Session-Id", session); !strings.Contains(body, "You say: hi") || !strings.Contains(body, `"agents-exe/status":"ok"`) {
		t.Errorf("call: %s", body)
	}
	if status, body, _ := s.request(all, "/mcp", call, "Accept", streams, "Mcp-Session-Id", session); status != 404 {
		t.Errorf("the session of another token: status %d: %s", status, body)
	}

	// A run that waits for its client does not hold up the end of the server.
	const ask = `{"model":"one","tools":[{"type":"function","function":{"name":"find"}}],"messages":[{"role":"user","content":"I am lost."}%s]}`
	_, body, _ = s.request(some, "/v1/chat/completions", fmt.Sprintf(ask, ""))
	var calls struct {
		Choices []struct {
			Finish  string `json:"finish_reason"`
			Message json.RawMessage
		}
	}
	if json.Unmarshal([]byte(body), &calls) != nil || len(calls.Choices) != 1 || calls.Choices[0].Finish != "tool_calls" {
		t.Fatalf("calls: %s", body)
	}
	begin := time.Now()
	_ = s.Process.Signal(syscall.SIGTERM)
	if err := s.Wait(); err != nil || time.Since(begin) > 20*time.Second {
		t.Errorf("the server ended with %v after %s, before its --grace", err, time.Since(begin))
	}
	if list, err := again(t, cmd, "session", "list").Output(); err != nil || !strings.Contains(string(list), "interrupted") {
		t.Errorf("session list: %v\n%s", err, list)
	}

	// The next server begins again from the messages.
	_, id, _ := strings.Cut(body, `"id":"call_`)
	id, _, _ = strings.Cut(id, `"`)
	next := serveSite(t, again(t, cmd, cmd.Args[1:]...))
	found := fmt.Sprintf(`,%s,{"role":"tool","tool_call_id":"call_%s","content":"here"}`, calls.Choices[0].Message, id)
	if _, body, _ := next.request(some, "/v1/chat/completions", fmt.Sprintf(ask, found)); !strings.Contains(body, "You say: here") || !strings.Contains(body, `"rebuilt":true`) {
		t.Errorf("the next server: %s", body)
	}
}

// A run that waits for its client lets others run, and waits for its place again.
func TestServeOpenAIWaitsWithoutAPlace(t *testing.T) {
	t.Parallel()
	s := serveSite(t, agentsCommand(t, apiFiles, "serve", "--agent-file", "one.json", "--listen", "127.0.0.1:0", "--no-token", "--runs", "1", "--queue-time", "500ms"))
	const find = `"tools":[{"type":"function","function":{"name":"find"}}]`
	ask := func(messages string) (int, string) {
		status, body, _ := s.request("", "/v1/chat/completions", `{"model":"one",`+find+`,"messages":[`+messages+`]}`)
		return status, body
	}
	const lost = `{"role":"user","content":"lost"}`
	status, body := ask(lost)
	var first struct {
		Choices []struct{ Message json.RawMessage }
	}
	if err := json.Unmarshal([]byte(body), &first); err != nil || len(first.Choices) != 1 || !strings.Contains(body, "tool_calls") {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := ask(`{"role":"user","content":"hello"}`); status != http.StatusOK || !strings.Contains(body, "You say: hello") {
		t.Errorf("another run meanwhile: %d %s", status, body)
	}
	var call struct {
		Calls []struct{ ID string } `json:"tool_calls"`
	}
	if err := json.Unmarshal(first.Choices[0].Message, &call); err != nil {
		t.Fatal(err)
	}
	results := lost + "," + string(first.Choices[0].Message) + `,{"role":"tool","tool_call_id":"` + call.Calls[0].ID + `","content":"found"}`
	// Another run has the place: there is none for the results, which can be sent again.
	hold := s.dialTo("one", `{"kind":"start","channel":1,"args":{"prompt":"lost"},"tools":[{"name":"find","schema":{"type":"object"}}]}`)
	if _, err := events(t, hold, func(e agent.Event) bool { return e.Kind == agent.EventClientCall }); err != nil {
		t.Fatal(err)
	}
	if status, body := ask(results); status != http.StatusTooManyRequests {
		t.Errorf("results without a place: %d %s", status, body)
	}
	if err := hold.Send(t.Context(), []byte(`{"kind":"cancel"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := events(t, hold, ends); err != nil {
		t.Fatal(err)
	}
	if status, body := ask(results); status != http.StatusOK || !strings.Contains(body, "You say: found") || strings.Contains(body, "rebuilt") {
		t.Errorf("the results: %d %s", status, body)
	}
}
