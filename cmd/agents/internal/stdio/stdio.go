// Package stdio runs one agent for the program at the other end of standard input and output,
// over the channel.
package stdio

import (
	"context"
	"errors"
	"os"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/keep"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/runs"
	"github.com/agents-exe/agents/cmd/agents/internal/sinks"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/runner"
)

// Run serves the channel until the run has ended. The last event says how the run
// ended; the error only decides the exit code.
func Run(ctx context.Context, p *program.Env, f runs.Flags) error {
	if p.InTerm {
		p.Note("--channel is for programs: the messages of `agents help nesting` are read from standard input; Ctrl-D ends it")
	}
	r := &channelRun{Flags: f, p: p}
	s := channel.Server{In: p.In, Out: p.Out, Start: r.start, Grace: p.KillAfter, Kill: func() {
		process.EndAll()
		os.Exit(failure.ExitInterrupted)
	}}
	_, err := s.Serve(ctx)
	if closeErr := r.close(); err == nil {
		err = closeErr
	}
	return failure.Silent(err)
}

type channelRun struct {
	runs.Flags
	p      *program.Env
	kept   *keep.Session
	tree   *load.Tree
	output *sinks.Sinks
	host   *host.Host
}

// start loads the agent, or the agent of a session, and begins the run.
func (r *channelRun) start(ctx context.Context, start agent.Start) (*runner.Channel, error) {
	switch {
	case start.Journal:
		r.Keep.None = true
	case start.Session != "":
		r.Keep.Session = start.Session
	}
	var err error
	if r.kept, err = keep.Open(r.p, &r.Keep); err != nil {
		return nil, err
	}
	o := r.Load(r.kept.LoadOptions())
	if start.Person == nil || *start.Person {
		o.Elicit = host.Elicit
	}
	if r.tree, err = load.Load(ctx, r.p, o); err != nil {
		return nil, err
	}
	if r.output, err = sinks.Background(r.p, r.tree, nil); err != nil {
		return nil, err
	}
	r.host = r.Host(r.p, r.tree, r.kept)
	r.host.Observe, r.host.Caller.Key = r.output.Observe, "" // the holder knows the call
	return r.host.Start(ctx, r.tree.Root.Slug, start)
}

func (r *channelRun) close() error {
	var errs []error
	if r.host != nil {
		errs = append(errs, r.host.Wait())
	}
	r.kept.Release()
	if r.tree != nil {
		_ = r.tree.Close() // what it started has ended in any case
	}
	if r.output != nil {
		errs = append(errs, r.output.Close())
	}
	return errors.Join(errs...)
}
