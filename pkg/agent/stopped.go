package agent

import (
	"errors"
	"slices"
	"strings"
)

// stoppedHere ends a stopped answer, so that the model does not take it for a complete one.
const stoppedHere = "\n\n[This answer was stopped here.]"

// partial returns the message of a stopped answer, or nil if its text is blank.
func partial(text string) *Message {
	if text = strings.ToValidUTF8(text, ""); strings.TrimSpace(text) == "" {
		return nil
	}
	return &Message{Role: RoleAssistant, Parts: []Part{Text(text), Text(stoppedHere)}}
}

func (s *Session) applyFailure(e Event) error {
	if m := e.Message; m != nil {
		switch {
		case m.Role != RoleAssistant || len(m.Calls)+len(m.Results) > 0:
			return errors.New("its message is not the beginning of an answer")
		case len(s.Messages) == 0 || s.last().Role == RoleAssistant:
			return errors.New("it has the beginning of an answer, but the model was not asked for one")
		}
	}
	if e.Summary {
		s.NoSummary = true
		return nil
	}
	s.Failure = &Failure{e.Status, e.Error, e.TooLong}
	if e.Message != nil {
		s.Stopped = e.Message
	}
	return nil
}

// addStopped moves Stopped to the conversation, because the model will not be asked for that answer
// again.
func (s *Session) addStopped() {
	if s.Stopped != nil && len(s.Messages) > 0 && s.last().Role != RoleAssistant {
		s.add(*s.Stopped)
	}
	s.Stopped = nil
}

// saidStopped reports whether Stopped is already at the end of Messages. It is while a
// conversation is shortened at a person's request.
func (s *Session) saidStopped() bool {
	return s.Stopped != nil && len(s.Messages) > 0 && s.last().Role == RoleAssistant
}

// takeStoppedBack removes Stopped from the end of Messages. Otherwise a stopped run whose
// conversation was not shortened could not be resumed: it would count as answered.
func (s *Session) takeStoppedBack() {
	if s.saidStopped() {
		s.bytes -= messageBytes(s.last())
		s.Messages = slices.Clip(s.Messages[:len(s.Messages)-1])
	}
}
