package agent

import (
	"encoding/json"
	"testing"
)

// TestAQuestionAsAForm of MCP servers and of agents.
func TestAQuestionAsAForm(t *testing.T) {
	for _, tt := range []struct {
		e           Event
		asker, form string
	}{
		{Event{What: "elicit", Tool: "srv", Path: []string{"a", "b"}, Schema: json.RawMessage(`{"x":1}`)}, "srv of agent a > b", `{"x":1}`}, {Event{What: "elicit", Path: []string{"a"}}, "agent a", ""}, {Event{What: "ask", Tool: "t", Path: []string{"a"}, Schema: json.RawMessage("1")}, "agent a", `{"properties":{"answer":{"type":"string"}},"required":["answer"],"type":"object"}`},
		{Event{What: "ask", Path: []string{"a"}, Choices: []string{"y", "n"}}, "agent a", `{"properties":{"answer":{"enum":["y","n"],"type":"string"}},"required":["answer"],"type":"object"}`},
	} {
		if tt.e.Asker() != tt.asker || string(tt.e.Form()) != tt.form {
			t.Errorf("%+v: %q asks with %s", tt.e, tt.e.Asker(), tt.e.Form())
		}
	}
	for _, tt := range []struct{ what, action, content, want string }{
		{"elicit", "accept", `{"x":1}`, `{"action":"accept","content":{"x":1}}`}, {"elicit", "decline", "", `{"action":"decline"}`},
		{"ask", "accept", `{"answer":"y"}`, `"y"`}, {"ask", "decline", `{"answer":"y"}`, ""}, {"ask", "accept", `{}`, ""}, {"ask", "accept", `[`, ""}, {"ask", "accept", `["y"]`, ""}, {"ask", "cancel", ``, ""},
	} {
		got, err := (&Event{What: tt.what}).Filled(tt.action, json.RawMessage(tt.content))
		if string(got) != tt.want || (err == ErrNobody) != (tt.want == "") {
			t.Errorf("%+v: %s, %v", tt, got, err)
		}
	}
}
