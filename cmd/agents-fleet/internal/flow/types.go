package flow

import (
	"cmp"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
)

// The names that clients and workers share.
const (
	// Workflow is the type of the workflow of a run. Its id is the id of the run's session.
	Workflow = "Run"
	// Queue is the task queue, if no other one is chosen.
	Queue = "agents"

	// The activities. They take a Task; see Next, Called, Claim.
	StepActivity  = "step"
	CallActivity  = "call"
	ClaimActivity = "host" // the old name: workflows in progress use it
	// KeepActivity takes a Kept.
	KeepActivity = "keep"

	// Moved is the type of the error of an activity whose workspace another host has, and
	// OwnWorkflow that of an UpdateInput for an agent that has a workflow of its own by now.
	Moved       = "moved"
	OwnWorkflow = "own workflow"

	// UpdateReply takes a Reply, and the workflow of the root accepts it. UpdateInput takes
	// an InputMessage, and the workflow of the agent that shall read it accepts it, or of the
	// nearest agent above that has one. Both return nothing, as soon as the object is in the store.
	UpdateReply = "reply"
	UpdateInput = "input"

	// SignalEnded takes an Ended, from a sub-agent that may outlive its caller.
	SignalEnded = "ended"
)

// TimedOut is the reason of a run that ended at its Deadline.
const TimedOut = "the time limit of the run passed"

// EndTime is how long after its Deadline the server ends a run that no worker has ended.
const EndTime = 10 * time.Second

// The search attributes of a run. Agent is the slug of its agent, Root the id of the root's
// workflow, Outcome its status ("running" until it ends), and Cost what it and all runs below
// it have cost, in dollars.
var (
	AgentsAgent   = temporal.NewSearchAttributeKeyKeyword("AgentsAgent")
	AgentsRoot    = temporal.NewSearchAttributeKeyKeyword("AgentsRoot")
	AgentsOutcome = temporal.NewSearchAttributeKeyKeyword("AgentsOutcome")
	AgentsCost    = temporal.NewSearchAttributeKeyFloat64("AgentsCost")
)

// Attributes are the search attributes with which a run starts.
func Attributes(agent, root string) temporal.SearchAttributes {
	return temporal.NewSearchAttributes(AgentsAgent.ValueSet(agent), AgentsRoot.ValueSet(root), AgentsOutcome.ValueSet("running"))
}

// An Input is what the workflow of a run starts with.
type Input struct {
	// Record is the id of the record: the root's session. Session is that of this run.
	Record  string `json:"record"`
	Session string `json:"session"`
	// Path are the slugs of the agents from below the root to the agent of this run; empty
	// at the root.
	Path []string `json:"path,omitempty"`
	// Folder is the name of the blob that holds the folder of the agents, and File the
	// root's agent file in it, with slashes.
	Folder string `json:"folder"`
	File   string `json:"file"`
	// Start is the name of a blob that holds an agent.Start as JSON: the prompt (Args and
	// Media), the Lease, Context, OutputSchema and Person. For a sub-agent it has the Lease
	// and Person.
	Start string `json:"start"`
	// Root is the Start of the root; empty for the root itself.
	Root    string  `json:"root,omitempty"`
	Options Options `json:"options,omitzero"`
	// Resumed is where the run was when its history became too long; nil at first.
	Resumed *Resumed `json:"resumed,omitempty"`
	// Callers are the sessions from the root to the caller of the run, and Detached says that it may
	// outlive its caller.
	Callers  []string `json:"callers,omitempty"`
	Detached bool     `json:"detached,omitempty"`
}

// Options are the same for all runs of a tree.
type Options struct {
	// Agent is the slug of the root, if it is not the first in its file.
	Agent string `json:"agent,omitempty"`
	// Deadline is when the run ends with the status deadline; zero is never.
	Deadline time.Time `json:"deadline,omitzero"`
	// Trace passes a traceparent to tools and models.
	Trace bool `json:"trace,omitempty"`
	// Heartbeat is how long a worker may be silent before another one repeats its activity;
	// 0 means 15 s.
	Heartbeat time.Duration `json:"heartbeat,omitempty"`
	// Workspace is what the tools share, which makes them run on one host: see
	// archive.Open. "" lets them run on any host.
	Workspace string `json:"workspace,omitempty"`
	// TakeOver is how long activities wait for the host of the workspace before another one
	// takes over; 0 means a minute.
	TakeOver time.Duration `json:"takeOver,omitempty"`
}

func (o *Options) Silence() time.Duration { return cmp.Or(o.Heartbeat, 15*time.Second) }

type Position struct {
	Number int64  `json:"n"`
	Digest string `json:"digest,omitempty"`
}

// A Resumed is the state of a run that is not in its record.
type Resumed struct {
	At     Position `json:"at"`
	Inputs int      `json:"inputs,omitempty"`
	Host   Claim    `json:"host,omitzero"`
}

type Result struct {
	// Status is an agent.Status.
	Status string `json:"status"`
	// Cost is in dollars, with all runs below.
	Cost float64  `json:"cost,omitempty"`
	At   Position `json:"at"`
	// Left are sub-agents that outlive the run: the caller has them now.
	Left []Handed `json:"left,omitempty"`
}

// A Handed is a sub-agent that has outlived its caller, with the Key of its call.
type Handed struct {
	Key   string `json:"key"`
	Input Input  `json:"input"`
}

// An Ended says that a run has ended. Reason is the error of its workflow; its session may then
// have no end.
type Ended struct {
	Session string   `json:"session"`
	Reason  string   `json:"reason,omitempty"`
	At      Position `json:"at"`
	Left    []Handed `json:"left,omitempty"`
}

// A Task is what an activity is to do.
type Task struct {
	Input
	At Position `json:"at"`
	// Inputs is how many messages a person has sent to the run so far.
	Inputs int   `json:"inputs,omitempty"`
	Host   Claim `json:"host,omitzero"`
	// End is the agent.Status with which the run is to end, or for CallActivity with Aside the
	// sub-agent, and Reason why.
	End    string `json:"end,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Key, for CallActivity, is the call. Ended says that its sub-agent has ended.
	Key   string `json:"key,omitempty"`
	Tool  string `json:"-"`               // of the call
	Ended bool   `json:"ended,omitempty"` // or that the call's Wait is over
	// Left, for CallActivity, says that the call's sub-agent continues in the background. Aside has
	// the activity run this sub-agent (see Child), or with End, record its end.
	Left  bool `json:"left,omitempty"`
	Aside bool `json:"aside,omitempty"`
	// Settled, for StepActivity, says that the sub-agents in the background were stopped because
	// the run is about to end.
	Settled bool `json:"settled,omitempty"`
}

// A Next is the result of StepActivity: what the run needs next.
type Next struct {
	At Position `json:"at"`
	// Calls are to be run, up to Parallel at the same time.
	Calls    []Call `json:"calls,omitempty"`
	Parallel int    `json:"parallel,omitempty"`
	// Ended is the agent.Status of a run that has ended; "" if it continues. Cost is that of
	// a Result.
	Ended string  `json:"ended,omitempty"`
	Cost  float64 `json:"cost,omitempty"`
	// Open says that the run is about to end, and that its sub-agents in the background have to be
	// stopped first.
	Open bool `json:"open,omitempty"`
	// Inputs is how many messages of a person a run that has ended has read.
	Inputs int `json:"inputs,omitempty"`
	// Left are the Keys of the calls of sub-agents that outlive a run that has ended. Running are the
	// sessions of sub-agents that work although Task.End has ended the run.
	Left    []string `json:"left,omitempty"`
	Running []string `json:"running,omitempty"`
}

// A Call is an open call.
type Call struct {
	Key  string `json:"key"`
	Tool string `json:"tool"`
}

// A Called is the result of CallActivity. Child is set if the call waits for a sub-agent, and
// Wait if it waits for sub-agents in the background.
type Called struct {
	At    Position `json:"at"`
	Child *Child   `json:"child,omitempty"`
	Wait  *Wait    `json:"wait,omitempty"`
}

// A Wait is over when the sub-agent of one of the calls with these Keys has ended, or after Most.
type Wait struct {
	Keys []string      `json:"keys"`
	Most time.Duration `json:"most"`
}

// A Child is a sub-agent that is to run.
type Child struct {
	// Session is that of its workflow; "" for a sub-agent in the background that is no workflow,
	// but a CallActivity with Aside.
	Session string `json:"session"`
	Agent   string `json:"agent"`
	Start   string `json:"start"` // see Input.Start
	// Background says that the call may return before the sub-agent ends, and Detach that it may
	// then outlive its caller.
	Background bool `json:"background,omitempty"`
	Detach     bool `json:"detach,omitempty"`
}

// A Claim says which worker has the workspace of a run. ClaimActivity returns it.
type Claim struct {
	// Queue is the task queue of this worker alone.
	Queue string `json:"queue,omitempty"`
	// Term counts the hosts that the workspace has had.
	Term int `json:"term,omitempty"`
}

// A Kept is an object that KeepActivity puts into the store, unless it is there: the content
// of a blob under a name.
type Kept struct {
	Name string `json:"name"`
	Blob string `json:"blob"`
}

// A Reply answers a question. Blob is the name of a blob with the answer, as JSON.
type Reply struct {
	Question string `json:"question"`
	Blob     string `json:"blob"`
}

// An InputMessage is for the model. Blob is the name of a blob with an agent.Message as
// JSON. Session is that of an agent without a workflow, below the one of the workflow.
type InputMessage struct {
	Blob    string `json:"blob"`
	Session string `json:"session,omitempty"`
}

// ReservedName is the list of reservations of a record, as a record of its own.
func ReservedName(record string) string { return record + "/reserved" }

// ReplyName is the object with the reply to a question of a record.
func ReplyName(record, question string) string { return record + "/replies/" + question }

// InputName is the object with input i, from 0, of a session.
func InputName(record, session string, i int) string {
	return fmt.Sprintf("%s/inputs/%s/%d", record, session, i)
}

// StopName is the object with the reason of a person who stopped a sub-agent.
func StopName(record, session string) string { return record + "/stops/" + session }

// HostName is the object that names the host of a record's workspace in a term.
func HostName(record string, term int) string { return fmt.Sprintf("%s/hosts/%d", record, term) }
