package agenttest

import (
	"encoding/json"
	"fmt"

	"github.com/agents-exe/agents/pkg/agent"
)

// Messages returns messages of every form, including forms that no agent sends.
func Messages() []agent.Message {
	call := func(id string) agent.ToolCall { return agent.ToolCall{ID: id, Name: "t", Args: "{}"} }
	return []agent.Message{
		agent.UserText("go"), {Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("hi")}},
		{Role: agent.RoleAssistant, Calls: []agent.ToolCall{call("a")}}, {Role: agent.RoleAssistant, Calls: []agent.ToolCall{call("a"), call("b")}},
		{Role: agent.RoleTool, Results: []agent.ToolResult{{CallID: "a", Name: "t"}}}, {Role: agent.RoleTool}, {Role: agent.RoleUser, Calls: []agent.ToolCall{call("a")}}, {},
		{Role: agent.RoleAssistant, Results: []agent.ToolResult{{CallID: "a"}}}, {Role: "other", Parts: []agent.Part{{}}},
	}
}

// Events decodes the bytes of a fuzz test into events, four bytes each. Few of the results are
// what a run could produce. The events belong to the sessions S and T; T answers a call of S.
func Events(script []byte) (events []agent.Event) {
	messages := Messages()
	kinds := []agent.EventKind{agent.EventSession, agent.EventMessage, agent.EventAnswer, agent.EventSetup, agent.EventResume, agent.EventFailure, agent.EventCompaction,
		agent.EventVerdict, agent.EventCallStarted, agent.EventCallEnded, agent.EventContext, agent.EventEnd, agent.EventText, agent.EventQuestion, agent.EventClientCall, agent.EventWarning}
	for len(script) >= 4 {
		kind, of, what, flags := script[0], script[1], script[2], script[3]
		script = script[4:]
		e := agent.Event{Kind: kinds[int(kind)%len(kinds)], Session: "S", Agent: "inner", Status: agent.StatusOK, Finish: agent.FinishStop, N: int(of >> 4 % 4),
			CallID: "a", Tool: "t", Summary: flags&1 > 0, Input: flags&2 > 0, Opening: flags&4 > 0, Closing: flags&8 > 0, TooLong: flags&16 > 0, Attempt: int(flags >> 5 % 4)}
		if of&1 > 0 {
			e.Session, e.Parent, e.Depth = "T", "S.1.1", 1
		}
		e.Key = fmt.Sprintf("%s.%d.%d", e.Session, 1+of>>1%4, 1+of>>3%2)
		if of>>6 == 3 {
			e.Depth, e.Parent, e.Turn = -1, e.Key, -1
		}
		m := messages[int(what)%len(messages)]
		if e.Message = &m; what >= 250 {
			e.Message = nil
		}
		for i := range int(what) % 5 {
			e.Messages = append(e.Messages, messages[(int(what)+i*int(flags))%len(messages)])
		}
		if e.Kind == agent.EventCallEnded && what < 250 {
			e.Result = &agent.ToolResult{CallID: "a", Name: "t", End: [...]agent.Status{"", agent.StatusOK, agent.StatusRefused}[what%3], Failed: what&8 > 0}
		}
		if e.Kind == agent.EventSetup {
			e.Digest = fmt.Sprint(what % 3)
		}
		if e.Kind == agent.EventQuestion {
			e.Question, e.What = "q", [...]string{"ask", "approve", "budget", "policy"}[what%4]
		}
		if what&16 > 0 {
			e.Limits = &agent.Limits{Turns: int(what%5) - 1, ContextTokens: 100 * (int(flags%4) - 1), Answers: int(of%3) - 1, LoopWarn: 1, LoopEnd: int(flags % 3)}
			e.Context, e.Usage = json.RawMessage(`{"a":1}`), &agent.Usage{InputTokens: int(what) << 40}
		}
		events = append(events, e)
	}
	return events
}
