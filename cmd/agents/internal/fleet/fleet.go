// Package fleet runs an agent on the workers of a fleet: the program agents-fleet starts the
// run and speaks the channel about it.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/process"
)

// A Run is a run on a fleet. Do or Follow must be called once.
type Run struct {
	// Path is the path of agents-fleet, and Args are its arguments, for Do.
	Path string
	Args []string
	// Approver answers questions, for Do.
	Approver *ask.Approver
	// Ask answers a question, for Follow. ctx ends with the run.
	Ask     func(ctx context.Context, question agent.Event)
	Observe func(agent.Event)
	// Agent is the slug of the agent, for a run that does not begin.
	Agent string

	out agent.Outcome
}

// Do starts agents-fleet and follows the run until it ends. The end of ctx cancels it.
func (h *Run) Do(ctx context.Context, p *program.Env, start agent.Start) (*agent.Outcome, error) {
	in, toChild := io.Pipe()
	fromChild, out := io.Pipe()
	var exit process.Exit
	var exitErr error
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	var child sync.WaitGroup
	child.Go(func() {
		exit, exitErr = process.Run(life, &process.Command{Path: h.Path, Args: h.Args, Env: p.Environ, Stdin: in, Stdout: out, Stderr: p.Err})
		in.Close()
		out.Close()
	})
	conn := channel.Open(fromChild, toChild, start)
	stop := context.AfterFunc(ctx, func() { _ = conn.Cancel(context.Cause(ctx).Error()) }) // a child that has ended is reported below
	h.Ask = func(ctx context.Context, q agent.Event) {
		answer, err := h.Approver.Answer(ctx, q)
		if err != nil {
			answer = nil // nobody answers
		}
		_ = conn.Reply(q.Question, answer) // Events has the error
	}
	_, err := h.Follow(ctx, conn.Events())
	stop()
	conn.Close()
	late := time.AfterFunc(p.KillAfter, kill)
	child.Wait()
	late.Stop()
	switch {
	case ctx.Err() != nil && (h.out.Status == agent.StatusInterrupted || h.out.Status == agent.StatusDeadline):
		err = agent.ContextError(ctx)
	case exitErr != nil:
		err = failure.NothingRan(fmt.Errorf("run %s: %w", h.Path, exitErr), "")
	case err != nil && exit.Code == failure.ExitNothingRan:
		err = failure.NothingRan(err, "`agents-fleet dev` runs a server and a worker on this machine; TEMPORAL_ADDRESS and AGENTS_FLEET_STORE name others (see agents help fleet)")
	}
	return &h.out, err
}

// Follow shows the events of the run and answers its questions with Ask. The error says why
// there is no answer.
func (h *Run) Follow(ctx context.Context, events iter.Seq2[agent.Event, error]) (*agent.Outcome, error) {
	began := time.Now()
	h.out.Agent = h.Agent
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for e, err := range events {
		if err != nil {
			h.out.Status, h.out.Duration = agent.StatusFailed, time.Since(began)
			return &h.out, err
		}
		if e.Kind != agent.EventEnd || e.Session != "" { // not that of a run that did not begin
			h.Observe(e)
		}
		switch {
		case e.Kind == agent.EventQuestion:
			asking.Go(func() { h.Ask(ctx, e) })
		case e.Depth > 0:
		case e.Kind == agent.EventSession:
			h.out.Agent, h.out.Session = e.Agent, e.Session
		case e.Kind == agent.EventAnswer:
			h.out.Turns++
		case e.Kind == agent.EventEnd:
			h.out.Duration = cmp.Or(time.Duration(e.Millis)*time.Millisecond, time.Since(began))
			return &h.out, h.end(e)
		}
	}
	return &h.out, errors.New("agents-fleet ended before the run") // not reached: Events ends with an end event or an error
}

func (h *Run) end(e agent.Event) error {
	h.out.Status, h.out.Answer, h.out.Reason = e.Status, e.Text, e.Error
	if e.Total != nil {
		h.out.Total = *e.Total
	}
	if e.Status == agent.StatusOK || e.Status == agent.StatusPartial {
		return nil
	}
	return &agent.EndError{Status: e.Status, Text: e.Error}
}
