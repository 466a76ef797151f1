package observe_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/observe"
)

// TestTranscripts: each session has a file, named by its time; what a text holds cannot
// control a terminal.
func TestTranscripts(t *testing.T) {
	dir := t.TempDir()
	sink := &observe.Transcripts{Dir: dir}
	at := time.Date(2026, 11, 22, 14, 57, 38, 123e6, time.UTC)
	said := func(role agent.Role, text string, calls ...agent.ToolCall) *agent.Message {
		return &agent.Message{Role: role, Parts: []agent.Part{agent.Text(text)}, Calls: calls}
	}
	events := []agent.Event{
		{Kind: agent.EventSession, Session: "s", Agent: "boss"},
		{Kind: agent.EventSetup, Session: "s", Agent: "boss", Model: "m", System: "Lead.\n"},
		{Kind: agent.EventMessage, Session: "s", Agent: "boss", Message: said(agent.RoleUser, "go")},
		{Kind: agent.EventText, Session: "s", Agent: "boss", Text: "pie"},
		{Kind: agent.EventAnswer, Session: "s", Agent: "boss", Message: said(agent.RoleAssistant, "", agent.ToolCall{ID: "1", Name: "ask", Args: `{"a":[1]}`}, agent.ToolCall{ID: "2", Name: "x", Args: "{cut"})},
		{Kind: agent.EventSession, Session: "s2", Agent: "../p t", Parent: "s.1.1"},
		{Kind: agent.EventSession, Session: "s3", Agent: "../p t", Parent: "s.1.2"},
		{Kind: agent.EventEnd, Session: "s2", Agent: "../p t", Status: agent.StatusFailed, Error: "no \x1b[31mink"},
		{Kind: agent.EventCallEnded, Session: "s", Agent: "boss", Tool: "ask", CallID: "1", Result: &agent.ToolResult{Parts: []agent.Part{agent.Text("four"), {Kind: agent.PartMedia, MIME: "image/png", Name: "a.png", Data: []byte("123")}}}},
		{Kind: agent.EventEnd, Session: "s", Agent: "boss", Status: agent.StatusOK},
		{Kind: agent.EventMessage, Session: "s", Agent: "boss", Message: said(agent.RoleUser, "again")},
	}
	for _, e := range events {
		e.Time = at
		sink.Observe(e)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		got[filepath.Base(f)] = string(text)
	}
	const head = ", 2026-11-22 14:57:38 UTC\n"
	want := map[string]string{
		"20261122-145738.123-boss.txt": "agent boss, session s" + head +
			"\n--- system prompt of m, 14:57:38\nLead.\n\n--- user, 14:57:38\ngo\n\n--- assistant, 14:57:38\n" +
			"\n--- call of ask [1], 14:57:38\n{\n  \"a\": [\n    1\n  ]\n}\n\n--- call of x [2], 14:57:38\n{cut\n" +
			"\n--- result of ask [1], 14:57:38\nfour\n(attached: a.png image/png, 3 bytes)\n\n--- end: ok, 14:57:38\n",
		"20261122-145738.123-boss-2.txt":   "agent boss, session s" + head + "\n--- user, 14:57:38\nagain\n",
		"20261122-145738.123-___p_t.txt":   "agent ../p t, session s2, for the call s.1.1" + head + "\n--- end: failed, 14:57:38\nno ink\n",
		"20261122-145738.123-___p_t-2.txt": "agent ../p t, session s3, for the call s.1.2" + head,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestTranscriptsFail: a folder that is gone is an error of Close, and a run goes on.
func TestTranscriptsFail(t *testing.T) {
	sink := &observe.Transcripts{Dir: filepath.Join(t.TempDir(), "gone")}
	for range 2 {
		sink.Observe(agent.Event{Kind: agent.EventSession, Session: "s", Agent: "a"})
	}
	if err := sink.Close(); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("Close = %v", err)
	}
}
