package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Why a run ended without an answer. Run's error wraps one of these, or ctx's
// error, or the Provider's.
var (
	// ErrTurns: the limit of turns was reached.
	ErrTurns = errors.New("turn limit reached")
	// ErrDepth: sub-agents are nested too deeply.
	ErrDepth = errors.New("depth limit reached")
	// ErrLoop: the model made the same calls again and again, with the same results.
	ErrLoop = errors.New("loop limit reached")
	// ErrLength: the answer was cut at the model's output limit.
	ErrLength = errors.New("the answer was cut off at the model's output limit (finish_reason length)")
	// ErrFiltered: the provider's content filter stopped the answer.
	ErrFiltered = errors.New("the provider's content filter stopped the answer (finish_reason content_filter)")
	// ErrAnswer: Accept did not accept the last answer.
	ErrAnswer = errors.New("the answer was not accepted")
	// ErrTools: a tool that the agent requires is missing. No request was made.
	ErrTools = errors.New("required tool missing")
	// ErrContext: the context does not fit the ContextSchema of an agent.
	ErrContext = errors.New("invalid context")
	// ErrRefused: a policy refused what the run cannot do without.
	ErrRefused = errors.New("refused by policy")
	// ErrBudget: a budget does not allow what the run needs next.
	ErrBudget = errors.New("budget spent")
	// ErrJournal: an event could not be kept.
	ErrJournal = errors.New("journal")
	// ErrChild: an agent in another process sent an event that is not valid at this point,
	// or that belongs to another session.
	ErrChild = errors.New("the agent broke the protocol")
	// ErrNobody: nobody can answer a question.
	ErrNobody = errors.New("nobody can be asked")
	// ErrUnknownOutcome: a call started once, and is not started again by itself.
	ErrUnknownOutcome = errors.New("not run again: this call had started when the program that ran it came to its end, and whether it took effect is not known; check that before you repeat it")
	// ErrNothingOpen: the last run of the session that Runner.Resume is to continue
	// is over.
	ErrNothingOpen = errors.New("the session has no unfinished run")
)

// An EndError is why a run ended, where its own error is not at hand: in another
// process, say.
type EndError struct {
	Status Status
	Text   string
}

// Error returns the text.
func (e *EndError) Error() string { return e.Text }

// Is reports that an interrupted run ended with context.Canceled, one whose deadline
// passed with context.DeadlineExceeded, and one whose budget was spent with ErrBudget.
func (e *EndError) Is(target error) bool {
	switch e.Status {
	case StatusInterrupted:
		return target == context.Canceled
	case StatusDeadline:
		return target == context.DeadlineExceeded
	case StatusBudget:
		return target == ErrBudget
	}
	return false
}

// A Status says how a run ended.
type Status string

// How a run ended.
const (
	StatusOK          Status = "ok"
	StatusFailed      Status = "failed"      // model or network, after retries
	StatusLimit       Status = "limit"       // turns, depth or a loop
	StatusRefused     Status = "refused"     // a policy
	StatusBudget      Status = "budget"      // a budget was spent
	StatusDeadline    Status = "deadline"    // ctx's deadline passed
	StatusInterrupted Status = "interrupted" // ctx was cancelled
	StatusInvalid     Status = "invalid"     // an answer that was not accepted
	StatusPartial     Status = "partial"     // an answer that the budget cut short
)

// Known reports whether s is one of them.
func (s Status) Known() bool {
	switch s {
	case StatusOK, StatusFailed, StatusLimit, StatusRefused, StatusBudget, StatusDeadline, StatusInterrupted, StatusInvalid, StatusPartial:
		return true
	}
	return false
}

// ExitCode returns the exit code of `agents run` for a run that ended with s; see docs/cli.md.
func (s Status) ExitCode() int {
	switch s {
	case StatusOK:
		return 0
	case StatusLimit, StatusBudget, StatusPartial:
		return 3
	case StatusRefused:
		return 4
	case StatusDeadline:
		return 5
	case StatusInvalid:
		return 6
	case StatusInterrupted:
		return 130
	}
	return 1
}

// StatusOf is the Status that belongs to an error of Run.
func StatusOf(err error) Status {
	end, ended := errors.AsType[*EndError](err)
	switch {
	case err == nil:
		return StatusOK
	case ended:
		return end.Status
	case errors.Is(err, ErrBudget):
		return StatusBudget
	case errors.Is(err, ErrTurns), errors.Is(err, ErrDepth), errors.Is(err, ErrLoop):
		return StatusLimit
	case errors.Is(err, ErrAnswer):
		return StatusInvalid
	case errors.Is(err, ErrRefused):
		return StatusRefused
	case errors.Is(err, context.DeadlineExceeded):
		return StatusDeadline
	case errors.Is(err, context.Canceled):
		return StatusInterrupted
	default:
		return StatusFailed
	}
}

// ContextError is why ctx ended: its text is that of the cause, and it wraps ctx's error
// too, so that StatusOf knows it.
func ContextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return &contextError{err: err, cause: cause}
}

type contextError struct{ err, cause error }

func (e *contextError) Error() string { return e.cause.Error() }

func (e *contextError) Unwrap() []error { return []error{e.err, e.cause} }

// A Stopped is the error of a model request whose ctx was done before the whole answer had arrived.
type Stopped struct {
	// Err says why ctx was done.
	Err error
	// Text is the part of the answer that had arrived, without reasoning and calls, which could not
	// be sent back to a model.
	Text string
}

// Error is the text of Err.
func (e *Stopped) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *Stopped) Unwrap() error { return e.Err }

// A ModelError is a failure of a model request.
type ModelError struct {
	// Status is the HTTP status, 0 if there was no answer.
	Status int
	// Code is the provider's own code for the failure, if it named one.
	Code string
	// Message is the provider's own text, or what went wrong with the
	// connection.
	Message string
	// Temporary says that the same request may succeed later.
	Temporary bool
	// TooLong says that the conversation does not fit the model's context.
	TooLong bool
	// RetryAfter is how long the provider asked to wait, 0 if it did not.
	RetryAfter time.Duration
	// Usage is what the request consumed all the same, as far as it is known.
	Usage Usage
	// Err is the cause, if it is an error of its own.
	Err error
}

// Error is the provider's text with its HTTP status.
func (e *ModelError) Error() string {
	switch {
	case e.Status != 0 && e.Code != "":
		return fmt.Sprintf("HTTP %d (%s): %s", e.Status, e.Code, e.Message)
	case e.Status != 0:
		return fmt.Sprintf("HTTP %d: %s", e.Status, e.Message)
	default:
		return e.Message
	}
}

// code is the provider's name for the error, or the HTTP status.
func (e *ModelError) code() string {
	switch {
	case e.Code != "" && len(e.Code) <= 64:
		return e.Code
	case e.Status != 0:
		return strconv.Itoa(e.Status)
	}
	return ""
}

// Unwrap returns e.Err.
func (e *ModelError) Unwrap() error { return e.Err }
