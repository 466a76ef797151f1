package main

import (
	"context"
	"fmt"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/exectool"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/urfave/cli/v3"
)

func toolDescribeCommand(p *program.Env) *cli.Command {
	return &cli.Command{
		ArgsUsage: "PATH",
		Description: `The description is printed with the defaults filled in. Notes for the tool's
author go to stderr. A description that cannot be used is an error, exit code 2.`,
		Action: command.WithArgument("the tool's file", func(ctx context.Context, _ *cli.Command, path string) error {
			return load.Noted(ctx, p, func() error { return toolDescribe(ctx, p, path) })
		}),
	}
}

func toolDescribe(ctx context.Context, p *program.Env, path string) error {
	t, err := load.OpenTool(ctx, p, path)
	if err != nil {
		return err
	}
	d, err := t.Description()
	if err != nil {
		return failure.NothingRan(fmt.Errorf("describe %s: %w", path, err), load.ToolHint(err))
	}
	for _, note := range t.Notes() {
		fmt.Fprintf(p.Err, "note: %s: %s\n", termtext.Clean(path), termtext.Clean(note))
	}
	return p.WriteJSON(asChecked(d))
}

// asChecked is a description with everything in it that a reader of the tool's own
// output takes as understood.
func asChecked(d *exectool.Description) load.Description {
	out := load.Description{
		Slug: d.Slug, Description: d.Description, Args: []load.DescribedArg{}, MediaType: d.MediaType,
		Effects: d.Effects, Locks: d.Locks, Task: d.Task, Timeout: d.Timeout.Seconds(), Deadline: d.Deadline.Seconds(), Channel: d.Channel, Input: d.Input, Examples: d.Examples,
	}
	if out.Effects == "" {
		out.Effects = agent.EffectsOnce
	}
	if d.Empty != "" {
		out.Empty = &load.DescribedMessage{Tag: "AddMessage", Contents: d.Empty}
	}
	for _, a := range d.Args {
		arity := "single"
		if a.Optional {
			arity = "optional"
		}
		out.Args = append(out.Args, load.DescribedArg{
			Name: a.Name, Description: a.Description, Type: a.Type, Backing: a.Backing, Arity: arity, Mode: string(a.Mode),
			AllowDash: a.AllowDash, Enum: a.Enum, Default: a.Default, Items: a.Items,
		})
	}
	return out
}
