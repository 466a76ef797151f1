package agent

import (
	"cmp"
	"errors"
	"slices"
)

// Before a budget is spent, the model is asked once for its best answer without tools,
// with a message in the conversation (Event.Closing). The request still contains the
// tools, so that it begins with the same bytes as those before; calls in that answer
// are not run.
// An answer without calls ends the run with StatusPartial, one with calls with
// StatusBudget.

// A NearlySpent is the error of a runner.Reserver for a request that can be made, but should
// ask the model for its answer: Session.Failed adds the message that does.
type NearlySpent struct {
	// Reason is which budget is nearly spent, for events, and Text is the message to
	// the model.
	Reason string
	Text   string
}

// Error returns the Reason.
func (e *NearlySpent) Error() string { return e.Reason }

// Is makes errors.Is find ErrBudget, with which a run ends that cannot answer now.
func (e *NearlySpent) Is(target error) bool { return target == ErrBudget }

// closed records that the model is asked for its answer.
func (s *Session) closed(near *NearlySpent) Event {
	m := UserText(near.Text)
	return s.event(Event{Kind: EventMessage, Turn: s.Turn + 1, Message: &m, Closing: true, Error: near.Reason})
}

// applyClosing adds the message that asks for the answer. It becomes a part of the
// user's message where that is the last one: not every model takes two of them in a
// row.
func (s *Session) applyClosing(e Event) error {
	if !s.Running || s.last().Role == RoleAssistant {
		return errors.New("the model is asked for its answer, but it has answered")
	}
	s.Loop = Loop{}
	s.Closing = cmp.Or(e.Error, "the budget is nearly spent")
	if last := s.last(); last.Role == RoleUser {
		parts := append([]Part{Text("\n\n")}, e.Message.Parts...)
		last.Parts = slices.Concat(last.Parts, parts)
		s.Messages = append(slices.Clone(s.Messages[:len(s.Messages)-1]), last)
		s.bytes += partsBytes(parts)
		return nil
	}
	s.add(*e.Message)
	return nil
}

// answered ends the run with the last answer: partial if the model was asked for it.
func (s *Session) answered() Step {
	if s.Closing == "" {
		return s.End(StatusOK, nil)
	}
	step := s.End(StatusPartial, nil)
	step.Events[0].Error = s.Closing
	return step
}

var errClosing = errors.New("the budget allows no further call")

// errClosed is the error of a run whose model called tools when it was asked for its
// answer.
func (s *Session) errClosed() error {
	return &EndError{Status: StatusBudget, Text: s.Closing + "; asked for its answer, the model called tools"}
}
