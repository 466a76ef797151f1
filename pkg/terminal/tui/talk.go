package tui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
	"github.com/agents-exe/agents/pkg/source/remote"
	"github.com/agents-exe/agents/pkg/terminal/view"
)

// A talk is a conversation with one agent: a session, whose runs answer one prompt each.
type talk struct {
	agent   string
	session string         // of the root; "" before its first event
	server  *remote.Server // on which the run is; nil is that of the model, or own
	apart   bool           // the server of the model does not have the agent
	own     *server        // the server that has the agent, if apart; nil until it is connected
	tree    *view.Tree
	loading bool // the session is read, of which the tree has at most the end
	run     *run // in progress; nil if there is none
	// reason says why the last run has no end event, and there is one to continue.
	reason    string
	of        string          // the session whose agent the own server has; "" is an agent of the configuration
	flags     []string        // of the own server: its models
	budget    agent.Budget    // of each run that follows
	shorten   bool            // the conversation, before the next request
	outputs   []string        // of commands of the shell, for the next message
	waiting   *agent.Start    // for the server
	sent      []agent.Message // to the run in progress, which has not taken them up
	printed   int             // entries of the root that are in the scrollback
	stream    *answerStream
	asked     string            // the id of the question that is printed
	lacking   []string          // the tools that need the terminal
	yes       bool              // every call is allowed that not only a person may allow
	grants    []config.Approval // calls that a person has allowed
	once      []config.Approval // in this run
	approvals Approvals
	form      *form // the reply that a person is giving
	cancels   int   // of the run
}

// A run is the connection to a run in progress.
type run struct {
	held *remote.Held
	ctx  context.Context // ends with the run

	mu      sync.Mutex
	queue   []any // agent.Event, notice, ended
	arrived chan struct{}
	last    time.Time
}

type (
	// A notice is a message about the connection.
	notice string
	// ended is the end of a connection; its text says why the run has no end event.
	ended string
)

type arrivedMsg struct {
	talk  *talk
	run   *run
	items []any
}

// serverEnded is why a run whose server is not there any more has no end event.
const serverEnded = "the server has ended"

// pace is the least time between two updates by the same run: pieces of answers arrive
// faster than anybody reads.
const pace = 33 * time.Millisecond

// detached is how long a run continues without a client: the most that a server permits.
const detached = 3600.0

// start starts or joins a run, and returns the command that waits for its events.
func (t *talk) start(ctx context.Context, s *remote.Server, start agent.Start) tea.Cmd {
	seconds := detached
	start.Lease.DetachedSeconds, start.Lease.Budget = &seconds, t.budget
	r := &run{ctx: ctx, arrived: make(chan struct{}, 1)}
	r.held = s.Hold(ctx, t.agent, start, func(text string) { r.put(notice(text)) })
	t.run, t.waiting, t.sent, t.once, t.reason, t.cancels = r, nil, nil, nil, "", 0
	go r.read()
	return r.next(t)
}

// prompt is what starts a run of the conversation with a message. A JSON object is the
// arguments of an agent that has others than a prompt.
func (m *model) prompt(t *talk, messages ...agent.Message) agent.Start {
	start := agent.Start{Session: t.session, Compact: t.shorten}
	t.shorten = false
	var texts []string
	for _, message := range messages {
		texts = append(texts, message.Text())
		for _, part := range message.Parts {
			if part.Kind != agent.PartText {
				start.Media = append(start.Media, part)
			}
		}
	}
	text := strings.Join(texts, "\n\n")
	if m.arguments(t.agent) && strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid([]byte(text)) {
		start.Args = json.RawMessage(text)
	} else {
		start.Args, _ = json.Marshal(map[string]string{"prompt": text}) // a string always encodes
	}
	return start
}

// arguments reports whether an agent has other arguments than a prompt.
func (m *model) arguments(slug string) bool {
	if m.server == nil {
		return false
	}
	i := m.agentIndex(slug)
	var schema struct{ Properties map[string]json.RawMessage }
	if i < 0 || json.Unmarshal(m.server.agents[i].Schema, &schema) != nil {
		return false
	}
	_, prompt := schema.Properties["prompt"]
	return !prompt || len(schema.Properties) > 1
}

func (r *run) put(item any) {
	r.mu.Lock()
	r.queue = append(r.queue, item)
	r.mu.Unlock()
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}

// read reads the events until the run or its connection ends.
func (r *run) read() {
	why := ""
	for e, err := range r.held.Events() {
		if err == nil {
			r.put(e)
			continue
		}
		if cause := r.held.Cause(); cause != nil {
			err = cause
		}
		why = err.Error()
		if wsconn.CodeOf(err) == wsconn.Replaced {
			why = "another client directs it now"
		}
		if remote.Gone(err) {
			why = serverEnded
		}
		if _, ok := errors.AsType[*wsconn.RefusedError](err); !ok && r.ctx.Err() != nil {
			why = ""
		}
	}
	r.put(ended(why))
	_ = r.held.Close() // the run has ended, or its connection
}

func (r *run) next(t *talk) tea.Cmd {
	return func() tea.Msg {
		<-r.arrived
		r.mu.Lock()
		wait := pace - time.Since(r.last)
		r.mu.Unlock()
		time.Sleep(wait)
		r.mu.Lock()
		defer r.mu.Unlock()
		items := r.queue
		r.queue, r.last = nil, time.Now()
		return arrivedMsg{t, r, items}
	}
}

// apply changes the conversation by what has arrived. It returns notices for the person,
// and whether the run is over.
func (t *talk) apply(items []any) (notices []string, over bool) {
	for _, item := range items {
		switch item := item.(type) {
		case agent.Event:
			if item.Depth == 0 && item.Session != "" {
				t.session = item.Session
			}
			t.tree.Apply(item)
			if item.Kind == agent.EventMessage && item.Input && item.Depth == 0 && len(t.sent) > 0 {
				t.sent = t.sent[1:]
			}
			switch item.Kind {
			case agent.EventQuestion:
				t.answerGranted()
			case agent.EventSetup:
				t.atTerminal(item.Specs)
			}
		case notice:
			notices = append(notices, string(item))
		case ended:
			over = true
			t.run, t.reason = nil, string(item)
			if q := t.question(); q != nil {
				t.tree.Answered(q.Question)
			}
			t.asked = ""
		}
	}
	return notices, over
}

// atTerminal notes the tools that talk to the person at the terminal, which a server does not
// have.
func (t *talk) atTerminal(specs []agent.ToolSpec) {
	for _, s := range specs {
		if slices.Contains(s.Locks, "terminal") {
			t.lacking = append(t.lacking, s.Name)
		}
	}
}

func (t *talk) busy() bool { return t.run != nil }

// leave leaves the run in progress, which continues.
func (t *talk) leave() {
	if t.run != nil {
		t.run.held.Leave()
		t.run = nil
	}
}

func (t *talk) stop() {
	if t.run != nil {
		t.cancels++
		_ = t.run.held.Cancel("a person stopped it") // the end of the connection is reported elsewhere
	}
}

// state is what the conversation does, in a word.
func (t *talk) state() string {
	switch {
	case t.tree.Question() != nil:
		return "asks"
	case t.busy() && t.cancels > 0:
		return "stopping"
	case t.busy():
		return "running"
	case t.waiting != nil:
		return "starting"
	case t.reason != "":
		return "lost"
	case t.tree.Root == nil:
		return "new"
	}
	return t.tree.Root.State().String()
}

// lost says what a person can do about a run whose connection ended before it.
func (t *talk) lost() string {
	if t.session == "" {
		return "the run did not start: " + t.reason
	}
	return fmt.Sprintf("the connection to the run ended: %s. The session is kept: enter resumes its run, or sends what you typed; agents tui --attach %s opens it again", t.reason, t.session)
}
