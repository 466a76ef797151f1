package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/attach"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/connect"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	onfleet "github.com/agents-exe/agents/cmd/agents/internal/fleet"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/sinks"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/urfave/cli/v3"
)

func channelFlag(speak *bool) cli.Flag {
	return &cli.BoolFlag{Name: "channel", Usage: "for programs: use the channel on standard input and output (see agents help nesting)", Destination: speak}
}

func (f *fleet) runCommand() *cli.Command {
	s, form := &submission{}, ""
	return &cli.Command{
		Name: "run", Usage: "start a run and show it until it ends; Ctrl-C cancels it", ArgsUsage: "[PROMPT...]",
		Flags: append(s.flags(f), sinks.OutputFlag(&form), channelFlag(&s.channel)),
		Action: func(ctx context.Context, c *cli.Command) error {
			if s.channel {
				return f.serve(ctx, s)
			}
			if err := s.read(ctx, f.Env, c); err != nil {
				return err
			}
			r, err := f.submit(ctx, s)
			if err != nil {
				return err
			}
			life, leave := context.WithCancel(context.WithoutCancel(ctx))
			defer leave()
			defer context.AfterFunc(ctx, func() {
				time.AfterFunc(f.KillAfter, leave) // how long a cancelled run may take to end
				f.problem(r.Cancel(life))
			})()
			return f.follow(life, r, form)
		},
	}
}

func (f *fleet) attachCommand() *cli.Command {
	form, speak, from := "", false, int64(0)
	return &cli.Command{
		Name: "attach", Usage: "show a run from its beginning to its end; after Ctrl-C the run continues", ArgsUsage: "ID",
		Flags: f.flags(sinks.OutputFlag(&form), channelFlag(&speak), &cli.Int64Flag{Name: "from", Usage: "with --channel, begin after event `N`", Destination: &from}),
		Action: func(ctx context.Context, c *cli.Command) error {
			r, err := f.find(ctx, c)
			if err != nil {
				return err
			}
			if speak {
				end, err := r.Serve(ctx, attach.Lines(f.In), f.Out, from, f.problem)
				return silent(end, err)
			}
			return f.follow(ctx, r, form)
		},
	}
}

// find returns the run that the only argument of a command names.
func (f *fleet) find(ctx context.Context, c *cli.Command) (*attach.Run, error) {
	id, err := command.OneArgument(c, "the id of a run, as `agents-fleet list` shows it,")
	if err == nil {
		err = f.open(ctx, connect.Options{})
	}
	return f.run(id), err
}

func (f *fleet) run(id string) *attach.Run {
	return &attach.Run{Client: f.client, Store: f.store, ID: id, Note: func(text string) { f.Warn(text) }}
}

func (f *fleet) cancelCommand() *cli.Command {
	return &cli.Command{
		Name: "cancel", Usage: "cancel a run and its sub-agents", ArgsUsage: "ID", Flags: f.flags(),
		Action: func(ctx context.Context, c *cli.Command) error {
			r, err := f.find(ctx, c)
			if err != nil {
				return err
			}
			return f.ended(r, r.Cancel(ctx))
		},
	}
}

func (f *fleet) terminateCommand() *cli.Command {
	return &cli.Command{
		Name: "terminate", Usage: "end a run that cancel does not end, for example because no worker is running", ArgsUsage: "ID", Flags: f.flags(),
		Description: "Temporal ends the run and its sub-agents at once. Workers that are still working on it\nkill its programs as soon as they notice. The record of the run gets an end with the\nstatus interrupted.",
		Action: func(ctx context.Context, c *cli.Command) error {
			r, err := f.find(ctx, c)
			if err != nil {
				return err
			}
			return f.ended(r, r.Terminate(ctx))
		},
	}
}

// ended returns the error of a command that was to end a run.
func (f *fleet) ended(r *attach.Run, err error) error {
	switch {
	case errors.Is(err, attach.ErrEnded):
		f.Note("run %s has already ended", r.ID)
		return nil
	case errors.Is(err, attach.ErrNoRun):
		return noRun(err)
	}
	return err
}

func noRun(err error) error { return failure.NothingRan(err, "`agents-fleet list` shows the runs") }

// problem shows an error as a warning.
func (f *fleet) problem(err error) {
	if err != nil && !errors.Is(err, attach.ErrEnded) {
		f.Warn(err.Error())
	}
}

// serve starts the run that a start message on standard input describes, and speaks the
// channel until it ends.
func (f *fleet) serve(ctx context.Context, s *submission) error {
	lines := attach.Lines(f.In)
	err := io.ErrUnexpectedEOF
	if lines.Scan() {
		s.start, err = channel.DecodeStart(lines.Bytes())
	}
	var r *attach.Run
	if err == nil {
		r, err = f.submit(ctx, s)
	}
	if err != nil {
		line, _ := channel.EncodeEvent(attach.End(1, err)) // it is short
		_, writeErr := f.Out.Write(line)
		return failure.Silent(errors.Join(err, writeErr))
	}
	end, err := r.Serve(ctx, lines, f.Out, 0, f.problem)
	return silent(end, err)
}

// silent returns the error of a run whose end has been shown.
func silent(end agent.Event, err error) error {
	if err == nil && end.Status == agent.StatusOK {
		return nil
	}
	return failure.Silent(errors.Join(err, &agent.EndError{Status: end.Status, Text: end.Error}))
}

func (f *fleet) follow(ctx context.Context, r *attach.Run, form string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	person := ask.NewPerson(f.Env)
	s, err := sinks.Open(ctx, f.Env, &load.Tree{Tree: &agentfile.Tree{}, Log: &load.ServerLog{}}, sinks.Flags{Output: form}, person, cancel)
	if err != nil {
		return err
	}
	approver := ask.NewApprover(f.Env, person, false, nil)
	approver.Session = func() string { return r.ID }
	h := &onfleet.Run{Agent: r.ID, Observe: observe.Tee(s.Observe, approver.Observe), Ask: func(ctx context.Context, q agent.Event) {
		if person == nil || r.Answered(ctx, q.Question) {
			return
		}
		answer, err := approver.Answer(ctx, q)
		if ctx.Err() != nil { // another person may attach and answer
			return
		}
		if err != nil {
			answer = nil // nobody answers
		}
		f.problem(r.Reply(ctx, q.Question, answer))
	}}
	out, err := h.Follow(ctx, r.Events(ctx, 0))
	switch {
	case errors.Is(err, attach.ErrNoRun):
		return errors.Join(s.Close(), noRun(err))
	case err != nil && err.Error() == flow.TimedOut:
		err = &failure.Ending{Text: flow.TimedOut, Cause: context.DeadlineExceeded}
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), failure.ErrOutput):
		err = &failure.Error{Code: failure.ExitInterrupted, Err: errors.New("detached from the run"), Hint: fmt.Sprintf("the run has not ended; `agents-fleet attach %s` shows it, `agents-fleet cancel %s` cancels it", r.ID, r.ID)}
	}
	return s.Finish(out, err)
}
