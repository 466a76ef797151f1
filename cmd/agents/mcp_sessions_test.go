package main

import (
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
