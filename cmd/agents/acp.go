package main

import (
	"context"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/runs"
	"github.com/agents-exe/agents/cmd/agents/internal/serving"
	"github.com/urfave/cli/v3"
)

func acpCommand(p *program.Env) *cli.Command {
	f := &runs.Flags{}
	return &cli.Command{
		Description: `Serves the agent to an editor over the Agent Client Protocol (ACP), until the end of
standard input. The editor starts the program; agents help acp shows the settings that it
needs. Each conversation is a session, in the folder that the editor names.`,
		Flags: append(f.ManyFlags(), command.CompatNamesFlag(&p.Global)),
		Action: command.WithoutArguments(func(ctx context.Context, _ *cli.Command) error {
			if err := f.Keep.Check(); err != nil {
				return err
			}
			return serving.Editor(ctx, p, *f)
		}),
	}
}
