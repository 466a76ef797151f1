package bash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/contextfile"
	"github.com/agents-exe/agents/pkg/leaf/spool"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/process"
)

// A command is one that runs or has run.
type command struct {
	set   *Toolset
	id    string
	text  string
	began time.Time
	done  chan struct{} // closed when it has ended

	context *contextfile.File // removed by the call, or when it ends in the background

	mu         sync.Mutex
	out        spool.Output
	cancel     context.CancelCauseFunc
	ended      time.Time // zero while it runs
	exit       process.Exit
	failure    error
	background bool
	killed     bool   // by bash_kill
	file       string // with its output, in the background
	read       int64  // how much of it bash_read has returned
}

func (s *Toolset) command(inv *agent.Invocation, text string) *command {
	return &command{set: s, id: id(inv), text: text, began: time.Now(), done: make(chan struct{}),
		out: spool.Output{Dir: s.opts.SpoolDir, Pattern: toolname.Join("", inv.Key) + "-*.output"}}
}

// Write implements io.Writer.
func (c *command) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(p)
}

// execute runs cmd until it ends or ctx does.
func (c *command) execute(ctx context.Context, cmd *process.Command) {
	ctx, stop := context.WithTimeoutCause(ctx, c.set.opts.Timeout, fmt.Errorf("timed out after %s (timeoutSeconds)", seconds(c.set.opts.Timeout)))
	defer stop()
	stdout, stderr := c.set.opts.Redact.Writer(c), c.set.opts.Redact.Writer(c)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	exit, err := process.Run(ctx, cmd)
	stdout.Close() // what may be the beginning of a secret; neither writer can fail
	stderr.Close()
	failure := exit.Failure(ctx, err)
	if start, ok := errors.AsType[*process.StartError](err); ok {
		failure = fmt.Errorf("nothing ran: %w", start)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = process.WithRefused(failure, c.set.opts.Sandbox, c.out.Excerpt(), exit.Refused)
	c.exit, c.ended = exit, time.Now()
	close(c.done)
}

// run runs the command of a call and returns its result: what it printed, or that it
// continues in the background.
func (c *command) run(ctx context.Context, inv *agent.Invocation, cmd *process.Command) (agent.Result, error) {
	after := c.set.opts.BackgroundAfter
	if after <= 0 {
		c.execute(ctx, cmd)
		return c.end(ctx)
	}
	jobs := jobsOf(inv)
	ready := make(chan struct{})
	err := inv.Background(ctx, func(ctx context.Context) string {
		ctx, c.cancel = context.WithCancelCause(ctx)
		defer c.cancel(nil)
		close(ready)
		c.execute(ctx, cmd)
		return c.notice()
	})
	if err != nil { // outside a run there is nothing that it could outlast
		c.execute(ctx, cmd)
		return c.end(ctx)
	}
	<-ready
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-ctx.Done():
		c.cancel(context.Cause(ctx))
		<-c.done
	case <-timer.C:
		if jobs.add(c) {
			return agent.TextResult(c.moved()), nil
		}
		c.cancel(fmt.Errorf("it ran for %s, and %d commands are in the background already, which is the limit", seconds(after), MaxBackground))
		<-c.done
	}
	return c.end(ctx)
}

// end is the result of a call whose command has ended, and passes what it has made of the
// context to the run.
func (c *command) end(ctx context.Context) (agent.Result, error) {
	defer c.context.Remove()
	result, err := c.result()
	if err == nil {
		err = c.context.Changed(ctx)
	}
	return result, err
}

// result is what the model gets of a command that has ended.
func (c *command) result() (agent.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.out.Close()
	limit := c.set.opts.MaxOutput
	switch {
	case c.out.Total() == 0 && c.failure != nil:
		return agent.Result{}, fmt.Errorf("%w; it printed nothing", c.failure)
	case c.out.Total() == 0:
		return agent.TextResult("The commands printed nothing and succeeded."), nil
	case c.failure != nil:
		return agent.TextResult("\n" + c.out.Text(max(0, limit-len(c.failure.Error())), "the output")), c.failure
	}
	return agent.TextResult(c.out.Text(limit, "the output")), nil
}

// moved says that the command continues in the background.
func (c *command) moved() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := fmt.Sprintf("[It still runs after %s and continues in the background as command %s. %s. A message follows when it ends; all commands end with this run.]",
		seconds(c.set.opts.BackgroundAfter), c.id, c.place())
	if c.out.Total() > 0 {
		text = strings.TrimSuffix(c.out.Text(c.set.opts.MaxOutput-len(text), "the output"), "\n") + "\n\n" + text
	}
	return text
}

// place says where the output is. c.mu is held.
func (c *command) place() string {
	name, err := c.out.File()
	c.file = name
	if err != nil {
		return fmt.Sprintf("Its output cannot be kept in a file: %v", err)
	}
	return "Its output is in the file " + name
}

// notice is the message about the end of a command in the background.
func (c *command) notice() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.background {
		return ""
	}
	c.context.Remove()
	c.out.Close() // the file stays
	if c.killed {
		return ""
	}
	return fmt.Sprintf("[Command %s in the background has ended (%s) after %s. %s, %d bytes.]", c.id, c.state(), elapsed(c.ended.Sub(c.began)), c.place(), c.out.Total())
}

// state says how a command has ended. c.mu is held.
func (c *command) state() string {
	if c.failure != nil {
		return c.failure.Error()
	}
	return c.exit.String()
}

// elapsed is d for people: tenths of seconds.
func elapsed(d time.Duration) string { return seconds(d.Round(100 * time.Millisecond)) }
