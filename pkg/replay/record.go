package replay

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Record is a root session with the sessions of its sub-agents. It does not
// change once it is made; several Players may share it.
type Record struct {
	// Session, Agent and Source are those of the root session.
	Session string
	Agent   string
	Source  string

	root     *session
	sessions map[string]*session // by path
	calls    []*call             // in the order in which they were asked for
	order    order
}

// Turns is how many answers the root's model gave.
func (r *Record) Turns() int { return r.root.state.Turn }

// Prompts are what the root agent was asked, in order.
func (r *Record) Prompts() []agent.Message {
	var list []agent.Message
	for _, run := range r.root.runs {
		if !run.goesOn {
			list = append(list, run.prompt)
		}
	}
	return list
}

// A session is one recorded conversation.
type session struct {
	path      string
	open      agent.Event // of kind session
	runs      []*run
	asks      map[int][]*ask // by turn
	summaries map[int][]summary
	calls     map[place]*call

	state agent.Session // what the events so far add up to
	setup *setup        // with what the model is asked; nil if nothing says it
	fails *agent.Event  // the last failure of a request; nil if something followed
	epoch int           // compactions so far
}

// A run is one prompt and what came of it, or what came of going on with a run that
// had ended without an answer.
type run struct {
	opening  []agent.Message // before the prompt of the first run
	prompt   agent.Message
	goesOn   bool // it has no prompt
	checked  bool // its answers were put to Accept
	limits   *agent.Limits
	asked    bool     // something followed the prompt
	refused  []string // what was wrong with answers that were not accepted
	setup    *setup   // of its first request
	end      *agent.Event
	maxTurns int // 0 if the limit of turns did not end it
}

// A setup is what a model is asked with.
type setup struct {
	model  string
	system string
	tools  []agent.ToolSpec
}

// An ask is a request of the loop: which conversation the model was, or may have
// been, asked to go on with, and what came of it.
type ask struct {
	of       *session
	kind     askKind
	turn     int
	epoch    int // compactions before it
	messages []agent.Message
	setup    *setup
	response *agent.Response
	failure  *agent.Event // nil if nothing says it
	end      *agent.Event
}

// A summary is what came of a request for one.
type summary struct {
	response *agent.Response
	err      error
}

// modelError is the error of the model that a failure records.
func modelError(e *agent.Event, model string) error {
	return &agent.ModelError{Message: strings.TrimPrefix(e.Error, "ask model "+model+": "), TooLong: e.TooLong}
}

type askKind int

const (
	answered askKind = iota
	// shortened: a compaction followed. If the conversation was sent at all, the
	// model refused it as too long.
	shortened
	ended   // the run came to its end instead of an answer
	limited // the limit of turns ended it: the model was not asked
	left    // nothing followed: the process died, or the session goes on elsewhere
)

// A place is where a call stands in its session: turn and position, from 1.
type place struct{ turn, n int }

// A call is a recorded tool call.
type call struct {
	agent   string
	at      place
	path    string // of the session that it may have started
	call    agent.ToolCall
	verdict *agent.Event // of the policy
	started *agent.Event
	result  *agent.ToolResult // nil if there is none
	nested  []*session        // that it started, in order
}

// New reads the events of a session, with those of its sub-agents, in the order in
// which they happened.
func New(events iter.Seq2[agent.Event, error]) (*Record, error) {
	f := &folding{rec: &Record{sessions: map[string]*session{}}, byID: map[string]*session{}, setups: map[string]*setup{}}
	for e, err := range events {
		if err == nil {
			err = f.fold(&e)
		}
		if err != nil {
			return nil, err
		}
	}
	root := f.rec.root
	switch {
	case root == nil:
		return nil, errors.New("the record is empty")
	case !root.prompts():
		return nil, fmt.Errorf("session %s has no prompt", root.open.Session)
	}
	for _, s := range f.rec.sessions {
		s.leave()
	}
	return f.rec, nil
}

// folding is a Record in the making.
type folding struct {
	rec    *Record
	byID   map[string]*session
	setups map[string]*setup // by digest, which says the rest once
}

// fold takes in one event.
func (f *folding) fold(e *agent.Event) error {
	if !e.Kind.Lasting() {
		return nil
	}
	s := f.byID[e.Session]
	if s == nil {
		var err error
		if s, err = f.begin(e); s == nil {
			return err
		}
	}
	if e.Message != nil || e.Kind != agent.EventMessage && e.Kind != agent.EventAnswer { // Apply refuses them
		s.note(f, e)
	}
	if err := s.state.Apply(*e); err != nil {
		return err
	}
	if e.Kind == agent.EventAnswer {
		f.called(s, e)
	}
	return nil
}

// begin opens a session. A sub-agent's whose call is not in the record is none
// that could be asked for, and nil.
func (f *folding) begin(e *agent.Event) (*session, error) {
	s := &session{open: *e, asks: map[int][]*ask{}, summaries: map[int][]summary{}, calls: map[place]*call{}}
	switch {
	case f.rec.root == nil && e.Kind != agent.EventSession:
		return nil, fmt.Errorf("session %s does not begin at its beginning, but with an event %s", e.Session, e.Kind)
	case f.rec.root == nil:
		f.rec.root, f.rec.Session, f.rec.Agent, f.rec.Source = s, e.Session, e.Agent, e.Source
	default:
		id, at, ok := parseKey(e.Parent)
		if up := f.byID[id]; ok && up != nil && up.calls[at] != nil {
			c := up.calls[at]
			s.path = nestedPath(c.path, len(c.nested))
			c.nested = append(c.nested, s)
			break
		}
		return nil, nil
	}
	f.byID[e.Session], f.rec.sessions[s.path] = s, s
	f.rec.order.add(step{path: s.path, kind: agent.EventSession})
	return s, nil
}

// parseKey takes an Invocation's Key apart.
func parseKey(key string) (session string, at place, ok bool) {
	rest, n, ok1 := cutLast(key)
	session, turn, ok2 := cutLast(rest)
	var err1, err2 error
	at.n, err1 = strconv.Atoi(n)
	at.turn, err2 = strconv.Atoi(turn)
	return session, at, ok1 && ok2 && err1 == nil && err2 == nil
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// callPath is the path of the session that a call of the session at path starts.
func callPath(path string, at place) string { return fmt.Sprintf("%s/%d.%d", path, at.turn, at.n) }

// nestedPath tells the sessions of one call apart: a tool server that asks its
// client's model several times starts as many.
func nestedPath(path string, before int) string {
	if before == 0 {
		return path
	}
	return fmt.Sprintf("%s+%d", path, before)
}

// note takes down what e says of requests and calls, before e changes the state.
func (s *session) note(f *folding, e *agent.Event) {
	turn := s.state.Turn + 1
	if e.Kind == agent.EventMessage && (e.Attempt == 0 || len(s.runs) == 0) {
		s.prompted(*e.Message)
		s.runs[len(s.runs)-1].limited(e)
		return
	}
	if len(s.runs) == 0 {
		return
	}
	r := s.runs[len(s.runs)-1]
	if r.end != nil && s.path == "" {
		r = &run{goesOn: true}
		s.runs = append(s.runs, r)
	}
	r.asked = true
	switch e.Kind {
	case agent.EventResume:
		r.limited(e)
	case agent.EventMessage:
		r.refused, r.checked = append(r.refused, e.Error), true
	case agent.EventSetup:
		f.rec.order.add(step{s.path, e.Kind, place{turn: turn}})
		s.setup = f.setupOf(e)
	case agent.EventAnswer:
		f.rec.order.add(step{s.path, e.Kind, place{turn: turn}})
		s.asked(r, &ask{kind: answered, response: &agent.Response{Message: *e.Message, Finish: e.Finish, Usage: usage(e), Model: e.Model}})
	case agent.EventCompaction:
		s.asked(r, &ask{kind: shortened})
		if e.Message != nil {
			s.summaries[turn] = append(s.summaries[turn], summary{response: &agent.Response{Message: *e.Message, Finish: agent.FinishStop, Usage: usage(e)}})
		}
		s.epoch++
	case agent.EventFailure:
		if e.Summary {
			s.summaries[turn] = append(s.summaries[turn], summary{err: errors.New(e.Error)})
		} else {
			s.fails = e
		}
	case agent.EventVerdict:
		if c := s.call(e); c != nil {
			c.verdict = e
		}
	case agent.EventCallStarted, agent.EventCallEnded:
		if c := s.call(e); c != nil {
			f.rec.order.add(step{s.path, e.Kind, c.at})
			c.note(e)
		}
	case agent.EventEnd:
		f.rec.order.add(step{s.path, e.Kind, place{turn: turn}})
		s.ends(r, e)
	}
}

// limited notes the limits with which the run began.
func (r *run) limited(e *agent.Event) {
	r.limits = e.Limits
	r.checked = e.Limits != nil && e.Limits.Answers > 0
}

func (c *call) note(e *agent.Event) {
	if e.Kind == agent.EventCallStarted {
		c.started = e
		return
	}
	c.result = e.Result
}

func usage(e *agent.Event) agent.Usage {
	if e.Usage == nil {
		return agent.Usage{}
	}
	return *e.Usage
}

// setupOf is what a setup event says, or said when its digest was new.
func (f *folding) setupOf(e *agent.Event) *setup {
	known := f.setups[e.Digest]
	if known == nil || e.System != "" || len(e.Specs) > 0 {
		known = &setup{e.Model, e.System, e.Specs}
		f.setups[e.Digest] = known
	}
	if known.model != e.Model {
		known = &setup{e.Model, known.system, known.tools}
	}
	return known
}

// prompted notes a message of the user. Those at the very beginning open the
// conversation, but for the last of them.
func (s *session) prompted(m agent.Message) {
	if len(s.runs) == 1 && !s.runs[0].asked {
		r := s.runs[0]
		r.opening, r.prompt = append(r.opening, r.prompt), m
		return
	}
	s.leave()
	s.runs = append(s.runs, &run{prompt: m})
}

// prompts reports whether anything was asked: what opens a conversation is no
// prompt.
func (s *session) prompts() bool {
	return len(s.runs) > 0 && s.runs[0].prompt.Role == agent.RoleUser
}

// leave notes that the last run, if it is not over, goes no further.
func (s *session) leave() {
	if len(s.runs) == 0 {
		return
	}
	if r := s.runs[len(s.runs)-1]; r.end == nil && s.waits() {
		s.asked(r, &ask{kind: left})
	}
}

// waits reports whether the conversation is one that the model has to continue.
func (s *session) waits() bool {
	n := len(s.state.Messages)
	return n > 0 && len(s.state.Calls) == 0 && s.state.Messages[n-1].Role != agent.RoleAssistant
}

// asked notes a request of the run that is under way.
func (s *session) asked(r *run, a *ask) {
	a.of, a.turn, a.epoch, a.setup, a.failure = s, s.state.Turn+1, s.epoch, s.setup, s.fails
	s.fails = nil
	// The state may append to it, so the array is shared and the length is not.
	a.messages = s.state.Messages[:len(s.state.Messages):len(s.state.Messages)]
	s.asks[a.turn] = append(s.asks[a.turn], a)
	if r.setup == nil {
		r.setup = s.setup
	}
}

// ends notes the end of a run.
func (s *session) ends(r *run, e *agent.Event) {
	r.end = e
	r.checked = r.checked || e.Status == agent.StatusInvalid
	if !s.waits() {
		return
	}
	kind := ended
	if e.Status == agent.StatusLimit && strings.HasPrefix(e.Error, agent.ErrTurns.Error()) {
		kind, r.maxTurns = limited, s.state.RunTurns-1
	}
	s.asked(r, &ask{kind: kind, end: e})
}

// called notes the calls of an answer.
func (f *folding) called(s *session, e *agent.Event) {
	for i, c := range e.Message.Calls {
		at := place{s.state.Turn, i + 1}
		s.calls[at] = &call{agent: e.Agent, at: at, path: callPath(s.path, at), call: c}
		f.rec.calls = append(f.rec.calls, s.calls[at])
	}
}

// call is the call of the last answer that e is about.
func (s *session) call(e *agent.Event) *call {
	at := place{s.state.Turn, e.N}
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

// allAsks are the requests of the session, in order.
func (s *session) allAsks() []*ask {
	var list []*ask
	for turn := 1; s.asks[turn] != nil; turn++ {
		list = append(list, s.asks[turn]...)
	}
	return list
}
