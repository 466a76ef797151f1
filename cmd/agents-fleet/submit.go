package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/archive"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/attach"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/connect"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/prompt"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/urfave/cli/v3"
	"go.temporal.io/sdk/client"
)

type submission struct {
	file, slug, workspace string
	prompt                prompt.Flags
	budget                agent.Budget
	timeout               time.Duration
	channel               bool
	start                 agent.Start
}

func (s *submission) flags(f *fleet) []cli.Flag {
	return f.flags(append(s.prompt.Script.Flags(f.Env, nil),
		&cli.StringFlag{Name: "agent-file", TakesFile: true, Required: true, Usage: "the agent `FILE`; its folder is sent to the workers", Destination: &s.file},
		&cli.StringFlag{Name: "agent", Usage: "the agent `SLUG`, if the file has several", Destination: &s.slug},
		&cli.StringSliceFlag{Name: "media", Aliases: []string{"m"}, Usage: "attach `[MIME;]PATH`, an image, a PDF or audio; repeatable", Destination: &s.prompt.Media},
		command.BudgetFlag("limit what the run and all its sub-agents consume, `AMOUNTS` such as usd=2,seconds=600; repeatable", &s.budget),
		&cli.DurationFlag{Name: "timeout", HideDefault: true, Usage: "end the run after `DURATION` (as 90s or 10m), including the time in the queue", Destination: &s.timeout},
		&cli.StringFlag{Name: "workspace", Usage: "run all tools on one host, in a copy of `SOURCE`: a folder, git+URL#COMMIT or empty", Destination: &s.workspace},
		&cli.StringFlag{Name: "queue", Usage: "the task queue `NAME` of the workers", Value: flow.Queue, Destination: &f.queue},
		f.traceFlag(),
	)...)
}

func (f *fleet) submitCommand() *cli.Command {
	s := &submission{}
	return &cli.Command{
		Name: "submit", Usage: "start a run and print its id", ArgsUsage: "[PROMPT...]", Flags: s.flags(f),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := s.read(ctx, f.Env, c); err != nil {
				return err
			}
			r, err := f.submit(ctx, s)
			if err != nil {
				return err
			}
			if text := r.Unattended(ctx); text != "" {
				f.Warn(text)
			}
			_, err = fmt.Fprintln(f.Out, r.ID)
			return err
		},
	}
}

func (s *submission) read(ctx context.Context, p *program.Env, c *cli.Command) error {
	if err := s.prompt.Arguments(c); err != nil {
		return err
	}
	m, err := s.prompt.Message(ctx, p, nil) // without aliases it needs no agent
	if err != nil {
		return err
	}
	s.start.Media = m.Parts[1:]
	s.start.Args, err = json.Marshal(map[string]string{"prompt": m.Parts[0].Text})
	return err
}

func (f *fleet) submit(ctx context.Context, s *submission) (*attach.Run, error) {
	file, _, err := agentfile.ReadAgent(s.file, s.slug)
	if err != nil {
		return nil, failure.NothingRan(err, "")
	}
	if s.timeout < 0 {
		return nil, failure.Usage("", "--timeout %s: it must be positive", s.timeout)
	}
	start := s.start
	if len(start.Tools) > 0 || len(start.History) > 0 || start.Session != "" || start.Compact || start.Journal {
		return nil, failure.Usage("", "a fleet does not support tools, a history or a journal of the client, and does not continue sessions")
	}
	start.Channel = channel.Version
	start.Lease.Budget = start.Lease.Budget.Min(s.budget)
	start.Lease.Traceparent = cmp.Or(start.Lease.Traceparent, os.Getenv("TRACEPARENT"))
	if err := f.open(ctx, connect.Options{}); err != nil {
		return nil, err
	}
	id := session.NewID()
	in := flow.Input{Record: id, Session: id, File: filepath.Base(file.Real), Options: flow.Options{Agent: s.slug, Trace: f.trace != nil || start.Lease.Traceparent != ""}}
	if s.timeout > 0 {
		in.Options.Deadline = time.Now().Add(s.timeout)
	}
	if in.Folder, err = archive.Pack(ctx, f.store, store.SharedOwner(id), filepath.Dir(file.Real)); err != nil {
		return nil, fmt.Errorf("pack the agent's folder: %w", err)
	}
	if s.workspace != "" {
		if in.Options.Workspace, err = archive.Spec(ctx, f.store, id, s.workspace); err != nil {
			return nil, failure.NothingRan(fmt.Errorf("--workspace: %w", err), "")
		}
	}
	text, err := json.Marshal(start)
	if err == nil {
		in.Start, err = store.PutBlob(ctx, f.store, id, text)
	}
	if err != nil {
		return nil, err
	}
	o := client.StartWorkflowOptions{
		ID: id, TaskQueue: cmp.Or(f.queue, flow.Queue), TypedSearchAttributes: flow.Attributes(file.Spec.Slug, id), StaticSummary: file.Spec.Slug,
	}
	if s.timeout > 0 {
		o.WorkflowExecutionTimeout = s.timeout + flow.EndTime
	}
	if _, err := f.client.ExecuteWorkflow(connect.Under(ctx, id, start.Lease.Traceparent), o, flow.Workflow, in); err != nil {
		return nil, fmt.Errorf("start the run: %w", err)
	}
	return f.run(id), nil
}
