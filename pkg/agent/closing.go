package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Before a budget is spent, the model is asked once for its best answer without tools,
// with a message in the conversation (Event.Closing). It keeps its tools, since a
// request begins with the same bytes in every turn; calls in that answer are not run.
// An answer without calls ends the run with StatusPartial, one with calls with
// StatusBudget.
//
// That is done when a fifth is left of some amount. If less than a tenth is left by
// then, it is done only if that pays for two requests as large as the largest so far.
// An answer needs no calls, so a budget of calls is used to its end before.

// A NearlySpent error of a Reserver says that a request can be made, and that it should
// ask for the answer: Session.Failed makes the message of it.
type NearlySpent struct {
	// Reason says which budget is nearly spent, for the record, and Text is the message
	// to the model.
	Reason string
	Text   string
}

// Error returns the Reason.
func (e *NearlySpent) Error() string { return e.Reason }

// Is makes errors.Is find ErrBudget: a run that cannot answer now ends with that.
func (e *NearlySpent) Is(target error) bool { return target == ErrBudget }

// closing is a *NearlySpent if the model must answer now; step is what the session
// needs. r.tree.mu is held.
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

// low reports whether so little is left of an amount that the model must answer now.
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

// closingTime is closing for the wall time.
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
		return errors.New("it asks for an answer, and there is one")
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

// answered ends the run with the answer that there is.
func (s *Session) answered() Step {
	if s.Closing == "" {
		return s.end(StatusOK, nil)
	}
	step := s.end(StatusPartial, nil)
	step.Events[0].Error = s.Closing
	return step
}

var errClosing = errors.New("the budget allows no further call")

// errClosed is why a run ends whose model called tools instead of answering.
func (s *Session) errClosed() error {
	return &budgetError{text: s.Closing + "; asked for its answer, the model called tools"}
}
