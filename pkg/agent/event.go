package agent

import (
	"time"
)

// An EventKind tells the kinds of Event apart.
type EventKind string

// What can happen in a session. The first group changes the session and goes
// into the journal; the second is for whoever watches.
const (
	// EventSession opens a session: Agent, Source, Model, ContextTokens, Depth,
	// Parent.
	EventSession EventKind = "session"
	// EventMessage adds a user message, or one that opens the conversation
	// (see Agent.Opening): Message. One that tells the model in the middle of a
	// run that its answer was not accepted has Attempt, the number of the
	// answer that it asks for, Error, what was wrong, and Spent, by the run
	// before it.
	EventMessage EventKind = "message"
	// EventAnswer adds a model's message: Message, Finish, Usage, Millis.
	EventAnswer EventKind = "answer"
	// EventSetup says with what the model is asked from now on: Model, Digest,
	// System, Specs. What was said under the same Digest before in the run is
	// not said again.
	EventSetup EventKind = "setup"
	// EventCompaction replaces the conversation by a shorter one: Messages,
	// Source, Model, Turn, N (the turns of the run so far), Attempt (of the last
	// message), Digest (of the setup), Spent (by the run before it), Text (what was done), and Message, Usage and
	// Millis of the request that summed it up, if there was one.
	EventCompaction EventKind = "compaction"
	// EventCallStarted precedes a tool call: CallID, Tool, Args, Key, Argv,
	// Digest. A second one for a Key is a call that is run again after its
	// process died.
	EventCallStarted EventKind = "call_started"
	// EventCallEnded follows it: CallID, Tool, Key, Result, Millis. A call
	// that was answered without running has no EventCallStarted, and its
	// Args are here.
	EventCallEnded EventKind = "call_ended"
	// EventEnd closes a run: Status, Text or Error, Spent, Millis.
	EventEnd EventKind = "end"

	// EventRequest: a model request begins: Turn, Tools.
	EventRequest EventKind = "request"
	// EventText and EventReasoning: a piece of the answer: Text.
	EventText      EventKind = "text"
	EventReasoning EventKind = "reasoning"
	// EventRetry: a model request failed and will be repeated: Error,
	// Attempt, Millis until then. The pieces shown so far are void.
	EventRetry EventKind = "retry"
	// EventProgress: a running tool says something: CallID, Tool, Text.
	EventProgress EventKind = "progress"
	// EventWarning: something is amiss and the run goes on: Text.
	EventWarning EventKind = "warning"
	// EventLog: a server of tools wrote something for its log: Tool (the name
	// of the server), Text. It comes from no Runner.
	EventLog EventKind = "log"
)

// An Event is something that happened in a session. It is flat, so that a
// journal line, a log record and an update of a display are the same thing;
// which fields are set follows from Kind.
type Event struct {
	Time time.Time `json:"time"`
	Kind EventKind `json:"kind"`
	// Session is the session in which it happened, Agent the agent's slug.
	Session string `json:"session"`
	Agent   string `json:"agent"`
	// Parent is the Key of the tool call that a sub-agent's session answers,
	// and Depth how many such calls are above it; both empty at the root.
	Parent string `json:"parent,omitempty"`
	Depth  int    `json:"depth,omitempty"`
	// Turn counts the model requests of the session, from 1.
	Turn int `json:"turn,omitempty"`

	Source string `json:"source,omitempty"` // of the agent
	// ContextTokens is that of the agent, -1 with NoCompaction.
	ContextTokens int      `json:"context_tokens,omitempty"`
	Model         string   `json:"model,omitempty"`
	Message       *Message `json:"message,omitempty"`
	Finish        Finish   `json:"finish,omitempty"`
	Usage         *Usage   `json:"usage,omitempty"`
	Tools         int      `json:"tools,omitempty"`
	CallID        string   `json:"call_id,omitempty"`
	Tool          string   `json:"tool,omitempty"`
	Args          string   `json:"args,omitempty"`
	Key           string   `json:"key,omitempty"`
	N             int      `json:"n,omitempty"` // position of the call in its answer, from 1
	// Argv is what a call executes, program first. Digest is "sha256:" and the
	// hash of the executable, and for EventSetup that of System and Specs.
	Argv     []string    `json:"argv,omitempty"`
	Digest   string      `json:"digest,omitempty"`
	System   string      `json:"system,omitempty"`
	Specs    []ToolSpec  `json:"specs,omitempty"`
	Messages []Message   `json:"messages,omitempty"`
	Result   *ToolResult `json:"result,omitempty"`
	Text     string      `json:"text,omitempty"`
	Error    string      `json:"error,omitempty"`
	Status   Status      `json:"status,omitempty"`
	Spent    *Spent      `json:"spent,omitempty"`
	Attempt  int         `json:"attempt,omitempty"`
	Millis   int64       `json:"millis,omitempty"`
}

// Lasting reports whether events of kind k change the session and belong into
// a journal.
func (k EventKind) Lasting() bool {
	switch k {
	case EventSession, EventMessage, EventSetup, EventAnswer, EventCompaction, EventCallStarted, EventCallEnded, EventEnd:
		return true
	}
	return false
}
