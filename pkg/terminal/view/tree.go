package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Tree is what a run, or several runs of one conversation, and all sub-agents do and
// did. It is made of their events alone; those of agents in other processes and on other
// hosts look the same. The zero value is an empty tree. A Tree has no clock, starts
// nothing and is not safe for concurrent use; what its fields hold may be read, not changed.
type Tree struct {
	// Root is the node of the run itself; nil before its first event.
	Root *Node
	// Brief keeps no Entries: for a display of what runs.
	Brief bool

	nodes    map[string]*Node // by session
	calls    map[string]*Call // by key: those that run, and those of sub-agents that run
	question *Node            // whose question waits
	// forwarded means that question is an agent of another process.
	forwarded bool
	ended     int // calls so far
}

// A Node is the session of an agent.
type Node struct {
	Session, Agent, Model string
	Depth                 int
	// Parent is nil at the root. Call is the call of Parent that the node answers; nil if
	// its start has not been seen.
	Parent *Node
	Call   *Call
	// Children are the sub-agents in the order in which they began.
	Children []*Node

	// Task is the first line of the prompt of the last run.
	Task string
	// Reason says why the last run failed, stopped, or gave a partial answer, and Status
	// is its outcome; both empty while it runs.
	Reason string
	Status agent.Status
	// Started and Ended are the times of the last run. Ended is zero while it runs.
	Started, Ended time.Time
	Turn           int
	// Usage is what the agent's own requests consumed, Total with all nodes below.
	Usage, Total agent.Usage
	// Question is the event of the question that waits for a person.
	Question *agent.Event
	Plan     agent.Plan
	// Entries are the conversation. An entry changes until it is Done; new ones follow at
	// the end.
	Entries []*Entry

	brief   bool
	state   State
	note    string  // what the state does not say
	calls   []*Call // running ones, and the last that ended, in the order of their start
	running int     // of calls
	dropped int     // ended calls that calls no longer has
	answer  *Entry  // the answer that arrives
	thought *Entry  // the reasoning that arrives
}

// A Call is one call of a tool.
type Call struct {
	Key, Tool string
	Node      *Node  // that made it
	Agent     *Node  // the sub-agent that answers it; nil for a tool
	State     State  // Calling, Done or Failed
	Reason    string // of a failure, on one line
	Note      string // the last progress of a running call, on one line
	Started   time.Time
	Took      time.Duration
	Ran       bool // it was started; false if it was answered without running
	// Args and Result are texts, as far as a display needs them: the first bytes of long ones.
	Args, Result string

	short string // the arguments
	label string // tool and arguments
	entry *Entry
	order int  // among the calls of the tree that ended
	left  bool // it has a result, and the agent works on in the background
}

// An Entry is a step of a conversation.
type Entry struct {
	Kind EntryKind
	Turn int
	// Text is what a person or a model said, as far as it has arrived, or a notice.
	// It is not cleaned. A call has none.
	Text string
	Call *Call
	// Done means that the entry no longer changes.
	Done bool

	text strings.Builder
}

// An EntryKind tells the kinds of Entry apart.
type EntryKind int

// The kinds of Entry.
const (
	EntryPrompt    EntryKind = iota // begins a run
	EntryInput                      // what the user said during a run
	EntryReasoning                  // of the model
	EntryAnswer                     // of the model
	EntryCall
	EntryNotice // retries, warnings, shortened conversations
	EntryEnd    // of a run that has no complete answer: its status and reason
)

// A State says what a node or a call does.
type State int

// The states. Queued has not begun, Thinking waits for the model, Answering receives its
// answer, Calling runs tools, Waiting waits for a person. Stopped was ended by a person or
// with the run, Partial has an answer that a budget cut short.
const (
	Queued State = iota
	Thinking
	Answering
	Calling
	Waiting
	Done
	Partial
	Failed
	Stopped
)

// String is the state in one word.
func (s State) String() string {
	return [...]string{"queued", "thinking", "answering", "calling", "waiting", "done", "partial", "failed", "stopped"}[s]
}

// Ended reports whether s is the state of something that is over.
func (s State) Ended() bool { return s >= Done }

// keptCalls is how many ended calls of a node Rows can show.
const keptCalls = 10

// Node returns the node of a session; nil if there is none.
func (t *Tree) Node(session string) *Node { return t.nodes[session] }

// Question returns the node whose question waits for a person, nil if there is none: the
// runner asks one question at a time.
func (t *Tree) Question() *Node { return t.question }

// Answered removes the question with that id. A tree learns of an answer only from what
// happens next, so who answers calls it.
func (t *Tree) Answered(id string) {
	if n := t.question; n != nil && n.Question.Question == id {
		t.answered(n)
	}
}

func (t *Tree) answered(n *Node) {
	if n != nil && n.Question != nil {
		n.Question, t.question = nil, nil
	}
}

// State is what the agent does. While one of its calls or sub-agents runs it is Calling,
// while its own question waits it is Waiting.
func (n *Node) State() State {
	if n.Question != nil {
		return Waiting
	}
	return n.state
}

// Running returns the calls that have no result yet, in the order of their start.
func (n *Node) Running() []*Call {
	return slices.DeleteFunc(slices.Clone(n.calls), func(c *Call) bool { return c.State.Ended() })
}

// Elapsed is the time of the last run, so far if it has not ended.
func (n *Node) Elapsed(now time.Time) time.Duration { return since(n.Started, n.Ended, now) }

// Elapsed is the time of the call, so far if it has not ended.
func (c *Call) Elapsed(now time.Time) time.Duration {
	if c.State.Ended() {
		return c.Took
	}
	return since(c.Started, time.Time{}, now)
}

func since(started, ended, now time.Time) time.Duration {
	if started.IsZero() {
		return 0
	}
	if ended.IsZero() {
		ended = now
	}
	return max(ended.Sub(started), 0)
}

// node returns the node of an event, and adds it with its first event. An event without a
// session belongs to the root.
func (t *Tree) node(e *agent.Event) *Node {
	n := t.nodes[e.Session]
	if n == nil && e.Session == "" && (t.Root != nil || e.Kind == agent.EventWarning || e.Kind == agent.EventLog) {
		return t.Root
	}
	if n == nil {
		n = &Node{Session: e.Session, Agent: e.Agent, Depth: e.Depth, Started: e.Time}
		if t.nodes == nil {
			t.nodes, t.calls = map[string]*Node{}, map[string]*Call{}
		}
		t.nodes[e.Session] = n
		if e.Depth == 0 || t.Root == nil {
			t.Root = n
			return n
		}
		n.Parent = cmp.Or(t.nodes[agent.CallSession(e.Parent)], t.Root)
		n.Parent.Children = append(n.Parent.Children, n)
		if n.Call = t.calls[e.Parent]; n.Call != nil {
			n.Call.Agent = n
		}
	}
	return n
}

// asker is the node that asks a question. That of an agent in another process, or of one
// below it, is an event of the session that made the call.
func (t *Tree) asker(e *agent.Event) *Node {
	n := t.node(e)
	for n != nil && n.Depth+1 < len(e.Path) {
		i := slices.IndexFunc(n.calls, func(c *Call) bool {
			return c.Agent != nil && !c.State.Ended() && (c.Key == e.Key || c.Agent.Agent == e.Path[n.Depth+1])
		})
		if i < 0 {
			break
		}
		n = n.calls[i].Agent
	}
	return n
}
