package agent

import (
	"fmt"
	"slices"
)

// AnswerOf is how a run of an agent answers the call of another one: the answer, or
// what there is of it beside the error that says why there is none. Its first line for
// the caller's model is how the run ended, as "[budget]", unless that was StatusOK. The
// line comes from here, whatever the agent wrote.
func AnswerOf(out *Outcome, err error) (Result, error) {
	parts := slices.Clone(out.Message.Parts)
	parts = slices.DeleteFunc(parts, func(p Part) bool { return p.Kind == PartReasoning })
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

// An outcomeError is an error of a call whose text begins with how a run ended.
type outcomeError struct {
	text string
	err  error
}

func (e *outcomeError) Error() string { return e.text }
func (e *outcomeError) Unwrap() error { return e.err }
