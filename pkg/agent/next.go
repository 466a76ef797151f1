package agent

import (
	"cmp"
	"errors"
	"fmt"
)

// A Step is what a session needs next.
type Step struct {
	Kind StepKind
	// Events, for StepApply, follow from what happened so far without anything
	// being done. They are to be applied in this order. Err is the reason if
	// the last of them ends a run without an answer.
	Events []Event
	Err    error
	// Messages, for StepModel and StepSummary, are what the model is asked.
	Messages []Message
	// Calls, for StepCalls, are the calls to run, in their order.
	Calls []PendingCall
	// Answer, for StepAccept, is the text that Accept is asked about.
	Answer string
	// Asked, for StepSummary, says that a person wants the conversation shortened. Limit
	// is the size in tokens of the context for which it is.
	Asked bool
	Limit int
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
	StepPrompt  StepKind = iota // a user message: no run is going on
	StepApply                   // nothing but that events take effect
	StepModel                   // an answer of the model: Session.Answered, or Failed
	StepSummary                 // a summary by the model: the same
	StepCalls                   // results of tool calls: see runner.Gate
	StepAccept                  // a judgment about the answer: Session.Judged
)

// Next says what the session needs. It is a pure function of the events applied
// so far: a driver does what Next says and applies the events that come of it,
// until StepPrompt says that the run is over.
func (s *Session) Next() Step {
	if !s.Running {
		return Step{Kind: StepPrompt}
	}
	if s.open > 0 {
		return s.nextCalls()
	}
	if f := s.Failure; f != nil {
		if f.TooLong {
			if step, ok := s.shortenMore(); ok {
				return step
			}
		}
		return s.End(f.Status, &EndError{f.Status, f.Error})
	}
	last := s.last()
	switch {
	case last.Role != RoleUser && s.Finish == FinishContentFilter:
		return s.End(StatusFailed, ErrFiltered)
	case s.refusal() != nil:
		r := s.refusal()
		return s.End(r.End, &EndError{r.End, r.Text()})
	case last.Role == RoleTool && s.Closing != "":
		return s.End(StatusBudget, s.errClosed())
	case last.Role == RoleTool && s.RunTurns > s.turns():
		return s.End(StatusLimit, s.errTurns())
	case last.Role == RoleTool && s.looping() != nil:
		return s.End(StatusLimit, s.looping())
	case last.Role == RoleAssistant && s.Finish == FinishLength:
		return s.End(StatusFailed, ErrLength)
	case last.Role == RoleAssistant && s.Limits.Answers > 0 && s.RunTurns > 0:
		return Step{Kind: StepAccept, Answer: last.Text()}
	case last.Role == RoleAssistant:
		return s.answered()
	}
	if step, ok := s.compact(); ok {
		return step
	}
	return Step{Kind: StepModel, Messages: s.Messages}
}

func (s *Session) turns() int { return cmp.Or(s.Limits.Turns, DefaultMaxTurns) }

func (s *Session) errTurns() error {
	return fmt.Errorf("%w: %d turns with tool calls and no answer", ErrTurns, s.turns())
}

// End returns the step that ends the run, with what there is of an answer.
func (s *Session) End(status Status, err error) Step {
	e := s.event(Event{Kind: EventEnd, Turn: s.Turn, Status: status})
	if m, ok := s.Answer(); ok && s.RunTurns > 0 {
		e.Text = m.Text()
	}
	if err != nil {
		e.Error = err.Error()
	}
	return Step{Kind: StepApply, Events: []Event{e}, Err: err}
}

// nextCalls runs the open calls, or says why none of them can run.
func (s *Session) nextCalls() Step {
	list := s.OpenCalls()
	var why error
	switch {
	case s.Failure != nil:
		why = errors.New(s.Failure.Error)
	case s.Finish != FinishStop:
		why = errors.New("the answer broke off before its end, so this call may be incomplete; answer with fewer or shorter calls")
	case s.Closing != "":
		why = errClosing
	case s.RunTurns > s.turns():
		why = s.errTurns()
	default:
		return Step{Kind: StepCalls, Calls: list}
	}
	step := Step{Kind: StepApply, Events: make([]Event, 0, len(list))}
	for _, c := range list {
		err := fmt.Errorf("not run: %w", why)
		if c.Started {
			err = ErrUnknownOutcome
		}
		step.Events = append(step.Events, s.CallEnded(c, Result{}, err))
	}
	return step
}

// OpenCalls are the calls of the last answer that have no result.
func (s *Session) OpenCalls() []PendingCall {
	if s.open == 0 {
		return nil
	}
	list := make([]PendingCall, 0, s.open)
	for i, c := range s.last().Calls {
		if s.Calls[i].State != callEnded {
			list = append(list, PendingCall{ToolCall: c, N: i, Key: s.key(i), Started: s.Calls[i].State == callStarted})
		}
	}
	return list
}
