package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/prompt"
	"github.com/agents-exe/agents/cmd/agents/internal/sinks"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/urfave/cli/v3"
)

// fleetFlags are the flags that --on fleet can be combined with. The others decide what
// happens on the host of a run.
var fleetFlags = []string{"on", "prompt", "file", "shell", "sep4", "sep40", "args", "arg", "media", "alias", "output", "output-schema", "context", "stream", "trace-file", "budget", "timeout", "yes",
	"agent-file", "agent", "quiet", "color", "log-json-file", "log-http", "log-file", "transcript"}

// runOnFleet answers one prompt on the workers of a fleet: agents-fleet starts the run and
// speaks the channel about it.
func runOnFleet(ctx context.Context, p *program.Env, f *runFlags, c *cli.Command) error {
	for _, level := range c.Lineage() {
		for _, flag := range level.Flags {
			if name := flag.Names()[0]; flag.IsSet() && !slices.Contains(fleetFlags, name) {
				return failure.Usage("the workers of a fleet have their own configuration, keys and sessions", "--%s cannot be used with --on fleet", name)
			}
		}
	}
	if err := f.check(); err != nil {
		return err
	}
	path, err := program.Companion(program.Fleet)
	if err != nil {
		return failure.NothingRan(fmt.Errorf("--on fleet: %w", err), "`make fleet` in a checkout of agents builds it; put it beside agents")
	}
	loaded, err := load.Load(ctx, p, load.Options{NoModels: true})
	if err != nil {
		return err
	}
	defer loaded.Close()
	start, err := f.fleetStart(ctx, p, loaded)
	if err != nil {
		return err
	}
	person := ask.NewPerson(p)
	asked := person != nil || f.rights.Yes
	start.Person = &asked
	ctx, end := f.limit(ctx)
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.sinks.Whole, f.sinks.Spans = start.OutputSchema != nil || loaded.Root.OutputSchema != nil, f.sinks.TraceFile != ""
	s, err := sinks.Open(ctx, p, loaded, f.sinks, person, cancel)
	if err != nil {
		return err
	}
	approver := ask.NewApprover(p, person, f.rights.Yes, cancel)
	h := &fleetRun{path: path, approver: approver, observe: observe.Tee(s.Observe, approver.Observe)}
	h.out.Agent = loaded.Root.Slug
	h.args = []string{"run", "--channel", "--agent-file", loaded.Nodes[0].File.Path}
	if p.Global.Agent != "" {
		h.args = append(h.args, "--agent", p.Global.Agent)
	}
	out, err := h.run(ctx, p, start)
	return s.Finish(out, err)
}

// fleetStart is what the run starts with.
func (f *runFlags) fleetStart(ctx context.Context, p *program.Env, l *load.Tree) (start agent.Start, err error) {
	start.Lease.Budget = f.budget.Budget
	if f.context != "" {
		text, err := prompt.ReadJSON(ctx, p, "--context", f.context, agent.MaxContext)
		if err != nil {
			return start, err
		}
		start.Context = json.RawMessage(text)
	}
	answer, err := prompt.ReadAnswerSchema(ctx, f.schema)
	if err != nil {
		return start, err
	}
	if answer != nil { // it was read, and can be compiled
		if start.OutputSchema, err = os.ReadFile(f.schema); err != nil {
			return start, failure.NothingRan(fmt.Errorf("--output-schema: %w", err), "")
		}
	}
	m, _, err := f.opening(ctx, p, l, true) // which checks the arguments too
	if err != nil {
		return start, err
	}
	for _, part := range m.Parts {
		if part.Kind == agent.PartMedia {
			start.Media = append(start.Media, part)
		}
	}
	var text string
	if f.args.Given() {
		text, err = f.args.Text(ctx, p, l.Root)
		start.Args = json.RawMessage(text)
	} else if text = m.Text(); text != "" {
		start.Args, err = json.Marshal(map[string]string{"prompt": text})
	}
	return start, err
}

// A fleetRun is a run on a fleet, from the side of its holder.
type fleetRun struct {
	path     string
	args     []string
	approver *ask.Approver
	observe  func(agent.Event)
	out      agent.Outcome
}

// run starts agents-fleet and follows the run until it ends. The end of ctx cancels it.
func (h *fleetRun) run(ctx context.Context, p *program.Env, start agent.Start) (*agent.Outcome, error) {
	in, toChild := io.Pipe()
	fromChild, out := io.Pipe()
	var exit process.Exit
	var exitErr error
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	var child sync.WaitGroup
	child.Go(func() {
		exit, exitErr = process.Run(life, &process.Command{Path: h.path, Args: h.args, Env: p.Environ, Stdin: in, Stdout: out, Stderr: p.Err})
		in.Close()
		out.Close()
	})
	conn := channel.Open(fromChild, toChild, start)
	stop := context.AfterFunc(ctx, func() { _ = conn.Cancel(context.Cause(ctx).Error()) }) // a child that has ended is reported below
	began := time.Now()
	err := h.follow(ctx, conn)
	h.out.Duration = time.Since(began)
	stop()
	conn.Close()
	late := time.AfterFunc(p.KillAfter, kill)
	child.Wait()
	late.Stop()
	switch {
	case ctx.Err() != nil && h.out.Status == agent.StatusInterrupted:
		err = agent.ContextError(ctx)
	case exitErr != nil:
		err = failure.NothingRan(fmt.Errorf("run %s: %w", h.path, exitErr), "")
	case err != nil && exit.Code == failure.ExitNothingRan:
		err = failure.NothingRan(err, "`agents-fleet dev` runs a server and a worker on this machine; TEMPORAL_ADDRESS and AGENTS_FLEET_STORE name others (see agents help fleet)")
	}
	return &h.out, err
}

// follow shows the events of the run and answers its questions. The error says why there is no
// answer.
func (h *fleetRun) follow(ctx context.Context, conn *channel.Conn) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for e, err := range conn.Events() {
		if err != nil {
			h.out.Status = agent.StatusFailed
			return err
		}
		if e.Kind != agent.EventEnd || e.Session != "" { // not that of a run that did not begin
			h.observe(e)
		}
		switch {
		case e.Kind == agent.EventQuestion:
			asking.Go(func() {
				answer, err := h.approver.Answer(ctx, e)
				if err != nil {
					answer = nil // nobody answers
				}
				_ = conn.Reply(e.Question, answer) // Events has the error
			})
		case e.Depth > 0:
		case e.Kind == agent.EventSession:
			h.out.Agent, h.out.Session = e.Agent, e.Session
		case e.Kind == agent.EventAnswer:
			h.out.Turns++
		case e.Kind == agent.EventEnd:
			return h.end(e)
		}
	}
	return errors.New("agents-fleet ended before the run") // not reached: Events ends with an end event or an error
}

// end notes how the run ended.
func (h *fleetRun) end(e agent.Event) error {
	h.out.Status, h.out.Answer, h.out.Reason = e.Status, e.Text, e.Error
	if e.Total != nil {
		h.out.Total = *e.Total
	}
	if e.Status == agent.StatusOK || e.Status == agent.StatusPartial {
		return nil
	}
	return &agent.EndError{Status: e.Status, Text: e.Error}
}
