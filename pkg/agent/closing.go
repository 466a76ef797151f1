package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Before a budget is spent, the model is asked once for its best answer without tools,
// with a message in the conversation (Event.Closing). The request still contains the
// tools, so that it begins with the same bytes as those before; calls in that answer
// are not run.
// An answer without calls ends the run with StatusPartial, one with calls with
// StatusBudget.
//
// This happens when at most a fifth of an amount is left. If less than a tenth is left,
// it happens only if the rest is enough for two requests as large as the largest so
// far. An answer needs no calls, so a budget of calls can be used completely.

// A NearlySpent is the error of a Reserver for a request that can be made, but should
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

// closing returns a *NearlySpent if the model must answer now, otherwise nil; step is
// what the session needs. r.tree.mu is held.
func (r *run) closing(step Step) error {
	if step.Kind != StepModel || r.session.Closing != "" {
		return nil
	}
	left, of := r.left(false)
	least, found := 2.0, -1
	for kind, n := range left {
		base := r.account.base[kind]
		if n == unlimited || base == unlimited || base <= 0 || !r.low(kind, n, base) {
			continue
		}
		if part := float64(n) / float64(base); part < least {
			least, found = part, kind
		}
	}
	if found >= 0 {
		n, spent := of[found], " is nearly spent ("
		if left[found] <= 0 {
			spent = " spent ("
		}
		return &NearlySpent{
			Reason: n.budgetName(found) + spent + n.figures(found) + ")",
			Text:   fmt.Sprintf(closingText, amountName(found), amountText(found, max(left[found], 0)), amountText(found, r.account.base[found])),
		}
	}
	return r.closingTime(step)
}

// low reports whether so little of an amount is left that the model must answer now.
func (r *run) low(kind int, left, base int64) bool {
	switch {
	case kind == amountCalls:
		return left <= 0
	case kind == amountTurns && left == 1:
		return true
	}
	a := &r.account
	return left <= base/5 && (left >= base/10 || a.known && left/2 >= a.largest[kind])
}

// closingTime does the same as closing for the wall time.
func (r *run) closingTime(step Step) error {
	if step.Kind != StepModel || r.session.Closing != "" {
		return nil
	}
	var by *run
	for n := r; n != nil; n = n.up {
		if !n.account.until.IsZero() && (by == nil || n.account.until.Before(by.account.until)) {
			by = n
		}
	}
	if by == nil {
		return nil
	}
	whole, left := by.account.until.Sub(r.account.began), time.Until(by.account.until)
	if left > whole/5 || left < whole/10 {
		return nil
	}
	return &NearlySpent{
		Reason: fmt.Sprintf("%s is nearly spent", by.timeName()),
		Text:   fmt.Sprintf(closingText, "seconds", fmt.Sprintf("%.0f", left.Seconds()), fmt.Sprintf("%.0f", whole.Seconds())),
	}
}

const closingText = `[The budget of this run is nearly spent: %s %s of %s left. Give your best answer now, with what you have, and say what is missing. Call no tool: no further call is run.]`

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
