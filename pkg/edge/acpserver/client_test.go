package acpserver

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
)

// TestQuestionsAreForms: those of MCP servers, those of tools, and pages to open.
func TestQuestionsAreForms(t *testing.T) {
	const all = `{"form":{},"url":{}}`
	for name, tt := range map[string]struct {
		can    string
		q      agent.Event
		answer string // of the client
		sent   string // to it; "" if nothing is
		want   string
	}{
		"form": {all, agent.Event{What: "elicit", Tool: "fs", Text: "Who?", Schema: json.RawMessage(`{"type":"object"}`)}, `{"action":"accept","content":{"a":1}}`,
			`{"sessionId":"s","mode":"form","message":"fs of agent root: Who?","requestedSchema":{"type":"object"}}`, `{"action":"accept","content":{"a":1}}`},
		"declined": {all, agent.Event{What: "elicit", Text: "Who?", Schema: json.RawMessage(`{}`)}, `{"action":"decline"}`,
			`{"sessionId":"s","mode":"form","message":"agent root: Who?","requestedSchema":{}}`, `{"action":"decline"}`},
		"page": {all, agent.Event{What: "elicit", Tool: "fs", Text: "Sign in\nhttps://a.example", URL: "https://a.example"}, `{"action":"accept"}`,
			`{"sessionId":"s","mode":"url","message":"fs of agent root: Sign in","url":"https://a.example"}`, `{"action":"accept"}`},
		"choice": {all, agent.Event{What: "ask", Text: "Which?", Choices: []string{"a", "b"}}, `{"action":"accept","content":{"answer":"b"}}`,
			`{"sessionId":"s","mode":"form","message":"agent root: Which?","requestedSchema":{"properties":{"answer":{"enum":["a","b"],"type":"string"}},"required":["answer"],"type":"object"}}`, `"b"`},
		"text, declined": {all, agent.Event{What: "ask", Text: "Why?"}, `{"action":"cancel"}`,
			`{"sessionId":"s","mode":"form","message":"agent root: Why?","requestedSchema":{"properties":{"answer":{"type":"string"}},"required":["answer"],"type":"object"}}`, ``},
		"no forms":     {`{"url":{}}`, agent.Event{What: "ask", Text: "Why?"}, ``, ``, ``},
		"no pages":     {`{"form":{}}`, agent.Event{What: "elicit", Text: "Sign in", URL: "https://a.example"}, ``, ``, ``},
		"no questions": {`null`, agent.Event{What: "ask", Text: "Why?"}, ``, ``, ``},
	} {
		t.Run(name, func(t *testing.T) {
			ours, toUs := io.Pipe()
			theirs, toThem := io.Pipe()
			server, client := acp.NewConn(ours, toThem), acp.NewConn(theirs, toUs)
			sent := ""
			client.Request = func(_ string, params json.RawMessage) acp.Answer {
				return acp.With(params, func(_ context.Context, r *acp.ElicitRequest) (any, error) {
					if (r.ElicitationID == "") != (r.URL == "") {
						t.Errorf("the page %q has the id %q", r.URL, r.ElicitationID)
					}
					r.ElicitationID = ""
					sent = string(acp.Raw(r))
					return json.RawMessage(tt.answer), nil
				})
			}
			var serving sync.WaitGroup
			serving.Go(func() { _ = server.Serve(t.Context()); toThem.Close() })
			serving.Go(func() { _ = client.Serve(t.Context()) })
			s := &session{Client: &Client{server: &Server{conn: server}, id: "s"}}
			if err := json.Unmarshal([]byte(tt.can), &s.server.caps.Elicitation); err != nil {
				t.Fatal(err)
			}
			tt.q.Path = []string{"root"}
			got := s.reply(t.Context(), tt.q)
			toUs.Close()
			serving.Wait()
			if string(got) != tt.want || sent != tt.sent {
				t.Errorf("sent %s\nwant %s\nanswered %s, want %s", sent, tt.sent, got, tt.want)
			}
		})
	}
}
