package agent

import (
	"encoding/json"
	"time"
)

// An EventKind tells the kinds of Event apart.
type EventKind string

// What can happen in a session. The first group changes the session and goes
// into the journal; the second is for display.
const (
	// EventSession opens a session: Agent, Source, Model, Depth, Parent.
	EventSession EventKind = "session"
	// EventMessage adds a user message, which begins a run: Message, Limits, Turn
	// (the answers before it), Traceparent. One
	// with Opening is of those that every conversation begins with (see
	// Agent.Opening) and begins none. One that tells the model in the middle of
	// a run that its answer was not accepted has Attempt, the number of the
	// answer that it asks for, Error, what was wrong, and Total, by the run
	// before it. One with Closing asks for the answer because a budget is
	// nearly spent: Error (which budget), Total. One with Input came during the run; with Key,
	// it tells what came of a call that an agent has answered in the background.
	EventMessage EventKind = "message"
	// EventAnswer adds a model's message: Message, Finish, Usage, Millis, Fallback, and if
	// other models were asked before it, Error (why they did not answer).
	EventAnswer EventKind = "answer"
	// EventSetup says with what the model is asked from now on: Model, Digest,
	// System, Specs. What was said under the same Digest before in the run is
	// not said again.
	EventSetup EventKind = "setup"
	// EventResume takes up a run that was left before its end, or ended without
	// an answer: Limits, Turn (the answers so far), RunTurns (those of the run), Total,
	// by the run before it, Traceparent, and Usage of a request that was in progress when
	// the process ended. With Summary, the run only shortens the conversation.
	EventResume EventKind = "resume"
	// EventFailure says why the run cannot go on as it is, or with Summary that
	// the conversation could not be summed up: Status, Error, Code, TooLong, Input, and
	// Message, the part of the answer that had arrived when the run was stopped.
	EventFailure EventKind = "failure"
	// EventCompaction replaces the conversation by a shorter one: Messages,
	// Source, Model, Turn, RunTurns, Attempt (of the last message), Digest (of
	// the setup), Limits, Plan, Toolgroups, Left, Fallback, Closing with its Error, Total (by the run before it), Text (what was done),
	// and Message, Usage and Millis of the request that summed it up, if there
	// was one, Context, and Input if a person asked for it.
	EventCompaction EventKind = "compaction"
	// EventVerdict is what the policy decided about a call: CallID, Tool, Key,
	// Decision, Text (the reason), Rule, Approval, Reviewer.
	EventVerdict EventKind = "verdict"
	// EventHook is what hooks did: What (the moment), Rule (which hook) and one of Args (the
	// arguments that it replaced: EventCallStarted has the new ones), Result (the same, for
	// EventCallEnded), Text (what it added below the prompt; with Decision, why the prompt was
	// denied) or Error (why it failed). Of a call it has CallID, Tool, Key.
	EventHook EventKind = "hook"
	// EventCallStarted precedes a tool call: CallID, Tool, Args, Key, Argv,
	// Digest, Effects. A second one for a Key is a call that is run again after its
	// process died.
	EventCallStarted EventKind = "call_started"
	// EventCallEnded follows it: CallID, Tool, Key, Result, Millis, and Receipt of an agent. A call
	// that was answered without running has no EventCallStarted, and its
	// Args are here.
	EventCallEnded EventKind = "call_ended"
	// EventContext says what the context is from now on: Context. Of a change by a call
	// it has CallID, Tool, Key; without these a run begins with it.
	EventContext EventKind = "context"
	// EventEnd closes a run: Status, Text or Error, Total, Millis, and at the root Receipt.
	EventEnd EventKind = "end"

	// EventRequest: a model request begins: Turn, Tools, Model, Flavor, Fallback, Summary.
	EventRequest EventKind = "request"
	// EventText and EventReasoning: a piece of the answer: Text.
	EventText      EventKind = "text"
	EventReasoning EventKind = "reasoning"
	// EventRetry: a model request failed and will be repeated: Error,
	// Attempt, Millis until then; or with Fallback and Model, by another model. The pieces
	// shown so far are void.
	EventRetry EventKind = "retry"
	// EventProgress: a running tool says something: CallID, Tool, Text.
	EventProgress EventKind = "progress"
	// EventWarning: something is wrong, but the run continues: Text.
	EventWarning EventKind = "warning"
	// EventQuestion waits for a reply: Question, What, Path, Tool, Args, Text,
	// Schema, Choices, URL, Rule, Reviewer, Approval, Source and Digest (of the tool), Sandbox, Key
	// (of a call for which it reserves), Model and Request.
	EventQuestion EventKind = "question"
	// EventClientCall waits for the result of a tool that only the holder of a
	// Channel has: Key, Tool, Args.
	EventClientCall EventKind = "client_call"
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
	// Seq counts the events of a runner.Channel, from 1; 0 elsewhere.
	Seq int64 `json:"seq,omitempty"`
	// Turn counts the model requests of the session, from 1, and RunTurns those
	// of its last run.
	Turn     int `json:"turn,omitempty"`
	RunTurns int `json:"run_turns,omitempty"`

	Source  string   `json:"source,omitempty"` // of the agent
	Model   string   `json:"model,omitempty"`
	Message *Message `json:"message,omitempty"`
	Finish  Finish   `json:"finish,omitempty"`
	Usage   *Usage   `json:"usage,omitempty"`
	Tools   int      `json:"tools,omitempty"`
	CallID  string   `json:"call_id,omitempty"`
	Tool    string   `json:"tool,omitempty"`
	Args    string   `json:"args,omitempty"`
	Key     string   `json:"key,omitempty"`
	N       int      `json:"n,omitempty"` // position of the call in its answer, from 1; of a message or prompt hook, see Directive.N
	// Argv is what a call executes, program first. Digest is "sha256:" and the
	// hash of the executable, and for EventSetup that of System and Specs.
	Argv       []string    `json:"argv,omitempty"`
	Digest     string      `json:"digest,omitempty"`
	System     string      `json:"system,omitempty"`
	Specs      []ToolSpec  `json:"specs,omitempty"`
	Messages   []Message   `json:"messages,omitempty"`
	Result     *ToolResult `json:"result,omitempty"`
	Text       string      `json:"text,omitempty"`
	Error      string      `json:"error,omitempty"`
	Status     Status      `json:"status,omitempty"`
	Total      *TotalUsage `json:"spent,omitempty"`
	Attempt    int         `json:"attempt,omitempty"`
	Limits     *Limits     `json:"limits,omitempty"`
	Plan       Plan        `json:"plan,omitempty"`
	Toolgroups Toolgroups  `json:"toolgroups,omitempty"`
	// Left are the calls that agents answer in the background: of a compaction all, of an end those
	// that outlive the run, and where its caller reads the answer, those that the caller takes over.
	Left     []LeftCall `json:"left,omitempty"`
	Decision Decision   `json:"decision,omitempty"`
	Opening  bool       `json:"opening,omitempty"`
	TooLong  bool       `json:"too_long,omitempty"`
	Summary  bool       `json:"summary,omitempty"`
	// Code is the error code of the server, or the HTTP status.
	Code string `json:"code,omitempty"`
	// Flavor is the kind of the model's server.
	Flavor string `json:"flavor,omitempty"`
	// Fallback is the name, in the agent file, of the model in place of the agent's first.
	Fallback string `json:"fallback,omitempty"`
	// Traceparent is the span that a run is part of, if another program set it:
	// W3C Trace Context.
	Traceparent string `json:"traceparent,omitempty"`
	Millis      int64  `json:"millis,omitempty"`
	// Closing marks a message that asks the model for its answer because a budget is
	// nearly spent; Error says which.
	Closing bool `json:"closing,omitempty"`
	// Input marks a message that the user sent during the run.
	Input bool `json:"input,omitempty"`
	// Rule, Reviewer and Approval are those of the Verdict about a call.
	Rule     string `json:"rule,omitempty"`
	Reviewer string `json:"reviewer,omitempty"`
	Approval string `json:"approval,omitempty"`
	// Sandbox says what the sandbox of a call permits.
	Sandbox string `json:"sandbox,omitempty"`
	// Question is the id of a question, and What its subject: "approve", "ask",
	// "elicit", "policy" and "hook", which the caller's external policies and hooks answer, "budget", which
	// reserves a model request, or the call Key, in the caller's budgets, "model", which
	// a model of a caller answers, or "accept", which asks the caller about an answer; see Asks. Path has the
	// slugs of the agents from the root to the one that asks,
	// Schema is the JSON Schema of the reply, Choices are the possible replies, and URL is a
	// page that the person is asked to open. Of an EventSession, What may be ProgramRequest.
	Question string          `json:"question,omitempty"`
	What     string          `json:"what,omitempty"`
	Path     []string        `json:"path,omitempty"`
	Schema   json.RawMessage `json:"schema,omitempty"`
	Choices  []string        `json:"choices,omitempty"`
	URL      string          `json:"url,omitempty"`
	// Request is the model request of a question "model"; Model names the lent model.
	Request *Request `json:"request,omitempty"`
	// Context is the context of the run after the event.
	Context json.RawMessage `json:"context,omitempty"`
	// Effects are those that the tool of a call declares.
	Effects Effects `json:"effects,omitempty"`
	// Receipt is that of the agent whose call ended, and that of the run at its end.
	Receipt *Receipt `json:"receipt,omitempty"`
}

// Asks reports whether a person is to answer the question: the others are for programs.
func (e *Event) Asks() bool {
	return e.Kind == EventQuestion && e.What != "policy" && e.What != "hook" && e.What != "budget" && e.What != "model" && e.What != "accept"
}

// Continues reports whether a message belongs to a run in progress and does not begin a
// run.
func (e *Event) Continues() bool { return e.Attempt > 0 || e.Closing || e.Input }

// Begins reports whether a message begins a run.
func (e *Event) Begins() bool { return e.Kind == EventMessage && !e.Opening && !e.Continues() }

// Lasting reports whether events of kind k change the session and belong into
// a journal.
func (k EventKind) Lasting() bool {
	switch k {
	case EventSession, EventMessage, EventResume, EventSetup, EventAnswer, EventFailure, EventCompaction, EventVerdict, EventHook, EventCallStarted, EventCallEnded, EventContext, EventEnd:
		return true
	}
	return false
}
