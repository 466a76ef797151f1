// Package failure holds the errors of the command line: the message, the next
// step, and the exit code.
package failure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/provider"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

const Codes = `Exit codes: 0 the agent answered; 1 the run failed (model or network after
retries, journal); 2 nothing ran (usage, agent file, keys, configuration, a
required tool, the context); 3 a limit ended it (budget, turns, depth, a loop)
or cut the answer short; 4 a policy refused what the run could not do without;
5 the deadline passed; 6 the answer does not satisfy --output-schema;
130, 143 interrupted.`

// Exit codes; they are part of the interface (see `agents --help`).
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitNothingRan  = 2
	ExitLimit       = 3
	ExitRefused     = 4
	ExitDeadline    = 5
	ExitAnswer      = 6
	ExitInterrupted = 130
	ExitTerminated  = 143
)

// An Error is an error with its exit code and the next step of the user.
type Error struct {
	Code  int
	Err   error
	Hint  string
	Quiet bool // the error was already reported
}

func (f *Error) Error() string { return f.Err.Error() }

func (f *Error) Unwrap() error { return f.Err }

// An Ending is why a run was cancelled: the cause of a context, which wraps the error of
// the context.
type Ending struct {
	Text  string
	Cause error // context.Canceled or context.DeadlineExceeded
}

func (e *Ending) Error() string { return e.Text }

func (e *Ending) Unwrap() error { return e.Cause }

// CallerDeadline is the cause of a context that ended at the deadline of the calling run.
var CallerDeadline = &Ending{Text: "the deadline of the calling run passed (AGENTS_DEADLINE)", Cause: context.DeadlineExceeded}

// Usage is an error in the command line.
func Usage(hint, format string, args ...any) error {
	return &Error{Code: ExitNothingRan, Err: fmt.Errorf(format, args...), Hint: hint}
}

// NothingRan marks err as one that ended the command before anything ran.
func NothingRan(err error, hint string) error {
	return &Error{Code: ExitNothingRan, Err: err, Hint: hint}
}

// Silent returns err with its exit code and without a message: it has been reported. It returns nil
// for nil.
func Silent(err error) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*Error](err); ok {
		return &Error{Code: f.Code, Err: err, Quiet: true}
	}
	return &Error{Code: codeOf(err), Err: err, Quiet: true}
}

// Report writes err and the next step, and returns the exit code.
// received is the signal that ended the program, nil if none did.
func Report(w io.Writer, err error, received os.Signal) int {
	if err == nil {
		return ExitOK
	}
	f, ok := errors.AsType[*Error](err)
	if !ok {
		f = &Error{Code: codeOf(err), Err: err, Hint: hintFor(err)}
	}
	if f.Code == ExitInterrupted && received == syscall.SIGTERM {
		f.Code = ExitTerminated
	}
	if f.Quiet || BrokenPipe(err) {
		return f.Code
	}
	fmt.Fprintf(w, "error: %s\n", termtext.Clean(err.Error()))
	if f.Hint != "" {
		fmt.Fprintf(w, "hint: %s\n", termtext.Clean(f.Hint))
	}
	if r, ok := errors.AsType[*Resumable](err); ok {
		fmt.Fprintf(w, "hint: `%s` continues from here\n", r.Command)
	}
	return f.Code
}

func codeOf(err error) int {
	if errors.Is(err, agent.ErrTools) || errors.Is(err, agent.ErrContext) {
		return ExitNothingRan
	}
	return agent.StatusOf(err).ExitCode()
}

// HintElsewhere is the next step if a session cannot be kept.
const HintElsewhere = "--session-dir names another folder; --no-session keeps nothing"

func hintFor(err error) string {
	var model *agent.ModelError
	switch {
	case errors.Is(err, agent.ErrTurns):
		return "raise maxTurns in the agent file, or ask for less at once"
	case agent.StatusOf(err) == agent.StatusBudget, agent.StatusOf(err) == agent.StatusPartial:
		return "raise the budget in the agent file or with --budget, or ask for less at once"
	case errors.Is(err, agent.ErrLoop):
		return "ask for something else, or set loopLimit in the agent file"
	case errors.Is(err, agent.ErrLength):
		return "raise maxOutputTokens in the agent file; --output json shows the incomplete answer"
	case errors.Is(err, agent.ErrAnswer):
		return "the schema may ask for more than the model can give; --output json shows the last answer"
	case errors.Is(err, CallerDeadline):
		return ""
	case errors.Is(err, context.DeadlineExceeded) && !errors.As(err, new(*Ending)) && !errors.As(err, &model):
		return "raise deadlineSeconds in the agent file"
	case errors.Is(err, context.DeadlineExceeded):
		return "raise --timeout"
	case errors.Is(err, agent.ErrContext):
		return "--context gives the run another one"
	case errors.Is(err, agent.ErrJournal):
		return HintElsewhere
	case !errors.As(err, &model):
		return ""
	case model.Status == 401 || model.Status == 403:
		return "check apiKeyId in the agent file and the key's value; `agents paths` shows which keys file is used"
	case model.Status == 404:
		return "check modelUrl, modelName and protocol in the agent file"
	case provider.Refused(err):
		return "is the server running? modelUrl in the agent file is its address"
	case model.Status == 0 && model.Temporary && model.Err != nil:
		return "check that the model's server runs and that modelUrl in the agent file is right"
	}
	return ""
}

// Stdout marks the errors of its writes, to distinguish them from those of other
// connections, and keeps the first, because the help printer drops errors.
type Stdout struct {
	io.Writer
	Failed error
}

func (s *Stdout) Write(p []byte) (int, error) {
	n, err := s.Writer.Write(p)
	if err != nil {
		err = &stdoutError{err}
		if s.Failed == nil && !process.IsBrokenPipe(err) {
			s.Failed = err
		}
	}
	return n, err
}

type stdoutError struct{ error }

func (e *stdoutError) Unwrap() error { return e.error }

// BrokenPipe reports whether err comes from a closed pipe on stdout: nobody reads the
// output any more, so there is nothing to report.
func BrokenPipe(err error) bool {
	var out *stdoutError
	return errors.As(err, &out) && process.IsBrokenPipe(out)
}

// A Resumable is the error of a run whose session can be continued.
type Resumable struct {
	Err     error
	Command string // the command that continues it
}

func (r *Resumable) Error() string { return r.Err.Error() }
func (r *Resumable) Unwrap() error { return r.Err }

// NotRead returns the error for something that could not be read. If ctx has ended, it
// returns err, the error of ctx, as it is.
func NotRead(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return NothingRan(fmt.Errorf("%s: %w", what, err), "")
}

// ErrOutput ends a run whose output cannot be written: the reader is gone or the disk
// is full.
var ErrOutput error = &Ending{Text: "the output cannot be written", Cause: context.Canceled}
