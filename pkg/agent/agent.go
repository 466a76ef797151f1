package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"time"
)

// An Agent is a model with a system prompt and tools. It is a value without
// running state: one Agent may serve many runs at once.
type Agent struct {
	// Slug names the agent.
	Slug string
	// Source says where the agent comes from: the absolute path of its file.
	Source string
	// Announce tells other agents what this one is for.
	Announce string
	// System is the system prompt; empty means none.
	System string
	// Opening are the messages that every conversation begins with, before the
	// first prompt: of the user, and of the model as if it had said them.
	Opening []Message
	// Model names the model, for events and usage, and Flavor the kind of server
	// that it is behind.
	Model  string
	Flavor string
	// Provider answers the requests. It is required.
	Provider Provider
	// Here says that it runs in the process of its call, also with Runner.Delegate: its tools
	// are made for this call.
	Here bool
	// Borrows says that Provider is, or uses, Borrowed. Model is then a wish.
	Borrows bool
	// Free says that requests of Provider consume nothing, so that no budget reserves them: its
	// program asks lent models, whose requests are counted.
	Free bool
	// Lend are the models that agents below may borrow. nil passes on those that are lent to
	// this agent; an empty list lends none.
	Lend []Loan
	// LendTools are the names of the tools whose programs may use the same models; see
	// runner.Lent.
	LendTools []string
	// InputSchema is the shape of the arguments of the agent as a tool, an object; nil
	// is that of the text "prompt". See Prompt.
	InputSchema *Shape
	// OutputSchema is what answers must be; nil is any text.
	OutputSchema *Output
	// ContextSchema is the shape of the context, which holds when a run begins and after
	// each change; nil is any. Context is that of runs without another one.
	ContextSchema *Shape
	Context       json.RawMessage
	// RequiredTools are names of tools without which no run begins.
	RequiredTools []string
	// Toolsets are the sources of tools. Their tools are offered together,
	// sorted by name.
	Toolsets []Toolset
	// Rights decide about the calls of the agent and of all agents below it; nil
	// permits all.
	Rights Rights
	// Checkpoints is the folder whose files are kept before calls with effects, so that what a
	// session of the agent changed can be put back; "" keeps none.
	Checkpoints string
	// MaxTurns limits the turns of one run that call tools; 0 means 100. The
	// model is asked once more after the last of them, for its answer.
	MaxTurns int
	// MaxParallelTools limits how many calls of one turn run at the same
	// time; 0 means 16.
	MaxParallelTools int
	// ContextTokens is how many tokens a request and its answer may have
	// together; 0 means 128,000. A conversation that comes near it is
	// shortened (EventCompaction), unless NoCompaction is set.
	ContextTokens int
	NoCompaction  bool
	// Budget limits what each run of the agent, with all agents below it,
	// consumes.
	Budget Budget
	// Deadline limits the wall time of each run; 0 is not limited. Sub-agents
	// have at most what is left of it.
	Deadline time.Duration
	// LoopWarn and LoopEnd limit how often in a row a turn may repeat itself:
	// the same calls with the same results. The model is warned after LoopWarn
	// times, and the run ends after LoopEnd; 0 means 3 and 5, a negative number
	// never.
	LoopWarn int
	LoopEnd  int
	// WorkDir is the absolute working folder of its tools, which receipts are about; "" if it has
	// none on this machine.
	WorkDir string
	// Accept must hold before an answer counts, and Receipt is one of ReceiptNone and so on: in
	// which form the model of a caller gets the Receipt of a run; "" is ReceiptNone, except that
	// the event that ends the call has it.
	Accept  []Condition
	Receipt string
}

// Limits are the limits of a's runs.
func (a *Agent) Limits() Limits {
	limits := Limits{Turns: cmp.Or(a.MaxTurns, DefaultMaxTurns), ContextTokens: cmp.Or(a.ContextTokens, DefaultContextTokens),
		LoopWarn: max(cmp.Or(a.LoopWarn, DefaultLoopWarn), 0), LoopEnd: max(cmp.Or(a.LoopEnd, DefaultLoopEnd), 0)}
	if a.NoCompaction {
		limits.ContextTokens = -1
	}
	return limits
}

// The defaults of the limits, used where a field is 0.
const (
	DefaultMaxTurns         = 100
	DefaultMaxParallelTools = 16
	DefaultMaxDepth         = 8
	DefaultMaxProcesses     = 64
	DefaultContextTokens    = 128_000
)

// A Provider is a model. Generate answers one request. It may call delta, from
// one goroutine at a time and never after it returned, with pieces of the
// answer as they arrive: they are for display, the Response is the truth. delta
// is never nil when a Runner calls. A
// failure that says more than its text is a *ModelError. Generate is safe for
// concurrent use and returns soon after ctx ends.
type Provider interface {
	Generate(ctx context.Context, req *Request, delta func(Delta)) (*Response, error)
}

// A Tool is something that a model can call. Both methods are safe for
// concurrent use. Spec is cheap and always returns the same value. An error of
// Call is a failed result for the model and not the end of the run; what the
// result holds beside the error reaches the model as well. When Call returns,
// nothing that it started is alive.
type Tool interface {
	Spec() ToolSpec
	Call(ctx context.Context, inv *Invocation) (Result, error)
}

// A Toolset is a source of tools. Tools is asked once per turn, by several runs
// at the same time; tools and an error may both come back, and the error is
// then reported while the run continues with the tools.
type Toolset interface {
	Tools(ctx context.Context) ([]Tool, error)
}

// A SessionToolset is a Toolset that does not offer all its tools in every session.
type SessionToolset interface {
	Toolset
	// SessionTools returns the tools for one session. It must not change or keep s.
	SessionTools(ctx context.Context, s *State) ([]Tool, error)
}

// A Hider is a SessionToolset that can tell the model how to get a tool that SessionTools
// does not offer.
type Hider interface {
	// Hidden returns this advice as an error, or nil if the toolset hides no tool of this name.
	Hidden(ctx context.Context, s *State, name string) error
}

// An Instructor is a Toolset that has something to tell the model about its
// tools. What it says when a run begins follows the system prompt.
type Instructor interface {
	Instructions(ctx context.Context) (string, error)
}

// A ToolList is a Toolset that never changes.
type ToolList []Tool

// Tools returns l.
func (l ToolList) Tools(context.Context) ([]Tool, error) { return l, nil }

// A Journal keeps the events of sessions. The Runner appends an event before
// anything that follows from it happens, and ends the run if Append fails.
// Appends come one at a time. Sync returns when all events whose Append returned
// before it was called outlast a loss of power; it may be called concurrently. It
// is called before a tool call starts, while a model is asked, whose answer
// counts only after it, and before an answer is given away; a failure ends the
// run, and neither method is called again.
type Journal interface {
	Append(ctx context.Context, e Event) error
	Sync(ctx context.Context) error
}

// A Commander is a Tool that can tell what a call would execute, for the
// journal.
type Commander interface {
	// Command is the program with its arguments and the digest of its file,
	// as "sha256:…". Either is empty if it is not known.
	Command(inv *Invocation) (argv []string, digest string)
}

// An Identified is a Tool that can be told from others of the same name, so that a person's
// answer can be remembered for this tool alone.
type Identified interface {
	// Identity returns where the tool comes from (the absolute path of its file, or what it
	// connects to) and the digest of the file's current content. Either is empty if it is not
	// known.
	Identity() (source, digest string)
}

// A Sandboxed is a Tool whose calls are confined.
type Sandboxed interface {
	// Sandbox says in one line what calls may do; "" if they are not confined.
	Sandbox() string
}

// A Located is a Tool that runs in a folder of this machine.
type Located interface {
	// WorkDir is the absolute working directory of calls; "" if it is not known.
	WorkDir() string
}

// A ToolSpec describes a tool to a model, and holds what the runtime knows about
// it.
type ToolSpec struct {
	// Name is unique among the tools of an agent and matches
	// [A-Za-z0-9_-]{1,64}.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Schema is the JSON Schema of the arguments: an object. It is sent to
	// the model byte for byte, unless its server refuses it: see ToolFitter.
	Schema json.RawMessage `json:"schema"`
	// Aliases are names that a call may use in place of those of Schema, and what they mean. The
	// Gate replaces them before it judges the call: rules and the tool see one name.
	Aliases map[string]string `json:"-"`
	// Source says where the tool comes from: a path, a server, an agent.
	Source string `json:"source,omitempty"`
	// Agent is the slug of the sub-agent that the tool is, if it is one.
	Agent string `json:"agent,omitempty"`
	// Channel is the version of the channel that the tool speaks, 0 if it does not:
	// it is then an agent in another process.
	Channel int `json:"channel,omitempty"`
	// Far says that this agent is on a server, and not a program of this machine.
	Far bool `json:"-"`
	// Background says that the call returns a handle soon, while the agent works on.
	Background bool `json:"background,omitempty"`
	// Detach says that an agent in the background outlives its caller, whose caller then has it.
	Detach bool `json:"detach,omitempty"`
	// Effects is what the tool declares; empty means EffectsOnce.
	Effects Effects `json:"effects,omitempty"`
	// Locks are names that the tool declares; calls which share one take
	// turns. "{arg}" stands for the value of an argument.
	Locks []string `json:"locks,omitempty"`
	// Task is TaskRequired if MCP clients can call the tool only as a task, otherwise "".
	Task string `json:"task,omitempty"`
}

// TaskRequired is the value of ToolSpec.Task for calls that take longer than a request may.
const TaskRequired = "required"

// IsAgent reports whether calls of the tool are runs of an agent that records what
// happens in them.
func (s *ToolSpec) IsAgent() bool { return s.Agent != "" || s.Channel > 0 }

// Effects says what a repeated call does to the world.
type Effects string

// What a tool may declare about its effects.
const (
	EffectsNone       Effects = "none"       // the tool only looks
	EffectsIdempotent Effects = "idempotent" // again with the same Key does no harm
	EffectsOnce       Effects = "once"       // never again by itself
)

// A Request asks a model for the next message of a conversation. Over the turns
// of a run a request only grows: same system prompt, same tools in the same
// order, the messages of the turn before and new ones behind them. Providers
// must not change what it refers to.
type Request struct {
	System   string     `json:"system,omitempty"`
	Messages []Message  `json:"messages"`
	Tools    []ToolSpec `json:"tools,omitempty"`
	// Session, Agent and Turn say who asks; Turn counts from 1 within the
	// session.
	Session string `json:"session"`
	Agent   string `json:"agent"`
	Turn    int    `json:"turn"`
	// Summary marks a request that sums up the conversation to shorten it:
	// the answer does not become part of it.
	Summary bool `json:"summary,omitempty"`
	// Fallback is the name of the model of a Chooser that is to be asked; "" is the first.
	Fallback string `json:"fallback,omitempty"`
	// Trace is the traceparent to send with the request; "" if there is no trace.
	Trace string `json:"trace,omitempty"`
	// Output is the JSON Schema that the answer should satisfy; nil is any text. The
	// system prompt says so too, and the answer is checked.
	Output json.RawMessage `json:"output,omitempty"`
	// Again is called before a Provider repeats the request, or continues its answer, by a
	// further request of its own, with what it has consumed since Generate began. The
	// Provider returns an error of it instead, in a *ModelError that has this usage. nil
	// permits every request.
	Again func(consumed Usage) error `json:"-"`
	// Borrow sends req to a model that an agent above lends; Borrowed calls it with its Wish. nil
	// means that there is no agent above.
	Borrow func(ctx context.Context, wish string, req *Request, delta func(Delta)) (*Response, error) `json:"-"`
	// Pass is sent in place of the request by a Provider of its protocol; nil is none.
	Pass *Pass `json:"-"`
}

// A ToolFitter is a Provider whose server refuses some schemas of tools, and with them the
// whole request. The provider sends fitted in place of the tool; the tool itself and its
// schema, with which calls are compared, stay as they are. changed says what is different,
// and is nil if nothing is. A tool with an error is not offered.
type ToolFitter interface {
	FitTool(t ToolSpec) (fitted ToolSpec, changed []string, err error)
}

// A Response is a model's answer.
type Response struct {
	// Message is of RoleAssistant.
	Message Message `json:"message"`
	Finish  Finish  `json:"finish,omitempty"`
	Usage   Usage   `json:"usage"`
	// Model is the name that the server gave, if any.
	Model string `json:"model,omitempty"`
	// Fallback is the name of the model of a Chooser that answered; "" is the first. Failed
	// says why those that were asked before did not answer.
	Fallback string `json:"fallback,omitempty"`
	Failed   string `json:"failed,omitempty"`
}

// A Chooser is a Provider of several models: the first, and others with names, which are
// asked when it fails. The others answer until the next prompt, so that the cache of the
// conversation is not lost at every request.
type Chooser interface {
	// Choice returns the model with a name, and the kind of its server.
	Choice(fallback string) (model, flavor string)
}

// Finish says why a model stopped.
type Finish string

// Why a model stopped. FinishStop covers answers with tool calls too: the calls
// are in the message.
const (
	FinishStop          Finish = "stop"
	FinishLength        Finish = "length"
	FinishContentFilter Finish = "content_filter"
)

// A Delta is a piece of an answer on its way, for display.
type Delta struct {
	Kind DeltaKind `json:"kind"`
	// Text is the piece, or for DeltaRetry the reason.
	Text string `json:"text,omitempty"`
	// Attempt and Wait belong to DeltaRetry: the number of the attempt that
	// failed, from 1, and the time until the next, in nanoseconds.
	Attempt int           `json:"attempt,omitempty"`
	Wait    time.Duration `json:"wait,omitempty"`
	// Fallback, of a DeltaRetry, is the name of the model that is asked next, in place of
	// the one that failed, and Model is that model.
	Fallback string `json:"fallback,omitempty"`
	Model    string `json:"model,omitempty"`
}

// A DeltaKind tells the kinds of Delta apart.
type DeltaKind string

// The kinds of Delta. After DeltaRetry the answer starts from the beginning:
// what was shown of it is void.
const (
	DeltaText      DeltaKind = "text"
	DeltaReasoning DeltaKind = "reasoning"
	DeltaRetry     DeltaKind = "retry"
)

// A Validator is a Tool that can compare arguments with its schema before it is
// called. The error names what does not fit, for the model.
type Validator interface {
	Validate(ctx context.Context, inv *Invocation) error
}

// An Approved is a Tool whose calls may be covered by calls that a person has already allowed
// (see Invocation.Asked). For these, nobody is asked again, except where only a person may
// answer.
type Approved interface {
	Approved(inv *Invocation) bool
}

// ToolsOf asks a toolset for the tools of a session.
func ToolsOf(ctx context.Context, set Toolset, s *State) ([]Tool, error) {
	if of, ok := set.(SessionToolset); ok {
		return of.SessionTools(ctx, s)
	}
	return set.Tools(ctx)
}
