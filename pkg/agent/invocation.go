package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
)

// An Invocation is one call of a tool on its way.
type Invocation struct {
	// Call is what the model asked for.
	Call ToolCall
	// Spec is what the called tool says of itself.
	Spec ToolSpec
	// Key names this call and no other, in all sessions and processes:
	// session, turn and position, "SESSION.TURN.N", safe as a file name. A
	// repeated call keeps its Key.
	Key string
	// Session is the session that the call belongs to, Agent the slug of the
	// agent that makes it, Turn its turn in the session and Depth how many
	// sub-agents are above. Parent is that of the session; N is the position
	// of the call in its answer, from 1.
	Session string
	Agent   string
	// AgentSource is where that agent comes from: see Agent.Source.
	AgentSource string
	Turn        int
	Depth       int
	// Level is Depth with the agents above in other processes.
	Level  int
	Parent string
	N      int
	// Again says that the call started before, in a process that ended without
	// recording its result.
	Again bool
	// Trace is the traceparent for what the call starts; its span is this call. It is
	// "" if there is no trace.
	Trace string
	// Path are the slugs of the agents from the root to the one that makes the call,
	// for Rights.
	Path []string
	// Dir is the absolute working directory of the tool; "" if it is not known. See
	// Located.
	Dir string
	// Sandbox says what the sandbox of the call permits; "" if there is none.
	Sandbox string
	// NoLinks says that a rule has judged a path among the arguments, where it leads after all
	// links. There is none in it any more: a tool that opens it follows no link.
	NoLinks bool
	// ToolSource and ToolDigest are those of an Identified tool, while a person is asked.
	ToolSource, ToolDigest string
	// Asked says that a person was asked about the call and allowed it.
	Asked bool
	// Accepts says that the call is of an agent whose answers must satisfy conditions: see
	// Start.Accept.
	Accepts bool
	// Remote says that another process makes the call and has decided about it.
	Remote bool
	// Parsed is for Rights: what one of them has made of the arguments, for the others.
	Parsed any
	// Caller is the run that makes the call; nil outside of one. Driver is what the program that
	// drives the run notes of the call; nobody else looks inside.
	Caller CallingRun
	Driver any
	// Context is the context of the run when the call began: a JSON value that all tools
	// and agents of the tree share, nil if there is none. SetContext changes it.
	Context json.RawMessage

	once    sync.Once
	args    map[string]json.RawMessage
	values  map[string]any
	argsErr error
}

// A CallingRun is the run that makes a call, as the call sees it. The first methods are those of
// Invocation, which also work outside a run.
type CallingRun interface {
	// Background, State, AwaitNotice, SetContext, SessionState and Consult do what the methods
	// of Invocation say.
	Background(ctx context.Context, f func(ctx context.Context) (notice string))
	State(key any, create func() any) any
	AwaitNotice(ctx context.Context)
	// Agents gives access to the agents in the background of the agent that makes the call.
	Agents(inv *Invocation) Background
	SetContext(ctx context.Context, inv *Invocation, value json.RawMessage) error
	SessionState() State
	Consult(ctx context.Context, inv *Invocation) Verdict
	// Progress shows what the call is doing.
	Progress(inv *Invocation, text string)
	// Lease returns what is left for an agent that the call runs in another process,
	// and for all agents below it. ctx is that of the call.
	Lease(ctx context.Context, inv *Invocation) Lease
	// Run runs a sub-agent for the call.
	Run(ctx context.Context, inv *Invocation, a *Agent, prompt Message) (*Outcome, error)
	// History returns the events of that agent from earlier processes that ended
	// before its run, without those of sub-agents that have answered, and what each
	// session in them has consumed, as Start.Spent; nil if there are none. Called
	// reports that the call has ended, and its error: it ends sessions that the agent
	// left unfinished.
	History(inv *Invocation) (events []Event, spent map[string]TotalUsage)
	Called(ctx context.Context, inv *Invocation, err error)
	// Forward adds an event of that agent to the run, as one of a sub-agent: it is
	// journalled, counted and shown. The error wraps ErrChild if the event is not
	// valid, and ErrBudget if a budget is spent; callers must then end the agent.
	Forward(ctx context.Context, inv *Invocation, e Event) error
	// Below has directives for that agent and those below it sent with send, which never
	// waits. Those sessions run that have begun with an event and have not ended.
	Below(inv *Invocation, send func(Directive))
	// Person reports whether a person can answer questions.
	Person() bool
	// Model has a lent model answer the question "model" of an agent in another process. delta
	// gets the pieces; its context ends when nobody waits for them. The answer is what the agent's Runner expects as the reply.
	Model(ctx context.Context, inv *Invocation, question Event, delta func(context.Context, Delta)) (answer json.RawMessage)
	// Question asks the person (What, Text, Tool, Args, Schema, Choices, Path). The
	// error wraps ErrNobody if nobody answers.
	Question(ctx context.Context, inv *Invocation, question Event) (answer json.RawMessage, err error)
}

// Invoke makes inv the call c of the session, of a tool that says spec of itself.
func (s *Session) Invoke(inv *Invocation, c PendingCall, spec ToolSpec) {
	inv.Call, inv.Spec, inv.Key, inv.Session, inv.Agent, inv.AgentSource = c.ToolCall, spec, c.Key, s.ID, s.Agent, s.Source
	inv.Turn, inv.Depth, inv.Parent, inv.N, inv.Again = s.Turn, s.Depth, s.Parent, c.N+1, c.Started
}

// Event returns an event of the call, with what all of them have in common.
func (inv *Invocation) Event(kind EventKind) Event {
	return Event{Kind: kind, Session: inv.Session, Agent: inv.Agent, Parent: inv.Parent, Depth: inv.Depth,
		Turn: inv.Turn, CallID: inv.Call.ID, Tool: inv.Call.Name, Key: inv.Key, N: inv.N}
}

// Ended returns the event that ends the call, with its result. err is a failure, which the
// model sees in front of the result.
func (inv *Invocation) Ended(result Result, err error) Event {
	e := inv.Event(EventCallEnded)
	e.Result = toolResult(inv.Call, result, err)
	return e
}

// Args are the arguments of the call, decoded by DecodeArgs; Call.Args is what
// the model sent. They are decoded once and must not be changed.
func (inv *Invocation) Args() (map[string]json.RawMessage, error) {
	inv.once.Do(func() { inv.args, inv.values, inv.argsErr = decodeArgs(inv.Call.Args) })
	return inv.args, inv.argsErr
}

// Replace replaces the arguments, before the call starts: see Verdict.Args.
func (inv *Invocation) Replace(args string) {
	_, _ = inv.Args() // so that they are not decoded again
	inv.Call.Args, inv.Parsed = args, nil
	inv.args, inv.values, inv.argsErr = decodeArgs(args)
}

// ReplaceAliases decodes the arguments and renames those that have a name of Spec.Aliases.
func (inv *Invocation) ReplaceAliases() error {
	args, err := inv.Args()
	used := false
	for alias := range inv.Spec.Aliases {
		used = used || args[alias] != nil
	}
	if err != nil || !used {
		return err
	}
	doc, err := jsondoc.Parse([]byte(inv.Call.Args), jsondoc.Options{Shallow: true})
	if err != nil {
		return err
	}
	var names []string
	values := map[string]string{}
	for _, n := range doc.Root.Children {
		name, value := cmp.Or(inv.Spec.Aliases[n.Name], n.Name), string(doc.Raw(n))
		switch before, twice := values[name]; {
		case !twice:
			names = append(names, name)
		case value == "null" || value == `""` || value == before:
			continue
		case before != "null" && before != `""`:
			return fmt.Errorf("%s has two different values, under two of its names", name)
		}
		values[name] = value
	}
	for i, name := range names {
		key, _ := json.Marshal(name)
		names[i] = string(key) + ":" + values[name]
	}
	inv.Replace("{" + strings.Join(names, ",") + "}")
	return nil
}

// Values are the same as values of encoding/json, with numbers as json.Number;
// nil where Args has an error. They must not be changed.
func (inv *Invocation) Values() map[string]any {
	_, _ = inv.Args() // for the values
	return inv.values
}

// Environ are the environment variables that tell a process which call it answers, as
// "NAME=VALUE"; see package toolenv. AGENTS_DEADLINE is not among them.
func (inv *Invocation) Environ() []string {
	env := make([]string, 0, 13)
	for _, entry := range [...]string{
		toolenv.Session + "=" + inv.Session,
		toolenv.Call + "=" + inv.Key,
		toolenv.Agent + "=" + inv.Agent,
		toolenv.Depth + "=" + strconv.Itoa(inv.Level+1),
		toolenv.OldSession + "=" + inv.Session,
		toolenv.OldConversation + "=" + inv.Session,
		toolenv.OldTurn + "=" + inv.Session + "." + strconv.Itoa(inv.Turn),
		toolenv.OldAgent + "=" + inv.Agent,
		toolenv.OldAgentShort + "=" + inv.Agent,
	} {
		if toolenv.Fits(entry) {
			env = append(env, entry)
		}
	}
	if file := toolenv.File + "=" + inv.AgentSource; inv.AgentSource != "" && toolenv.Fits(file) {
		env = append(env, file)
	}
	if inv.NoLinks {
		env = append(env, toolenv.NoLinks+"=1")
	}
	if inv.Trace != "" {
		env = append(env, toolenv.Trace+"="+inv.Trace)
	}
	return env
}

// Progress reports what the running tool is doing. Outside a run it does
// nothing.
func (inv *Invocation) Progress(text string) {
	if inv.Caller != nil {
		inv.Caller.Progress(inv, text)
	}
}

// Question asks the person. Outside a run the error is ErrNobody.
func (inv *Invocation) Question(ctx context.Context, question Event) (json.RawMessage, error) {
	if inv.Caller == nil {
		return nil, ErrNobody
	}
	return inv.Caller.Question(ctx, inv, question)
}

// Run runs a as a sub-agent in a new session under the run that makes this
// call: same policy, journal, limits and observer. Outside a run that is an
// error.
func (inv *Invocation) Run(ctx context.Context, a *Agent, prompt Message) (*Outcome, error) {
	if inv.Caller == nil {
		return &Outcome{Status: StatusFailed, Agent: a.Slug}, errNoRun
	}
	return inv.Caller.Run(ctx, inv, a, prompt)
}

// errNoRun is the error for what only a run can do.
var errNoRun = errors.New("this call is not part of a run")

// Background runs f beyond the end of the call: until f returns, or until the run of the
// agent that makes the call ends. Then the ctx of f ends, and the run waits for f. A text
// that f returns is a message for the model, which it sees with its next request; ""
// is none. ctx is that of the call. Outside a run nothing is started, which is an error.
func (inv *Invocation) Background(ctx context.Context, f func(ctx context.Context) (notice string)) error {
	if inv.Caller == nil {
		return errNoRun
	}
	inv.Caller.Background(ctx, f)
	return nil
}

// State returns what the run of the agent that makes the call keeps under key: what create
// returned for the first call. It is gone when the run ends. Outside a run it is new each
// time.
func (inv *Invocation) State(key any, create func() any) any {
	if inv.Caller == nil {
		return create()
	}
	return inv.Caller.State(key, create)
}

// AwaitNotice waits until a text of Background waits for the model, or ctx ends.
func (inv *Invocation) AwaitNotice(ctx context.Context) {
	if inv.Caller != nil {
		inv.Caller.AwaitNotice(ctx)
	}
}

// SetContext changes the context of the run: value is what the call makes of
// inv.Context. What it has not changed stays as other calls have left it in the
// meantime: members of objects are merged, all else is replaced as a whole. The error
// says why value is refused; the context is then as before.
func (inv *Invocation) SetContext(ctx context.Context, value json.RawMessage) error {
	if inv.Caller == nil {
		return fmt.Errorf("set the context: %w", errNoRun)
	}
	return inv.Caller.SetContext(ctx, inv, value)
}

// SessionState is that of the session that makes the call, which must not be changed: its
// last message has the calls of the turn. Outside a run it is empty.
func (inv *Invocation) SessionState() State {
	if inv.Caller == nil {
		return State{}
	}
	return inv.Caller.SessionState()
}

// Consult asks the external policies of the callers in other processes. If they cannot be
// asked, the call is denied.
func (inv *Invocation) Consult(ctx context.Context) Verdict {
	if inv.Caller == nil {
		return Verdict{Decision: Deny, Reason: "the policy of the caller cannot be asked"}
	}
	return inv.Caller.Consult(ctx, inv)
}

// CallSession returns the session that made the call with the given Key.
func CallSession(key string) string {
	for range 2 { // turn and position
		key = key[:max(strings.LastIndexByte(key, '.'), 0)]
	}
	return key
}
