package agent

import (
	"fmt"
	"slices"
)

// AnswerOf returns the result of a call that a run of an agent answers: its answer, or
// the incomplete answer and an error that says why it is incomplete. Unless the run
// ended with StatusOK, the first line that the caller's model reads is how it ended, as
// "[budget]". The runtime writes this line, not the agent.
func AnswerOf(out *Outcome, err error) (Result, error) {
	parts := slices.Clone(out.Message.Parts)
	accepted := out.Answer != "" && out.Answer != out.Message.Text()
	parts = slices.DeleteFunc(parts, func(p Part) bool { return p.Kind == PartReasoning || accepted && p.Kind == PartText })
	if accepted { // it counts in place of what the model said
		parts = append([]Part{Text(out.Answer)}, parts...)
	}
	switch {
	case err != nil:
		return Result{Parts: parts}, &outcomeError{fmt.Sprintf("[%s] agent %s did not answer: %s", StatusOf(err), out.Agent, err), err}
	case out.Answer == "" && len(parts) == 0:
		return Result{}, &outcomeError{fmt.Sprintf("[%s] agent %s answered with an empty text", StatusFailed, out.Agent), nil}
	case out.Status == StatusPartial:
		line := fmt.Sprintf("[%s] agent %s answered early: %s\n", StatusPartial, out.Agent, out.Reason)
		parts = append([]Part{Text(line)}, parts...)
	}
	return Result{Parts: parts}, nil
}

// An outcomeError is the error of a call; its text begins with how the run ended.
type outcomeError struct {
	text string
	err  error
}

func (e *outcomeError) Error() string { return e.text }
func (e *outcomeError) Unwrap() error { return e.err }
