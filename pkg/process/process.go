package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"
)

// MarkVariable is the environment variable that carries Command.Mark.
const MarkVariable = "AGENTS_CALL_ID"

// The defaults of Command, used where a field is 0.
const (
	DefaultGrace    = 2 * time.Second
	DefaultPipeWait = 500 * time.Millisecond
)

// A Command says what to run. It is only read and may serve several calls, one
// after the other or, without Stdin, Stdout and Stderr, at the same time.
type Command struct {
	// Path is the file to execute. It is not searched for in PATH; a
	// relative one starts at Dir.
	Path string
	// Args are the arguments after the program's name, which is Path.
	Args []string
	// Env is the whole environment, "NAME=value" each; nil is an empty one.
	Env []string
	// Dir is the working directory; empty means that of this process.
	Dir string
	// Stdin is what the program may read; nil is an empty one. A program that
	// does not read it, or not all, is not a failure. Its Read must not block
	// for ever: a Read under way when the program ends is waited for no
	// longer than PipeWait.
	Stdin io.Reader
	// Stdout and Stderr receive the output as it streams, each from one
	// goroutine; nil discards it. After a Write failed the rest is read and
	// dropped, so that the program never blocks. Run returns after the last
	// Write did. A writer that stands in both must allow concurrent calls. An
	// io.PipeWriter as Stdout is closed at the end of the output.
	Stdout, Stderr io.Writer
	// Mark stands in the environment as AGENTS_CALL_ID and finds what left
	// the process group. It is put into Env in place of any other value;
	// empty leaves Env alone. It should be unique: what still carries it
	// after the call is ended.
	Mark string
	// Grace is the time between SIGTERM and SIGKILL; 0 means DefaultGrace.
	Grace time.Duration
	// PipeWait is how long output is awaited after the program has exited
	// while something that it started keeps a pipe open, before that is
	// killed; 0 means DefaultPipeWait.
	PipeWait time.Duration
	// End is a command line, a file and its arguments, that ends what the program
	// started out of reach, as a container: see [Command.EndContainer]. It runs with
	// Env when a signal or the context ended the program, and may take 10 seconds.
	End []string
	// Sandbox confines the program; nil does not. Share is a folder in PrivateTemp that
	// the program may read and write in any case; "" is none.
	Sandbox Sandbox
	Share   string
	// Local is a host and a port on loopback to which the program may connect in any case; ""
	// is none.
	Local string
}

func (c *Command) grace() time.Duration    { return cmp.Or(max(c.Grace, 0), DefaultGrace) }
func (c *Command) pipeWait() time.Duration { return cmp.Or(max(c.PipeWait, 0), DefaultPipeWait) }

// environ is Env with the mark in it exactly once.
func (c *Command) environ() []string {
	if c.Mark == "" {
		return c.Env
	}
	env := make([]string, 0, len(c.Env)+1)
	for _, kv := range c.Env {
		if !strings.HasPrefix(kv, MarkVariable+"=") {
			env = append(env, kv)
		}
	}
	return append(env, MarkVariable+"="+c.Mark)
}

// An Exit says how a program ended.
type Exit struct {
	// Code is the exit status, or -1 when a signal ended the program or its
	// end is unknown.
	Code int
	// Signal is what ended the program, or 0.
	Signal syscall.Signal
	// Cancelled says that the program was asked to end: the context ended, or
	// Close had to send a signal.
	Cancelled bool
	// Left counts the processes that were found alive after the program had
	// exited and were killed. Only after BecomeSubreaper it is sure to count
	// them all.
	Left int
	// Refused is what a Sandbox has seen and refused, a line each, "" if nothing; that
	// of a Process is what its Refused has not returned.
	Refused string
	// Held says that a pipe was still open after everything was killed, so
	// something out of reach has it. What it writes later is not read.
	Held bool
}

// String returns "exit status 2" or "signal: killed".
func (e Exit) String() string {
	switch {
	case e.Signal != 0:
		return "signal: " + e.Signal.String()
	case e.Code < 0:
		return "unknown exit status"
	default:
		return fmt.Sprintf("exit status %d", e.Code)
	}
}

// Failure is why a tool that Run ran with ctx failed, nil if it did not. err is the error
// of Run.
func (e Exit) Failure(ctx context.Context, err error) error {
	var why error
	switch {
	case e.Cancelled:
		why = fmt.Errorf("the tool was ended (%s)", e)
		if cause := context.Cause(ctx); cause != nil {
			why = fmt.Errorf("%w; %w", cause, why)
		}
	case e.Signal != 0:
		why = fmt.Errorf("the tool was killed by signal %d (%s)", int(e.Signal), e.Signal)
	case e.Code != 0:
		why = errors.New(e.String())
	}
	switch {
	case why == nil:
		return err
	case err != nil:
		return fmt.Errorf("%w; %w", why, err)
	}
	return why
}

// WithKill returns ctx for Run, and a function that ends all grace periods: programs whose
// context has ended, or ends later, are killed at once.
func WithKill(ctx context.Context) (context.Context, func()) {
	now := make(chan struct{})
	return context.WithValue(ctx, killKey{}, (<-chan struct{})(now)), sync.OnceFunc(func() { close(now) })
}

// Killed is closed when the function of WithKill was called; it is nil, and never closed, if
// ctx is not from there.
func Killed(ctx context.Context) <-chan struct{} {
	now, _ := ctx.Value(killKey{}).(<-chan struct{})
	return now
}

// killKey is the key of the channel of WithKill in a context.
type killKey struct{}

// Run runs c and returns when it, and everything that it started, has ended and
// its output is written. When ctx ends, the process group gets SIGTERM and,
// after c.Grace, SIGKILL: see WithKill.
//
// An exit status other than 0, a signal and cancellation are not errors: Exit
// reports them. The error is a *StartError if the program was not started. Any
// other error comes with a valid Exit and says that Stdin, Stdout or Stderr
// failed or that a process could not be killed.
//
// Run is safe for concurrent use.
func Run(ctx context.Context, c *Command) (Exit, error) {
	if err := ctx.Err(); err != nil {
		return Exit{Code: -1, Cancelled: true}, &StartError{Path: c.Path, Err: err}
	}
	s, err := openStdio(c.Stdin != nil)
	if err != nil {
		return Exit{Code: -1}, newStartError(c, err)
	}
	defer s.close()
	s.fill(c.Stdin)
	p, err := start(c, s)
	if err != nil {
		return Exit{Code: -1}, err
	}
	k := s.copy(c)
	suspicious := p.await(ctx.Done(), Killed(ctx), k)
	err = p.finish(suspicious, func() bool {
		return p.exit.Cancelled || !k.wait(c.pipeWait(), nil)
	})
	held, copyErr := k.stop(c.pipeWait())
	p.exit.Held = held
	if copyErr != nil {
		err = errors.Join(err, fmt.Errorf("run %s: %w", c.Path, copyErr))
	}
	return p.exit, err
}

// await waits until the program has exited and its output is at its end, or
// ends it when done is closed, and at once when now is closed. It reports whether something seems to be left.
func (p *child) await(done, now <-chan struct{}, k *copies) (suspicious bool) {
	select {
	case <-p.exited:
		return !k.wait(p.cmd.pipeWait(), done)
	case <-done:
		if !p.hasExited() {
			p.terminate(now)
		}
		return true
	}
}
