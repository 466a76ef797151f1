package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// A Session is one conversation, as a state machine: Next says what it needs,
// the methods of transition.go turn what came of that into events, and Apply is
// the only way in which it changes. So events read back from a journal rebuild
// it exactly, and any driver that does what Next says makes the same
// conversation. It marshals to the JSON of its State and back. It is not safe
// for concurrent use; a Runner guards the one it drives.
type Session struct {
	State

	// What follows from State.
	ids   map[string]bool // the ids of the calls in Messages
	open  int             // how many calls of the last answer have no result
	bytes int             // of Messages, as messageBytes counts
}

// A State is all that a Session is: plain data that a process can hand to
// another one as JSON. Callers read it; only Apply changes it.
type State struct {
	ID     string `json:"id"`
	Agent  string `json:"agent"`
	Source string `json:"source,omitempty"` // of the agent
	Model  string `json:"model,omitempty"`
	// Parent is the Key of the call that the session answers, "" at the root,
	// and Depth the number of such calls above it.
	Parent string `json:"parent,omitempty"`
	Depth  int    `json:"depth,omitempty"`
	// Messages is the conversation. Its elements are never changed.
	Messages []Message `json:"messages,omitempty"`
	// Turn counts the model's answers, and RunTurns those of the last run.
	Turn     int `json:"turn,omitempty"`
	RunTurns int `json:"run_turns,omitempty"`
	// Running is true from the prompt of a run until its end, and Ended is how
	// the last run ended; empty while one is running.
	Running bool   `json:"running,omitempty"`
	Ended   Status `json:"ended,omitempty"`
	// Limits are those of the run.
	Limits Limits `json:"limits,omitzero"`
	// Finish belongs to the last answer, and Calls to its calls while any of
	// them has no result.
	Finish Finish      `json:"finish,omitempty"`
	Calls  []CallState `json:"calls,omitempty"`
	// Attempt is the number of the answer that Accept is asked about next; 0
	// is the first.
	Attempt int `json:"attempt,omitempty"`
	// Closing is which budget is nearly spent, once the model was asked for its
	// answer because of that.
	Closing string `json:"closing,omitempty"`
	// Loop is how often the last turn repeated itself.
	Loop Loop `json:"loop,omitzero"`
	// Failure is why the run cannot go on as it is.
	Failure *Failure `json:"failure,omitempty"`
	// Stopped is the part of an answer that had arrived when the run was stopped. The next prompt
	// adds it to Messages. A resumed run asks the model again, and the new answer replaces it.
	Stopped *Message `json:"stopped,omitempty"`
	// Plan is what the results of calls have added to it.
	Plan Plan `json:"plan,omitempty"`
	// Toolgroups are those that results of calls have activated or deactivated.
	Toolgroups Toolgroups `json:"toolgroups,omitempty"`
	// Left are the calls that agents answer in the background: those of the session, and of agents
	// below it that have ended. After the end of the session, its caller has them.
	Left []LeftCall `json:"left,omitempty"`
	// Compacted says that the conversation was shortened since the last
	// answer, and NoSummary that a summary failed since then.
	Compacted bool `json:"compacted,omitempty"`
	NoSummary bool `json:"no_summary,omitempty"`
	// Setup is what the model was last asked with.
	Setup Setup `json:"setup,omitzero"`
	// Fallback is the name of the model that answers until the next prompt; "" is the
	// agent's first.
	Fallback string `json:"fallback,omitempty"`
	// Context is what the events of this session last said of the context.
	Context json.RawMessage `json:"context,omitempty"`
	// Tokens is the size of the conversation when the model last counted it,
	// 0 if it did not, and CountedBytes its size in bytes at that time.
	Tokens       int `json:"tokens,omitempty"`
	CountedBytes int `json:"counted_bytes,omitempty"`
}

// Limits are the limits of a run that the machine applies. The zero value
// means the defaults.
type Limits struct {
	// Turns is Agent.MaxTurns.
	Turns int `json:"turns,omitempty"`
	// ContextTokens is Agent.ContextTokens; -1 with NoCompaction.
	ContextTokens int `json:"context_tokens,omitempty"`
	// Answers is how many answers are put to Accept; 0 means that the first
	// one ends the run.
	Answers int `json:"answers,omitempty"`
	// LoopWarn and LoopEnd are those of the Agent; 0 is no limit, as in journals
	// from before there was one.
	LoopWarn int `json:"loop_warn,omitempty"`
	LoopEnd  int `json:"loop_end,omitempty"`
}

// A CallState says how far a call came: "" is not started, then "started" and
// "ended", with its Result.
type CallState struct {
	State  string      `json:"state,omitempty"`
	Result *ToolResult `json:"result,omitempty"`
}

const (
	callStarted = "started"
	callEnded   = "ended"
)

// A Failure is why a run cannot go on: the model, or the end of ctx.
type Failure struct {
	Status Status `json:"status"`
	Error  string `json:"error"`
	// TooLong says that the conversation does not fit the model's context:
	// the run continues if it can be shortened.
	TooLong bool `json:"too_long,omitempty"`
}

// A Setup is with what a model is asked: see EventSetup. Tools are the names
// of the tools, nil if they are not known.
type Setup struct {
	Digest string   `json:"digest,omitempty"`
	System string   `json:"system,omitempty"`
	Tools  []string `json:"tools,omitempty"`
}

// UnmarshalJSON reads a State.
func (s *Session) UnmarshalJSON(data []byte) error {
	var state State
	if err := json.Unmarshal(data, &state); err != nil {
		return err
	}
	read := Session{State: state}
	read.derive()
	if err := read.consistent(); err != nil {
		return fmt.Errorf("session %.100q: %w", state.ID, err)
	}
	*s = read
	return nil
}

// consistent returns an error for a State that no sequence of events produces, and for which
// Next could not tell what is needed.
func (s *Session) consistent() error {
	switch n := len(s.Messages); {
	case n == 0 && (s.Running || len(s.Calls) > 0):
		return errors.New("a run is in progress without a message")
	case len(s.Calls) > 0 && len(s.Calls) != len(s.last().Calls):
		return errors.New("the calls are not those of the last message")
	}
	return nil
}

// derive computes what follows from the State.
func (s *Session) derive() {
	s.ids, s.open, s.bytes = map[string]bool{}, 0, 0
	for _, m := range s.Messages {
		s.bytes += messageBytes(m)
		for _, c := range m.Calls {
			s.ids[c.ID] = true
		}
	}
	for _, c := range s.Calls {
		if c.State != callEnded {
			s.open++
		}
	}
}

// Unfinished reports whether the last run was left before its end, or ended
// without an answer, so that Resume can take it up.
func (s *Session) Unfinished() bool {
	if s.Running || len(s.Messages) == 0 || s.Ended == "" {
		return s.Running
	}
	return s.last().Role != RoleAssistant && s.refusal() == nil
}

// Answer is the model's last message, if the conversation ends with one that
// asks for no call.
func (s *Session) Answer() (Message, bool) {
	if len(s.Messages) == 0 || s.open > 0 {
		return Message{}, false
	}
	return s.last(), s.last().Role == RoleAssistant
}

func (s *Session) last() Message { return s.Messages[len(s.Messages)-1] }

// key names the call at position n of the last answer.
func (s *Session) key(n int) string {
	return fmt.Sprintf("%s.%d.%d", s.ID, s.Turn, n+1)
}

// Apply changes the session as e says. Events that are for display change
// nothing. An event that cannot follow is an error and changes nothing either.
func (s *Session) Apply(e Event) error {
	err := s.check(e)
	if err == nil {
		err = s.apply(e)
	}
	if err != nil {
		return fmt.Errorf("session %s: %s event: %w", s.ID, e.Kind, err)
	}
	return nil
}

// check finds what holds for every kind of event.
func (s *Session) check(e Event) error {
	opens := e.Kind == EventSession || e.Kind == EventCompaction
	switch {
	case !e.Kind.Lasting():
		return nil
	case e.Depth < 0 || e.Turn < 0 || e.RunTurns < 0 || e.Attempt < 0:
		return errors.New("it has a negative number")
	case s.ID == "" && !opens:
		return errors.New("the session has not begun")
	case s.ID != "" && e.Session != s.ID:
		return fmt.Errorf("it belongs to session %s", e.Session)
	}
	switch e.Kind {
	case EventSession:
		if s.ID != "" {
			return errors.New("the session has begun already")
		}
	case EventMessage, EventAnswer, EventCompaction, EventEnd:
		if s.open > 0 {
			return fmt.Errorf("%d calls have no result", s.open)
		}
	}
	switch e.Kind {
	case EventAnswer, EventFailure, EventEnd:
		if !s.Running {
			return errors.New("no run is going on")
		}
	}
	return nil
}

func (s *Session) apply(e Event) error {
	switch e.Kind {
	case EventSession:
		s.describe(e)
	case EventMessage:
		return s.applyMessage(e)
	case EventResume:
		return s.applyResume(e)
	case EventAnswer:
		return s.applyAnswer(e)
	case EventSetup:
		s.applySetup(e)
	case EventCompaction:
		if err := conversation(e.Messages); err != nil {
			return err
		}
		s.applyCompaction(e)
	case EventVerdict:
		if s.find(e) < 0 && !slices.ContainsFunc(s.Left, func(l LeftCall) bool { return l.Key == e.Key }) { // which is judged again after a crash
			return fmt.Errorf("no call %s is open", e.CallID)
		}
	case EventCallStarted:
		i := s.find(e)
		if i < 0 {
			return fmt.Errorf("no call %s is open", e.CallID)
		}
		s.Calls[i].State = callStarted
	case EventCallEnded:
		return s.applyResult(e)
	case EventFailure:
		return s.applyFailure(e)
	case EventContext:
		s.Context = e.Context
	case EventEnd:
		s.takeStoppedBack()
		s.Running, s.Ended, s.Left = false, e.Status, e.Left
	}
	return nil
}

// describe takes over what an event says of the session as a whole.
func (s *Session) describe(e Event) {
	s.ID, s.Agent, s.Source, s.Model, s.Parent, s.Depth = e.Session, e.Agent, e.Source, e.Model, e.Parent, e.Depth
}

func (s *Session) applyMessage(e Event) error {
	m := e.Message
	switch {
	case m == nil || m.Role != RoleUser && m.Role != RoleAssistant || len(m.Calls)+len(m.Results) > 0:
		return errors.New("without a message of the user or the model's words")
	case e.Attempt > 0 && (!s.Running || s.last().Role != RoleAssistant):
		return errors.New("it refuses an answer, and there is none")
	case e.Input && !s.Running:
		return errors.New("no run is going on")
	}
	if e.Closing {
		return s.applyClosing(e)
	}
	s.Loop = Loop{}
	s.told(e.Key)
	s.Left = append(slices.Clip(s.Left), e.Left...)
	if m.Role == RoleUser && (e.Begins() || s.saidStopped()) {
		s.addStopped()
	}
	s.add(*m)
	if e.Opening || e.Input || m.Role == RoleAssistant {
		return nil
	}
	s.Attempt = e.Attempt
	if e.Attempt == 0 {
		s.begin(e)
		s.RunTurns, s.Closing, s.Fallback = 0, "", ""
	}
	return nil
}

func (s *Session) begin(e Event) {
	s.Running, s.Ended, s.Failure = true, "", nil
	if e.Limits != nil {
		s.Limits = *e.Limits
	}
}

func (s *Session) applyResume(e Event) error {
	if len(s.Messages) == 0 || !s.Unfinished() && !e.Summary {
		return ErrNothingOpen
	}
	s.takeStoppedBack()
	if e.Summary && s.Stopped != nil { // the summary covers the stopped answer too
		s.add(*s.Stopped)
	}
	if s.Ended != "" { // it counts from the beginning
		s.RunTurns, s.Finish, s.Closing, s.Loop = 0, FinishStop, "", Loop{}
	}
	s.begin(e)
	return nil
}

func (s *Session) add(m Message) {
	s.Messages = append(s.Messages, m)
	s.bytes += messageBytes(m)
}

func (s *Session) applySetup(e Event) {
	s.Model = e.Model
	if e.Digest == s.Setup.Digest {
		return
	}
	s.Setup = Setup{Digest: e.Digest, System: e.System}
	for _, spec := range e.Specs {
		s.Setup.Tools = append(s.Setup.Tools, spec.Name)
	}
}

// conversation returns an error unless a session can have these messages: at least one, and
// every call with one result in the message behind it.
func conversation(list []Message) error {
	if len(list) == 0 {
		return errors.New("without a message")
	}
	ids := map[string]bool{}
	var open []ToolCall
	for _, m := range list {
		switch {
		case m.Role != RoleUser && m.Role != RoleAssistant && m.Role != RoleTool, m.Role != RoleAssistant && len(m.Calls) > 0:
			return fmt.Errorf("with a message of %.50q that has %d calls", m.Role, len(m.Calls))
		case len(m.Results) != len(open) || (m.Role == RoleTool) != (len(open) > 0):
			return fmt.Errorf("with %d results for %d calls", len(m.Results), len(open))
		}
		for _, c := range m.Calls {
			if c.ID == "" || ids[c.ID] {
				return fmt.Errorf("with a call whose id %.100q is empty or taken", c.ID)
			}
			ids[c.ID] = true
		}
		open = m.Calls
	}
	if len(open) > 0 {
		return fmt.Errorf("with %d calls that have no result", len(open))
	}
	return nil
}

// applyCompaction replaces the conversation by a shorter one.
// The event holds all that a session is at this point, so that one read from a
// journal can begin here.
func (s *Session) applyCompaction(e Event) {
	s.describe(e)
	limits := s.Limits
	if e.Limits != nil {
		limits = *e.Limits
	}
	runTurns := e.RunTurns
	if runTurns == 0 {
		runTurns = e.N // journals before RunTurns
	}
	s.State = State{
		ID: s.ID, Agent: s.Agent, Source: s.Source, Model: s.Model, Parent: s.Parent, Depth: s.Depth,
		Messages: append([]Message(nil), e.Messages...), Turn: e.Turn, RunTurns: runTurns, Running: true, Attempt: e.Attempt,
		Limits: limits, Finish: FinishStop, Setup: Setup{Digest: e.Digest}, Plan: e.Plan, Toolgroups: e.Toolgroups, Left: e.Left, Compacted: true, NoSummary: s.NoSummary,
		Context: e.Context, Fallback: e.Fallback,
	}
	if e.Closing {
		s.Closing = e.Error
	}
	s.derive()
}

func (s *Session) applyAnswer(e Event) error {
	if e.Message == nil || e.Message.Role != RoleAssistant || len(e.Message.Results) > 0 {
		return errors.New("without a model's message")
	}
	if len(s.Messages) == 0 || s.last().Role == RoleAssistant {
		return errors.New("nothing was asked")
	}
	if s.ids == nil {
		s.ids = map[string]bool{}
	}
	calls := e.Message.Calls
	for i, c := range calls {
		if c.ID == "" || s.ids[c.ID] {
			for _, c := range calls[:i] {
				delete(s.ids, c.ID)
			}
			return fmt.Errorf("the id %q of a call is empty or taken", c.ID)
		}
		s.ids[c.ID] = true
	}
	s.add(*e.Message)
	s.Turn++
	s.RunTurns++
	s.Finish, s.Failure, s.Stopped, s.Fallback = e.Finish, nil, nil, e.Fallback
	s.Compacted, s.NoSummary = false, false
	if len(calls) == 0 {
		s.Loop = Loop{}
	}
	if e.Usage != nil && e.Usage.InputTokens+e.Usage.OutputTokens > 0 {
		s.Tokens, s.CountedBytes = e.Usage.InputTokens+e.Usage.OutputTokens, s.bytes
	}
	s.Calls, s.open = make([]CallState, len(calls)), len(calls)
	return nil
}

func (s *Session) applyResult(e Event) error {
	i := s.find(e)
	if e.Result == nil || i < 0 {
		return fmt.Errorf("no call %s waits for it", e.CallID)
	}
	s.Calls[i] = CallState{callEnded, e.Result}
	if e.Result.Handle != "" {
		s.leave(i, &e)
	} else {
		s.Left = append(slices.Clip(s.Left), e.Left...)
	}
	s.open--
	if s.open == 0 {
		s.finishTurn()
	}
	return nil
}

// find returns the position of the open call that e is about, -1 if there is none. A correct
// e.N saves the search: turns may have thousands of calls.
func (s *Session) find(e Event) int {
	if s.open == 0 {
		return -1
	}
	calls := s.last().Calls
	if i := e.N - 1; i >= 0 && i < len(calls) && calls[i].ID == e.CallID && s.Calls[i].State != callEnded {
		return i
	}
	for i, c := range calls {
		if c.ID == e.CallID && s.Calls[i].State != callEnded {
			return i
		}
	}
	return -1
}

// Possible checks an event of another process for what Apply does not: the key of a call, and
// the usage.
func (s *Session) Possible(e *Event) error {
	switch e.Kind {
	case EventVerdict, EventCallStarted, EventCallEnded:
		if i := s.find(*e); i >= 0 && e.Key != s.key(i) {
			return fmt.Errorf("the event %s has the key %.100q, not %s", e.Kind, e.Key, s.key(i))
		}
	}
	if e.Usage != nil && !e.Usage.Possible() {
		return fmt.Errorf("the usage in the event %s is not possible: %+v", e.Kind, *e.Usage)
	}
	return nil
}
