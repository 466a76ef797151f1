package agenttest

import (
	"io"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Source makes the events of a session, at the time At.
type Source struct {
	At             time.Time
	Session, Agent string
	Parent         string
	Depth          int
}

// Event is e as an event of the session.
func (s *Source) Event(e agent.Event) agent.Event {
	e.Time, e.Session, e.Agent, e.Parent, e.Depth = s.At, s.Session, s.Agent, s.Parent, s.Depth
	return e
}

// Call is the start of call n of a first turn.
func Call(n int, key, tool, args string) agent.Event {
	return agent.Event{Kind: agent.EventCallStarted, Session: "S1", Agent: "main", Turn: 1, N: n, CallID: "c" + key, Key: key, Tool: tool, Args: args}
}

// CallResult is the end of such a call.
func CallResult(n int, key, tool, text string, failed bool, millis int64) agent.Event {
	return agent.Event{Kind: agent.EventCallEnded, Session: "S1", Agent: "main", Turn: 1, N: n, CallID: "c" + key, Key: key, Tool: tool, Millis: millis,
		Result: &agent.ToolResult{CallID: "c" + key, Name: tool, Failed: failed, Parts: []agent.Part{agent.Text(text)}}}
}

// Story is a run: two tools and a sub-agent at the same time, a refused call, a
// repeated request, a warning, hostile text.
func Story() []agent.Event {
	root := &Source{Session: "S1", Agent: "main"}
	sub := &Source{Session: "S2", Agent: "helper", Parent: "S1.1.2", Depth: 1}
	question := agent.UserText("Is it \x1b[31mup?\nSay so.")
	calls := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("Let me look.")}, Calls: []agent.ToolCall{
		{ID: "cS1.1.1", Name: "bash_ping", Args: `{"host":"example.org","count":3}`},
		{ID: "cS1.1.2", Name: "ask_helper", Args: `{"prompt":"Find \"x\u202e\" in\nthe logs"}`},
		{ID: "cS1.1.3", Name: "bash_rm", Args: `{not json`},
	}}
	answer := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{
		{Kind: agent.PartReasoning, Text: "hm"}, agent.Text("It is \u009bup.")}}
	list := []agent.Event{
		root.Event(agent.Event{Kind: agent.EventSession, Model: "gpt-5"}),
		root.Event(agent.Event{Kind: agent.EventMessage, Message: &question}),
		root.Event(agent.Event{Kind: agent.EventWarning, Text: "read tools/x: permission denied\x07\nread tools/y: is a directory"}),
		root.Event(agent.Event{Kind: agent.EventRequest, Turn: 1, Tools: 3, Model: "gpt-5"}),
		root.Event(agent.Event{Kind: agent.EventRetry, Turn: 1, Attempt: 1, Millis: 1500, Error: "HTTP 429: slow down\nplease"}),
		root.Event(agent.Event{Kind: agent.EventReasoning, Turn: 1, Text: "hm"}),
		root.Event(agent.Event{Kind: agent.EventText, Turn: 1, Text: "Let me look."}),
		root.Event(agent.Event{Kind: agent.EventAnswer, Turn: 1, Model: "gpt-5-1", Message: &calls, Finish: agent.FinishStop,
			Usage: &agent.Usage{Requests: 1, InputTokens: 120, OutputTokens: 30}, Millis: 400}),
		root.Event(Call(1, "S1.1.1", "bash_ping", calls.Calls[0].Args)),
		root.Event(Call(2, "S1.1.2", "ask_helper", calls.Calls[1].Args)),
		root.Event(CallResult(3, "S1.1.3", "bash_rm", "error: not run: refused by policy", true, 0)),
		sub.Event(agent.Event{Kind: agent.EventSession, Model: "small"}),
		sub.Event(agent.Event{Kind: agent.EventRequest, Turn: 1, Model: "small"}),
		sub.Event(agent.Event{Kind: agent.EventRetry, Turn: 1, Attempt: 2, Millis: 200, Error: "connection reset"}),
		sub.Event(agent.Event{Kind: agent.EventText, Turn: 1, Text: "of no concern"}),
		sub.Event(Call(1, "S2.1.1", "grep", `{"pattern":"x","path":"/var/log"}`)),
		sub.Event(agent.Event{Kind: agent.EventProgress, CallID: "cS2.1.1", Tool: "grep", Key: "S2.1.1", Text: "12 files"}),
		sub.Event(Call(2, "S2.1.2", "date", ``)),
		root.Event(CallResult(1, "S1.1.1", "bash_ping", "error: exit status 2: \x1b[31munknown host\x1b[0m\nmore", true, 312)),
		sub.Event(CallResult(1, "S2.1.1", "grep", "a:1\nb:2", false, 1234)),
		sub.Event(CallResult(2, "S2.1.2", "date", "today", false, 61000)),
		sub.Event(agent.Event{Kind: agent.EventEnd, Turn: 1, Status: agent.StatusOK, Text: "two", Millis: 62000,
			Total: &agent.TotalUsage{Usage: agent.Usage{Requests: 1, InputTokens: 10, OutputTokens: 5}}}),
		root.Event(CallResult(2, "S1.1.2", "ask_helper", "two", false, 62000)),
		root.Event(agent.Event{Kind: agent.EventRequest, Turn: 2, Tools: 3, Model: "gpt-5"}),
		root.Event(agent.Event{Kind: agent.EventText, Turn: 2, Text: "It is "}),
		root.Event(agent.Event{Kind: agent.EventText, Turn: 2, Text: "\u009bup."}),
		root.Event(agent.Event{Kind: agent.EventAnswer, Turn: 2, Message: &answer, Finish: agent.FinishStop,
			Usage: &agent.Usage{Requests: 1, InputTokens: 200, OutputTokens: 8}, Millis: 900}),
		root.Event(agent.Event{Kind: agent.EventEnd, Turn: 2, Status: agent.StatusOK, Text: answer.Text(), Millis: 64000,
			Total: &agent.TotalUsage{Usage: agent.Usage{Requests: 3, InputTokens: 330, OutputTokens: 43, Cost: agent.Dollar / 10000 * 123, Priced: 3}}}),
	}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range list {
		list[i].Time = start.Add(time.Duration(i) * 100 * time.Millisecond)
	}
	return list
}

// BrokenPipe is a writer to a reader that went away.
type BrokenPipe struct{}

// Write returns io.ErrClosedPipe.
func (BrokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
