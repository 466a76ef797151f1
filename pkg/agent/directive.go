package agent

import "fmt"

// A Directive is what a person sends to one agent of a tree while it runs: a message, an
// order to shorten its conversation, or its end.
type Directive struct {
	// Session is that of the agent; "" is the root of the tree.
	Session string
	// Message is read by the model with its next request; nil sends none.
	Message *Message
	// Notice says that Message comes from the runtime and not from a person.
	Notice bool
	// Compact shortens the conversation before the next request, or before the run ends.
	Compact bool
	// Stop ends the agent and those below it. Its caller reads a failed result with the
	// Reason, and continues.
	Stop   bool
	Reason string
	// Key is that of the call whose end in the background Message tells; only the runtime sets it.
	Key string
	// Outcome is that of this call, as in Condition.Outcome.
	Outcome string
	// N numbers the messages of a person in the record of a run, from 1, for who drives the run from
	// there. The events that follow from the message have it.
	N int
}

// End returns the error with which a directive that stops an agent ends its run.
func (d Directive) End() *EndError {
	text := "a person stopped it"
	if d.Reason != "" {
		text = fmt.Sprintf("%s: %.500s", text, d.Reason)
	}
	return &EndError{Status: StatusInterrupted, Text: text}
}
