package agent

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Session is one conversation. It changes only through Apply, so that events
// read back from a journal rebuild it exactly. It is not safe for concurrent
// use; a Runner guards the one it drives.
type Session struct {
	ID     string
	Agent  string
	Source string // of the agent
	Model  string
	Parent string // Key of the call that it answers, "" at the root
	Depth  int
	// Messages is the conversation. Its elements are never changed.
	Messages []Message
	// Turn counts the model's answers, and RunTurns those of the last run.
	Turn     int
	RunTurns int
	// Ended is the Status of the last run; empty while one is under way.
	Ended Status

	ids     map[string]bool // every call id since the last compaction
	finish  Finish          // of the last answer
	results []ToolResult    // of the last answer's calls
	states  []callState     // of these calls
	open    int             // how many have no result
	attempt int             // the answer of the run that is asked for; 0 is the first
	size    size
	setup   setup
}

// A callState says how far a call came.
type callState uint8

const (
	callWaits callState = iota
	callStarted
	callEnded
)

// setup is what the model was last asked with.
type setup struct {
	digest string
	system string
	tools  []string // nil if not known
}

// A Step is what a session needs next.
type Step struct {
	Kind StepKind
	// Calls are the calls to run, in their order, for StepCalls. Cut says
	// that the answer broke off: they must be answered without running.
	Calls []PendingCall
	Cut   bool
}

// A PendingCall is a call without a result.
type PendingCall struct {
	ToolCall
	N   int    // position in its answer, from 0
	Key string // see Invocation.Key
	// Started says that the call began once, and its process ended without
	// recording what came of it.
	Started bool
}

// A StepKind tells the kinds of Step apart.
type StepKind int

// What a session can need next.
const (
	StepPrompt StepKind = iota // a user message: the last run is over
	StepModel                  // an answer of the model
	StepCalls                  // results of tool calls
)

// Next says what the session needs. It is a pure function of the events
// applied so far: whoever drives a session does what Next says and applies the
// events that come of it.
func (s *Session) Next() Step {
	if s.open > 0 {
		return Step{Kind: StepCalls, Calls: s.pending(), Cut: s.finish != FinishStop}
	}
	if len(s.Messages) == 0 || s.Messages[len(s.Messages)-1].Role == RoleAssistant {
		return Step{Kind: StepPrompt}
	}
	return Step{Kind: StepModel}
}

// Unfinished reports whether the last run was left before its end.
func (s *Session) Unfinished() bool {
	return s.Next().Kind != StepPrompt || len(s.Messages) > 0 && s.Ended == ""
}

func (s *Session) pending() []PendingCall {
	calls := s.Messages[len(s.Messages)-1].Calls
	list := make([]PendingCall, 0, s.open)
	for i, c := range calls {
		if s.states[i] != callEnded {
			list = append(list, PendingCall{ToolCall: c, N: i, Key: s.key(i), Started: s.states[i] == callStarted})
		}
	}
	return list
}

// key names the call at position n of the last answer.
func (s *Session) key(n int) string {
	return fmt.Sprintf("%s.%d.%d", s.ID, s.Turn, n+1)
}

// Answer is the model's last message, if the conversation ends with one that
// asks for no call.
func (s *Session) Answer() (Message, bool) {
	if len(s.Messages) == 0 || s.open > 0 {
		return Message{}, false
	}
	last := s.Messages[len(s.Messages)-1]
	return last, last.Role == RoleAssistant
}

// Apply changes the session as e says. Events that are for display change
// nothing. An event that does not fit the session is an error and changes
// nothing either.
func (s *Session) Apply(e Event) error {
	switch e.Kind {
	case EventSession:
		s.ID, s.Agent, s.Source, s.Model, s.Parent, s.Depth = e.Session, e.Agent, e.Source, e.Model, e.Parent, e.Depth
	case EventMessage:
		return s.applyMessage(e)
	case EventAnswer:
		return s.applyAnswer(e)
	case EventSetup:
		s.applySetup(e)
	case EventCompaction:
		return s.applyCompaction(e)
	case EventCallStarted:
		return s.applyStarted(e)
	case EventCallEnded:
		return s.applyResult(e)
	case EventEnd:
		s.Ended = e.Status
	}
	return nil
}

func (s *Session) applyMessage(e Event) error {
	if e.Message == nil || e.Message.Role != RoleUser && e.Message.Role != RoleAssistant || len(e.Message.Calls) > 0 {
		return fmt.Errorf("session %s: %s event without a message of the user or the model's words", s.ID, e.Kind)
	}
	if s.open > 0 {
		return fmt.Errorf("session %s: a user message while %d calls have no result", s.ID, s.open)
	}
	s.add(*e.Message)
	s.Ended, s.attempt = "", e.Attempt
	if e.Attempt == 0 {
		s.RunTurns = 0
	}
	return nil
}

// add appends a message.
func (s *Session) add(m Message) {
	s.Messages = append(s.Messages, m)
	s.size.bytes += messageBytes(m)
}

func (s *Session) applySetup(e Event) {
	s.Model = e.Model
	if e.Digest == s.setup.digest {
		return
	}
	s.setup = setup{digest: e.Digest, system: e.System}
	for _, spec := range e.Specs {
		s.setup.tools = append(s.setup.tools, spec.Name)
	}
}

// applyCompaction puts a shorter conversation in the place of the one there is.
// The event holds all that a session is at this point, so that one read from a
// journal can begin here.
func (s *Session) applyCompaction(e Event) error {
	if s.open > 0 {
		return fmt.Errorf("session %s: a compaction while %d calls have no result", s.ID, s.open)
	}
	s.ID, s.Agent, s.Source, s.Model, s.Parent, s.Depth = e.Session, e.Agent, e.Source, e.Model, e.Parent, e.Depth
	s.Turn, s.RunTurns, s.Ended, s.attempt = e.Turn, e.N, "", e.Attempt
	s.Messages, s.ids, s.size = nil, map[string]bool{}, size{}
	s.finish = FinishStop
	s.setup = setup{digest: e.Digest}
	for _, m := range e.Messages {
		s.add(m)
		for _, c := range m.Calls {
			s.ids[c.ID] = true
		}
	}
	return nil
}

func (s *Session) applyAnswer(e Event) error {
	if e.Message == nil || e.Message.Role != RoleAssistant {
		return fmt.Errorf("session %s: %s event without a model's message", s.ID, e.Kind)
	}
	if s.open > 0 {
		return fmt.Errorf("session %s: an answer while %d calls have no result", s.ID, s.open)
	}
	s.add(*e.Message)
	s.Turn++
	s.RunTurns++
	s.Ended = "" // a run that ended without an answer goes on
	s.finish = e.Finish
	if e.Usage != nil {
		s.size.counted(e.Usage.InputTokens + e.Usage.OutputTokens)
	}
	n := len(e.Message.Calls)
	s.results, s.states, s.open = make([]ToolResult, n), make([]callState, n), n
	if s.ids == nil {
		s.ids = map[string]bool{}
	}
	for _, c := range e.Message.Calls {
		s.ids[c.ID] = true
	}
	return nil
}

func (s *Session) applyStarted(e Event) error {
	if s.open > 0 {
		if i := s.position(s.Messages[len(s.Messages)-1].Calls, e); i >= 0 {
			s.states[i] = callStarted
			return nil
		}
	}
	return fmt.Errorf("session %s: the start of a call that nobody asked for (%s)", s.ID, e.CallID)
}

func (s *Session) applyResult(e Event) error {
	if e.Result == nil || s.open == 0 {
		return fmt.Errorf("session %s: a result that no call waits for (%s)", s.ID, e.CallID)
	}
	calls := s.Messages[len(s.Messages)-1].Calls
	i := s.position(calls, e)
	if i < 0 {
		return fmt.Errorf("session %s: a result that no call waits for (%s)", s.ID, e.CallID)
	}
	s.results[i], s.states[i] = *e.Result, callEnded
	s.open--
	if s.open == 0 {
		s.add(Message{Role: RoleTool, Results: s.results})
		s.results, s.states = nil, nil
	}
	return nil
}

// position finds the open call that e answers. e.N, when it is right, saves
// the search: turns may have thousands of calls.
func (s *Session) position(calls []ToolCall, e Event) int {
	if i := e.N - 1; i >= 0 && i < len(calls) && calls[i].ID == e.CallID && s.states[i] != callEnded {
		return i
	}
	for i, c := range calls {
		if c.ID == e.CallID && s.states[i] != callEnded {
			return i
		}
	}
	return -1
}

// accept makes a model's calls fit for the session. A call whose id is empty or
// taken gets a new one: nine letters and digits, which every provider accepts.
// Arguments that are not UTF-8 could not be kept as they are; they become a text
// that is no JSON, so that the call is refused and not run with other bytes.
func (s *Session) accept(calls []ToolCall) {
	here := make(map[string]bool, len(calls))
	next := len(s.ids)
	for i := range calls {
		id := calls[i].ID
		for id == "" || s.ids[id] || here[id] {
			next++
			id = fmt.Sprintf("c%08d", next)
		}
		calls[i].ID = id
		if !utf8.ValidString(calls[i].Args) {
			calls[i].Args = "not valid UTF-8: " + strings.ToValidUTF8(calls[i].Args, "\uFFFD")
		}
		here[id] = true
	}
}
