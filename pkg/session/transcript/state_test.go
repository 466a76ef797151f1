package transcript

import (
	"bytes"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/google/go-cmp/cmp"
)

// Written from its state, a session is what it is when written from its events, except for
// what a state does not have.
func TestAStateIsWrittenAsItsSession(t *testing.T) {
	call := agent.ToolCall{ID: "c1", Name: "list", Args: "{}"}
	result := &agent.ToolResult{CallID: "c1", Name: "list", Parts: []agent.Part{agent.Text("a b")}}
	events := []agent.Event{
		{Kind: agent.EventSession, Session: "s", Agent: "a"},
		{Kind: agent.EventMessage, Session: "s", Message: &agent.Message{Role: agent.RoleUser, Parts: []agent.Part{agent.Text("go")}}},
		{Kind: agent.EventSetup, Session: "s", Digest: "d", System: "be brief", Specs: []agent.ToolSpec{{Name: "list"}}},
		{Kind: agent.EventAnswer, Session: "s", Turn: 1, Message: &agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{call}}},
		{Kind: agent.EventCallEnded, Session: "s", Turn: 1, CallID: "c1", Tool: "list", N: 1, Result: result},
		{Kind: agent.EventAnswer, Session: "s", Turn: 2, Message: &agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "c2", Name: "list"}, {ID: "c3", Name: "list"}}}},
		{Kind: agent.EventCallEnded, Session: "s", Turn: 2, CallID: "c3", Tool: "list", N: 2, Result: &agent.ToolResult{CallID: "c3", Name: "list"}},
	}
	s := &agent.Session{}
	for _, e := range events {
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	var want, got bytes.Buffer
	if err := ToAgentsExe(&want, all(events)); err != nil {
		t.Fatal(err)
	}
	if err := ToAgentsExe(&got, OfState(s.State)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.String(), got.String()); d != "" {
		t.Error(d)
	}
	for range OfState(s.State) {
		break // a reader may stop at any event
	}
}
