package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/agents-exe/agents/pkg/provider"
)

// Exit codes; they are part of the interface (see `agents --help`).
const (
	exitOK          = 0
	exitFailed      = 1
	exitNothingRan  = 2
	exitLimit       = 3
	exitRefused     = 4
	exitDeadline    = 5
	exitAnswer      = 6
	exitInterrupted = 130
	exitTerminated  = 143
)

// A failure is an error that knows its exit code and the user's next step.
type failure struct {
	code  int
	err   error
	hint  string
	quiet bool // everything was said already
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// An ending is why a run was told to end: a context's cause, with the error of
// the context in it.
type ending struct {
	text string
	err  error // context.Canceled or context.DeadlineExceeded
}

func (e *ending) Error() string { return e.text }
func (e *ending) Unwrap() error { return e.err }

// usage is a failure of how the command was called.
func usage(hint, format string, args ...any) error {
	return &failure{code: exitNothingRan, err: fmt.Errorf(format, args...), hint: hint}
}

// nothingRan marks err as one that ended the command before anything ran.
func nothingRan(err error, hint string) error {
	return &failure{code: exitNothingRan, err: err, hint: hint}
}

// report writes err for a person and returns the exit code that belongs to it.
// caught is the signal that ended the program, if one did.
func report(w io.Writer, err error, caught os.Signal) int {
	if err == nil {
		return exitOK
	}
	f := &failure{}
	if !errors.As(err, &f) {
		f = &failure{code: codeOf(err), err: err, hint: hintFor(err)}
	}
	if f.code == exitInterrupted && caught == syscall.SIGTERM {
		f.code = exitTerminated
	}
	if f.quiet || brokenPipe(err) {
		return f.code
	}
	fmt.Fprintf(w, "error: %s\n", observe.Clean(err.Error()))
	if f.hint != "" {
		fmt.Fprintf(w, "hint: %s\n", observe.Clean(f.hint))
	}
	if r := (*resumable)(nil); errors.As(err, &r) {
		fmt.Fprintf(w, "hint: `%s` goes on from here\n", r.command)
	}
	return f.code
}

// codeOf is the exit code for the error of a run.
func codeOf(err error) int {
	switch agent.StatusOf(err) {
	case agent.StatusOK:
		return exitOK
	case agent.StatusLimit:
		return exitLimit
	case agent.StatusRefused:
		return exitRefused
	case agent.StatusDeadline:
		return exitDeadline
	case agent.StatusInterrupted:
		return exitInterrupted
	case agent.StatusInvalid:
		return exitAnswer
	default:
		return exitFailed
	}
}

// hintElsewhere is the next step where a session cannot be kept.
const hintElsewhere = "--session-dir names another folder; --no-session keeps nothing"

// hintFor is the next step after a failed run.
func hintFor(err error) string {
	var model *agent.ModelError
	switch {
	case errors.Is(err, agent.ErrTurns):
		return "raise maxTurns in the agent file, or ask for less at once"
	case errors.Is(err, agent.ErrLength):
		return "raise maxOutputTokens in the agent file; --output json shows what there was of the answer"
	case errors.Is(err, agent.ErrAnswer):
		return "the schema may ask for more than the model can give; --output json shows the last answer"
	case errors.Is(err, context.DeadlineExceeded):
		return "raise --timeout"
	case errors.Is(err, agent.ErrJournal):
		return hintElsewhere
	case !errors.As(err, &model):
		return ""
	case model.Status == 401 || model.Status == 403:
		return "check apiKeyId in the agent file and the key's value; `agents paths` shows which keys file is used"
	case model.Status == 404:
		return "check modelUrl and modelName in the agent file"
	case provider.Refused(err):
		return "is the server running? modelUrl in the agent file is its address"
	case model.Status == 0 && model.Temporary && model.Err != nil:
		return "check that the model's server runs and that modelUrl in the agent file is right"
	}
	return ""
}

// stdout marks the errors of its writes, so that they are told from those of
// other connections, and keeps the first: not everything that prints a help text
// passes it on.
type stdout struct {
	io.Writer
	failed error
}

func (s *stdout) Write(p []byte) (int, error) {
	n, err := s.Writer.Write(p)
	if err != nil {
		err = &stdoutError{err}
		if s.failed == nil && !errors.Is(err, syscall.EPIPE) {
			s.failed = err
		}
	}
	return n, err
}

type stdoutError struct{ error }

func (e *stdoutError) Unwrap() error { return e.error }

// brokenPipe reports whether err came of a reader of our output that went away:
// it wanted no more, and nobody is left to be told.
func brokenPipe(err error) bool {
	var out *stdoutError
	return errors.As(err, &out) && errors.Is(out, syscall.EPIPE)
}
