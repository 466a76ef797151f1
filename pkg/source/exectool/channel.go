package exectool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/leaf/spool"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/process"
)

// channelGrace is how long an agent may take to end by itself after it was cancelled.
const channelGrace = 2 * time.Second

// callChannel runs an agent in a process of its own, which speaks the channel on its
// standard input and output. Its only time limits are those of the caller and of its
// description. If the process ends before its run, it is started again.
func (t *Tool) callChannel(ctx context.Context, inv *agent.Invocation) (result agent.Result, err error) {
	for key, limit := range map[string]time.Duration{"timeout-seconds": t.desc.Timeout, "deadline-seconds": t.desc.Deadline} {
		if limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, limit, &agent.EndError{Status: agent.StatusDeadline, Text: fmt.Sprintf("timed out after %s (%s)", seconds(limit), key)})
			defer cancel()
		}
	}
	line, err := t.CommandLine("run", "--channel")
	if err != nil {
		return agent.Result{}, fmt.Errorf("nothing ran: %w", err)
	}
	locks, release, err := t.lock(ctx, inv)
	if err != nil {
		return agent.Result{}, fmt.Errorf("nothing ran: %w", err)
	}
	defer release()
	defer func() { inv.Caller.Called(ctx, inv, err) }()
	env := callEnviron(t.env, inv, t.opts.tree, locks)
	for try := 0; ; try++ {
		var exit process.Exit
		result, exit, err = t.channelProcess(ctx, inv, line, env)
		early, ok := errors.AsType[*channel.EndedError](err)
		if !ok || early.Seq == 0 && !killed(exit) || try == maxRestarts || ctx.Err() != nil {
			return result, err
		}
		inv.Progress(err.Error() + "; it is started again and continues")
	}
}

// maxRestarts is how often an agent whose process ended before its run is started again.
// One that ends by itself before its first event is not: it would do so again.
const maxRestarts = 2

// channelProcess runs one process of callChannel.
func (t *Tool) channelProcess(ctx context.Context, inv *agent.Invocation, line, env []string) (agent.Result, process.Exit, error) {
	stderr := &stderrWriter{keep: &spool.Output{MemoryOnly: true}, inv: inv}
	clean := t.opts.Redact.Writer(stderr)
	childIn, toChild := io.Pipe()
	fromChild, childOut := io.Pipe()
	cmd := &process.Command{
		Path: line[0], Args: line[1:], Env: env, Dir: t.src.Dir,
		Stdin: childIn, Stdout: childOut, Stderr: clean, Mark: inv.Key, Grace: t.opts.Grace, Sandbox: t.Confinement(),
	}
	cmd.EndContainer()
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	late := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(channelGrace):
		case <-process.Killed(ctx):
		}
		end()
	})
	defer late()
	var exit process.Exit
	var runErr error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		exit, runErr = process.Run(alive, cmd)
		childOut.Close()
	}()
	result, err := channel.Call(ctx, inv, fromChild, toChild)
	fromChild.Close()                                   // further output is dropped
	_, early := errors.AsType[*channel.EndedError](err) // most programs then exit by themselves
	if !early && errors.Is(err, channel.ErrProtocol) || errors.Is(err, agent.ErrChild) || errors.Is(err, agent.ErrBudget) {
		end() // it cannot be expected to end by itself
	}
	timer := time.AfterFunc(channelGrace, end)
	defer timer.Stop()
	<-ended
	clean.Close()
	if start, ok := errors.AsType[*process.StartError](runErr); ok {
		return agent.Result{}, exit, startError(ctx, start, size(cmd.Args))
	}
	if errors.Is(err, channel.ErrProtocol) {
		err = fmt.Errorf("%w (%s)%s", err, exit, lastWords(stderr.keep))
	}
	return result, exit, err
}

// killed reports whether a signal that this process did not send ended a program. A shell
// or a container reports SIGKILL as an exit code.
func killed(exit process.Exit) bool {
	const status = 128 + 9
	return !exit.Cancelled && (exit.Signal != 0 || exit.Code == status)
}

// lastWords returns the end of what a program wrote to stderr, for an error.
func lastWords(stderr *spool.Output) string {
	const most = 500
	text := strings.TrimSpace(stderr.Tail(spool.MaxText / 2))
	if text == "" {
		return ""
	}
	return ": " + strings.ToValidUTF8(text[max(0, len(text)-most):], "")
}

// borrow gives cmd the models that are lent to its call, until end is called.
func (t *Tool) borrow(ctx context.Context, inv *agent.Invocation, cmd *process.Command) (end func(), err error) {
	if !t.desc.Models || t.opts.Lend == nil {
		return func() {}, nil
	}
	e, err := t.opts.Lend(ctx, inv, t.desc.ModelNames)
	switch {
	case err != nil:
		return nil, err
	case e == nil:
		return func() {}, nil
	case t.src.Runner != nil:
		e.Close()
		return nil, errors.New("the models that the agent lends to this tool cannot be reached from behind a runner")
	}
	cmd.Local, cmd.Env = e.Address(), toolenv.Lent(cmd.Env, e.Environ())
	return e.Close, nil
}
