package main

import (
	"context"
	"fmt"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/urfave/cli/v3"
)

func (f *fleet) pruneCommand() *cli.Command {
	older, dry := "", false
	return &cli.Command{
		Name: "prune", Usage: "remove runs that ended long ago from the store",
		Description: "Removes everything in the store that belongs to runs that ended before --older-than:\nrecords, prompts, large texts, replies and workspaces. A run whose record has no end\nstays: it may be in the queue or in progress. The folders of the agents submitted on a\nday are removed with the last run of that day. Workers may be running; the Temporal\nserver is not used.",
		Flags: append(f.storeFlags(),
			&cli.StringFlag{Name: "older-than", Required: true, Usage: "remove the runs that ended before `DATE`: 30d or 36h ago, or 2026-11-21; at least an hour ago", Destination: &older},
			&cli.BoolFlag{Name: "dry-run", Usage: "remove nothing, only print what would be removed", Destination: &dry}),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := command.NoArguments(c); err != nil {
				return err
			}
			now := time.Now()
			before, err := sessions.ParseDate(older, now)
			if err == nil && before.After(now.Add(-time.Hour)) {
				err = fmt.Errorf("it must be at least an hour ago: a worker may still be ending a later run")
			}
			if err != nil {
				return failure.Usage("", "--older-than %s: %w", older, err)
			}
			if err := f.openStore(ctx); err != nil {
				return err
			}
			return f.prune(ctx, before, dry)
		},
	}
}

// prune removes the runs that ended before a time, and prints them.
func (f *fleet) prune(ctx context.Context, before time.Time, dry bool) error {
	runs, days, failed, verb := 0, 0, 0, "removed"
	if dry {
		verb = "would remove"
	}
	for x, err := range store.ExpiredBefore(ctx, f.store, before) {
		if err == nil && !dry {
			err = f.store.Remove(ctx, x.Owner)
		}
		if err != nil && x.Owner == "" {
			return err
		}
		switch {
		case err != nil:
			failed++
			f.Warn(fmt.Sprintf("%s stays: %s", x.Owner, err))
			continue
		case x.End == nil:
			days++
			continue
		}
		runs++
		if _, err := fmt.Fprintf(f.Out, "%s  %s  %s  %s\n", x.Owner, x.End.Time.Local().Format(time.DateTime), x.End.Status, termtext.Clean(x.End.Agent)); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(f.Out, "%s %d %s, and the agents' folders of %d %s\n", verb, runs, program.Plural(runs, "run"), days, program.Plural(days, "day")); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d %s could not be read or removed", failed, program.Plural(failed, "run"))
	}
	return nil
}
