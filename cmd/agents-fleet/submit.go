package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents-fleet/internal/archive"
	"github.com/agents-exe/agents/cmd/agents-fleet/internal/attach"
	"github.com/agents-exe/agents/cmd/agents-fleet/internal/connect"
	"github.com/agents-exe/agents/cmd/agents-fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents-fleet/internal/store"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/urfave/cli/v3"
	"go.temporal.io/sdk/client"
)

// A submission has the flags and the start message of a run.
type submission struct {
	file, slug, prompt, workspace string
	media                         []string
	budget                        budgetFlag
	timeout                       time.Duration
	channel                       bool
	start                         agent.Start
}

func (s *submission) flags(f *fleet) []cli.Flag {
	return f.flags(
		&cli.StringFlag{Name: "agent-file", TakesFile: true, Required: true, Usage: "the agent `FILE`; its folder is sent to the workers", Destination: &s.file},
		&cli.StringFlag{Name: "agent", Usage: "the agent `SLUG`, if the file has several", Destination: &s.slug},
		&cli.StringFlag{Name: "prompt", Usage: "the prompt `TEXT`; without it, or with -, standard input is read", Destination: &s.prompt},
		&cli.StringSliceFlag{Name: "media", TakesFile: true, Usage: "attach `PATH`, an image, a PDF or audio; repeatable", Destination: &s.media},
		&cli.GenericFlag{Name: "budget", Usage: "limit what the run and all its sub-agents consume, `AMOUNTS` such as usd=2,seconds=600; repeatable", Value: &s.budget},
		&cli.DurationFlag{Name: "timeout", HideDefault: true, Usage: "end the run after `DURATION` (as 90s or 10m): a budget of seconds", Destination: &s.timeout},
		&cli.StringFlag{Name: "workspace", Usage: "run all tools on one host, in a copy of `SOURCE`: a folder, git+URL#COMMIT or empty", Destination: &s.workspace},
		&cli.StringFlag{Name: "queue", Usage: "the task queue `NAME` of the workers", Value: flow.Queue, Destination: &f.queue},
		f.traceFlag(),
	)
}

// A budgetFlag collects AMOUNT=NUMBER, separated by commas.
type budgetFlag struct{ agent.Budget }

func (b *budgetFlag) Set(s string) error {
	for amount := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(amount), "=")
		if err := b.Budget.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (b *budgetFlag) String() string { return "" }
func (b *budgetFlag) Get() any       { return nil }

func (f *fleet) submitCommand() *cli.Command {
	s := &submission{}
	return &cli.Command{
		Name: "submit", Usage: "start a run and print its id", Flags: s.flags(f),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := errors.Join(noArguments(c), s.read(f.in)); err != nil {
				return err
			}
			r, err := f.submit(ctx, s)
			defer f.close()
			if err == nil {
				_, err = fmt.Fprintln(f.out, r.ID)
			}
			return err
		},
	}
}

// read makes the start message from the flags.
func (s *submission) read(in io.Reader) error {
	if s.timeout < 0 {
		return usage("--timeout %s: it must be positive", s.timeout)
	}
	if s.prompt == "" || s.prompt == "-" {
		text, err := io.ReadAll(io.LimitReader(in, agent.MaxArgsBytes+1))
		if err != nil {
			return &failure{error: fmt.Errorf("read the prompt: %w", err), code: 2}
		}
		s.prompt = strings.TrimSuffix(string(text), "\n")
	}
	if strings.TrimSpace(s.prompt) == "" && len(s.media) == 0 {
		return usage("the prompt is empty")
	}
	for _, path := range s.media {
		data, _, err := config.ReadRegular(path, 20<<20)
		if err != nil {
			return &failure{error: fmt.Errorf("--media: %w", err), code: 2}
		}
		kind, _, _ := strings.Cut(mime.TypeByExtension(filepath.Ext(path)), ";")
		if kind == "" {
			return usage("--media %s: the name does not show the type of the file", path)
		}
		s.start.Media = append(s.start.Media, agent.Part{Kind: agent.PartMedia, MIME: kind, Name: filepath.Base(path), Data: data})
	}
	var err error
	s.start.Args, err = json.Marshal(map[string]string{"prompt": s.prompt})
	return err
}

// submit starts the run. The fleet must be closed, even after an error.
func (f *fleet) submit(ctx context.Context, s *submission) (*attach.Run, error) {
	file, _, err := agentfile.ReadAgent(s.file, s.slug)
	if err != nil {
		return nil, &failure{error: err, code: 2}
	}
	start := s.start
	if len(start.Tools) > 0 || len(start.History) > 0 || start.Session != "" || start.Compact || start.Journal {
		return nil, usage("a fleet does not support tools, a history or a journal of the client, and does not continue sessions")
	}
	start.Channel = channel.Version
	start.Lease.Budget = start.Lease.Budget.Min(s.budget.Budget)
	if s.timeout > 0 {
		seconds := s.timeout.Seconds()
		start.Lease.Budget = start.Lease.Budget.Min(agent.Budget{Seconds: &seconds})
	}
	start.Lease.Traceparent = cmp.Or(start.Lease.Traceparent, os.Getenv("TRACEPARENT"))
	if err := f.open(ctx, connect.Options{}); err != nil {
		return nil, err
	}
	in := flow.Input{File: filepath.Base(file.Real), Options: flow.Options{Agent: s.slug, Trace: f.trace != nil || start.Lease.Traceparent != ""}}
	if in.Folder, err = archive.Pack(ctx, f.store, filepath.Dir(file.Real)); err != nil {
		return nil, fmt.Errorf("pack the agent's folder: %w", err)
	}
	if s.workspace != "" {
		if in.Options.Workspace, err = archive.Spec(ctx, f.store, s.workspace); err != nil {
			return nil, &failure{error: fmt.Errorf("--workspace: %w", err), code: 2}
		}
	}
	text, err := json.Marshal(start)
	if err == nil {
		in.Start, err = store.PutBlob(ctx, f.store, text)
	}
	if err != nil {
		return nil, err
	}
	id := session.NewID()
	in.Record, in.Session = id, id
	_, err = f.client.ExecuteWorkflow(connect.Under(ctx, id, start.Lease.Traceparent), client.StartWorkflowOptions{
		ID: id, TaskQueue: cmp.Or(f.queue, flow.Queue), TypedSearchAttributes: flow.Attributes(file.Spec.Slug, id),
	}, flow.Workflow, in)
	if err != nil {
		return nil, fmt.Errorf("start the run: %w", err)
	}
	return &attach.Run{Client: f.client, Store: f.store, ID: id}, nil
}
