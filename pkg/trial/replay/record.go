package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// A Record is a root session with the sessions of its sub-agents. It does not
// change after New; several Players may share it.
type Record struct {
	// Session, Agent and Source are those of the root session.
	Session string
	Agent   string
	Source  string

	events   []agent.Event // of the sessions
	root     *session
	sessions map[string]*session // by path
	calls    []*call             // in the order of the answers
}

// Turns is the number of answers of the root's model.
func (r *Record) Turns() int { return r.root.state.Turn }

// A session is one recorded conversation.
type session struct {
	path      string
	open      agent.Event // of kind session
	runs      []*run
	requests  map[int][]*request // by turn
	summaries map[int][]summary
	inputs    map[moment][]input // what a person sent during a run, and the messages of background agents that ended
	calls     map[position]*call
	closings  map[int]*agent.Event // messages that ask for the answer, by the turn of it

	state       agent.Session   // what the events so far add up to
	setup       *setup          // of the next request; nil if nothing says it
	failure     *agent.Event    // the last failure of a request; nil if something followed
	context     json.RawMessage // of the next run; nil if nothing says it
	compactions int             // so far
}

// A run is one prompt and the events that follow it, or those that follow the
// resumption of a run that had ended without an answer.
type run struct {
	opening []agent.Message // before the prompt of the first run
	prompt  agent.Message
	resumed bool            // it has no prompt
	compact bool            // and it only shortened the conversation
	context json.RawMessage // with which it began, if that is recorded
	begun   bool            // something followed the prompt
	ended   bool
}

// A setup is with what a model is asked.
type setup struct {
	model  string
	system string
	tools  []agent.ToolSpec
}

// A request is a point of a run at which the model was asked, or would have been
// asked if the run had not ended, with what followed.
type request struct {
	of          *session
	outcome     requestOutcome
	turn        int
	compactions int // before it
	messages    []agent.Message
	setup       *setup
	response    *agent.Response
	failure     *agent.Event // nil if nothing says it
	end         *agent.Event
}

type requestOutcome int

const (
	answered requestOutcome = iota
	// compacted: a compaction followed. If the request was made at all, the model
	// refused it as too long.
	compacted
	ended      // the run ended instead of an answer
	limited    // the limit of turns ended the run: the model was not asked
	unfinished // nothing followed: the process died, or the session continues elsewhere
)

// A summary is the result of a request for a summary.
type summary struct {
	response *agent.Response
	err      error
}

// modelError is the error of the model that a failure records.
func modelError(e *agent.Event, model string) error {
	return &agent.ModelError{Message: strings.TrimPrefix(e.Error, "ask model "+model+": "), TooLong: e.TooLong}
}

// A moment is before the request of a turn in a run; both count from 1.
type moment struct{ run, turn int }

// An input is a message or an order that arrives during a run. If it says that a background agent has
// ended, of is the call that started the agent; otherwise of is nil.
type input struct {
	agent.Directive
	of *call
}

// A position is that of a call in its session: turn and number, from 1.
type position struct{ turn, n int }

// path is the path of the session that a call at p of the session at path starts.
// A tool server that asks its client's model several times starts more than one:
// before is how many there were.
func (p position) path(path string, before int) string {
	path = fmt.Sprintf("%s/%d.%d", path, p.turn, p.n)
	if before > 0 {
		path = fmt.Sprintf("%s+%d", path, before)
	}
	return path
}

type call struct {
	agent   string
	of      *session
	at      position
	call    agent.ToolCall
	verdict *agent.Event // of the policy
	started *agent.Event
	result  *agent.ToolResult // nil if there is none
	context json.RawMessage   // what it has left; nil if it did not change it
	nested  int               // sessions that it started
}

// New reads the events of a session, with those of its sub-agents, in the order in
// which they happened.
func New(events iter.Seq2[agent.Event, error]) (*Record, error) {
	r := &reader{rec: &Record{sessions: map[string]*session{}}, byID: map[string]*session{}, byKey: map[string]*call{}, setups: map[string]*setup{}}
	for e, err := range events {
		if err == nil {
			err = r.read(&e)
		}
		if err != nil {
			return nil, err
		}
	}
	root := r.rec.root
	switch {
	case root == nil:
		return nil, errors.New("the record is empty")
	case len(root.runs) == 0 || root.runs[0].prompt.Role != agent.RoleUser:
		return nil, fmt.Errorf("session %s has no prompt", root.open.Session)
	}
	for _, s := range r.rec.sessions {
		s.leave()
	}
	return r.rec, nil
}

// A reader makes a Record of events.
type reader struct {
	rec    *Record
	byID   map[string]*session
	byKey  map[string]*call
	setups map[string]*setup // by digest; an event repeats the digest alone
}

func (r *reader) read(e *agent.Event) error {
	if !e.Kind.Lasting() {
		return nil
	}
	s := r.byID[e.Session]
	if s == nil {
		var err error
		if s, err = r.open(e); s == nil {
			return err
		}
	}
	if e.Message != nil || e.Kind != agent.EventMessage && e.Kind != agent.EventAnswer { // Apply refuses them
		r.note(s, e)
	}
	if err := s.state.Apply(*e); err != nil {
		return err
	}
	if e.Kind == agent.EventAnswer {
		r.addCalls(s, e)
	}
	r.rec.events = append(r.rec.events, *e)
	return nil
}

// open adds a session. It returns nil for one whose call is not in the record.
func (r *reader) open(e *agent.Event) (*session, error) {
	s := &session{open: *e, requests: map[int][]*request{}, summaries: map[int][]summary{}, inputs: map[moment][]input{}, calls: map[position]*call{}, closings: map[int]*agent.Event{}}
	if r.rec.root == nil {
		if e.Kind != agent.EventSession {
			return nil, fmt.Errorf("session %s does not begin at its beginning, but with an event %s", e.Session, e.Kind)
		}
		r.rec.root, r.rec.Session, r.rec.Agent, r.rec.Source = s, e.Session, e.Agent, e.Source
	} else {
		c := r.byKey[e.Parent]
		if c == nil {
			return nil, nil
		}
		s.path = c.at.path(c.of.path, c.nested)
		c.nested++
	}
	r.byID[e.Session], r.rec.sessions[s.path] = s, s
	return s, nil
}

// note takes down what e says of requests and calls, before e changes the state.
func (r *reader) note(s *session, e *agent.Event) {
	if e.Kind == agent.EventMessage && (!e.Continues() || len(s.runs) == 0) {
		s.addPrompt(*e.Message)
		return
	}
	if e.Kind == agent.EventContext && r.noteContext(s, e) || len(s.runs) == 0 {
		return
	}
	if e.Kind == agent.EventMessage && e.Input && !strings.HasPrefix(e.Message.Text(), "["+runner.ToolsChanged) {
		s.sent(agent.Directive{Message: e.Message, Key: e.Key, Outcome: string(e.Status), N: e.N}, r.byKey[e.Key])
	}
	if e.Kind == agent.EventMessage && e.Closing {
		s.closings[s.state.Turn+1] = e
	}
	last := s.runs[len(s.runs)-1]
	if last.ended && s.path == "" {
		last = &run{resumed: true, compact: e.Kind == agent.EventResume && e.Summary}
		s.runs = append(s.runs, last)
	}
	last.begun = true
	turn := s.state.Turn + 1
	switch e.Kind {
	case agent.EventSetup:
		s.setup = r.setupOf(e)
	case agent.EventAnswer:
		s.add(&request{outcome: answered, response: &agent.Response{Message: *e.Message, Finish: e.Finish, Usage: usage(e), Model: e.Model, Fallback: e.Fallback, Failed: e.Error}})
	case agent.EventCompaction:
		if e.Input {
			s.sent(agent.Directive{Compact: true}, nil)
		} else {
			s.add(&request{outcome: compacted})
		}
		if e.Message != nil {
			s.summaries[turn] = append(s.summaries[turn], summary{response: &agent.Response{Message: *e.Message, Finish: agent.FinishStop, Usage: usage(e), Fallback: e.Fallback}})
		}
		s.compactions++
	case agent.EventFailure:
		if e.Summary {
			s.summaries[turn] = append(s.summaries[turn], summary{err: &agent.ModelError{Message: e.Error, Usage: usage(e)}})
			if e.Input {
				s.sent(agent.Directive{Compact: true}, nil)
			}
		} else {
			s.failure = e
		}
	case agent.EventVerdict, agent.EventCallStarted, agent.EventCallEnded:
		if c := s.call(e); c != nil {
			c.note(e)
		}
	case agent.EventEnd:
		last.ended = true
		s.addEnd(e)
	}
}

// sent adds what a person sent during the last run, or the answer of an agent in the background to
// a call.
func (s *session) sent(d agent.Directive, of *call) {
	at := moment{len(s.runs), s.state.Turn + 1}
	s.inputs[at] = append(s.inputs[at], input{d, of})
}

// noteContext notes what e says of the context: for the run that begins with it, or for
// the call that changed it and those above, whose agents may be in other processes.
func (r *reader) noteContext(s *session, e *agent.Event) (begins bool) {
	if s.path == "" && e.CallID == "" {
		if n := len(s.runs); n > 0 && s.runs[n-1].resumed && !s.runs[n-1].ended {
			s.runs[n-1].context = e.Context
		} else {
			s.context = e.Context
		}
		return true
	}
	c := s.call(e)
	if c == nil {
		c = r.byKey[s.open.Parent]
	}
	for ; c != nil; c = r.byKey[c.of.open.Parent] {
		c.context = e.Context
	}
	return false
}

func (c *call) note(e *agent.Event) {
	switch e.Kind {
	case agent.EventVerdict:
		c.verdict = e
	case agent.EventCallStarted:
		c.started = e
	case agent.EventCallEnded:
		c.result = e.Result
	}
}

func usage(e *agent.Event) agent.Usage {
	if e.Usage == nil {
		return agent.Usage{}
	}
	return *e.Usage
}

// setupOf is what a setup event says, or what an earlier one with its digest said.
func (r *reader) setupOf(e *agent.Event) *setup {
	known := r.setups[e.Digest]
	if known == nil || e.System != "" || len(e.Specs) > 0 {
		known = &setup{e.Model, e.System, e.Specs}
		r.setups[e.Digest] = known
	}
	return &setup{e.Model, known.system, known.tools}
}

// addPrompt adds a message of the user. Those at the very beginning open the
// conversation, but for the last of them.
func (s *session) addPrompt(m agent.Message) {
	if len(s.runs) == 1 && !s.runs[0].begun {
		r := s.runs[0]
		r.opening, r.prompt = append(r.opening, r.prompt), m
		return
	}
	s.leave()
	s.runs = append(s.runs, &run{prompt: m, context: s.context})
	s.context = nil
}

// leave notes that nothing follows the last run, if it has no end.
func (s *session) leave() {
	if n := len(s.runs); n > 0 && !s.runs[n-1].ended && s.waits() {
		s.add(&request{outcome: unfinished})
	}
}

// waits reports whether the next message is the model's.
func (s *session) waits() bool {
	n := len(s.state.Messages)
	return n > 0 && len(s.state.Calls) == 0 && s.state.Messages[n-1].Role != agent.RoleAssistant
}

func (s *session) add(r *request) {
	r.of, r.turn, r.compactions, r.setup, r.failure = s, s.state.Turn+1, s.compactions, s.setup, s.failure
	s.failure = nil
	// The state may append to it, so the array is shared and the length is not.
	r.messages = s.state.Messages[:len(s.state.Messages):len(s.state.Messages)]
	s.requests[r.turn] = append(s.requests[r.turn], r)
}

// addEnd adds the end of a run that the model did not answer.
func (s *session) addEnd(e *agent.Event) {
	switch {
	case !s.waits():
	case e.Status == agent.StatusLimit && strings.HasPrefix(e.Error, agent.ErrTurns.Error()):
		s.add(&request{outcome: limited, end: e})
	default:
		s.add(&request{outcome: ended, end: e})
	}
}

func (r *reader) addCalls(s *session, e *agent.Event) {
	for i, tc := range e.Message.Calls {
		at := position{s.state.Turn, i + 1}
		c := &call{agent: e.Agent, of: s, at: at, call: tc}
		s.calls[at], r.byKey[fmt.Sprintf("%s.%d.%d", e.Session, at.turn, at.n)] = c, c
		r.rec.calls = append(r.rec.calls, c)
	}
}

func (s *session) call(e *agent.Event) *call {
	at := position{s.state.Turn, e.N}
	if c := s.calls[at]; c != nil && c.call.ID == e.CallID {
		return c
	}
	for at.n = 1; s.calls[at] != nil; at.n++ {
		if s.calls[at].call.ID == e.CallID {
			return s.calls[at]
		}
	}
	return nil
}

// allRequests are the requests of the session, in order.
func (s *session) allRequests() []*request {
	var list []*request
	for turn := 1; s.requests[turn] != nil; turn++ {
		list = append(list, s.requests[turn]...)
	}
	return list
}
