package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
)

func TestMCPServerShowsSessionsOnlyWhenAsked(t *testing.T) {
	dir := t.TempDir()
	m := agent.UserText("What is in the archive?")
	err := session.Copy(session.Create(dir, session.Options{}), func(yield func(agent.Event, error) bool) {
		_ = yield(agent.Event{Kind: agent.EventSession, Session: "kept-1", Agent: "lead"}, nil) &&
			yield(agent.Event{Kind: agent.EventMessage, Session: "kept-1", Agent: "lead", Message: &m}, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(s *mcpSite, method, params string) string {
		got, _ := s.post(t, t.Context(), `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
		return got
	}
	s := startSite(t, readingFiles(), "--session-dir", dir, "--expose", "sessions")
	if got := ask(s, "resources/list", "{}"); !strings.Contains(got, `"agents://session/kept-1"`) || !strings.Contains(got, `"agents://agent/top"`) {
		t.Errorf("resources: %s", got)
	}
	if got := ask(s, "resources/read", `{"uri":"agents://session/kept-1"}`); !strings.Contains(got, "# Session `kept-1`") || !strings.Contains(got, "What is in the archive?") {
		t.Errorf("the session: %s", got)
	}
	for _, name := range []string{"nothing", "..", "%2e%2e%2f" + filepath.Base(dir) + "%2fkept-1", "kept-1%2fjournal.jsonl", "latest", "kept"} {
		if got := ask(s, "resources/read", `{"uri":"agents://session/`+name+`"}`); !strings.Contains(got, `"error"`) {
			t.Errorf("%s can be read: %s", name, got)
		}
	}
	s = startSite(t, readingFiles(), "--session-dir", dir)
	if got := ask(s, "resources/list", "{}"); strings.Contains(got, "agents://session/") {
		t.Errorf("nobody asked for sessions: %s", got)
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
