package main

import (
	"context"
	"slices"

	"github.com/agents-exe/agents/cmd/agents/internal/chat"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/urfave/cli/v3"
)

func acpCommand(p *program.Env) *cli.Command {
	o := &chat.Options{}
	budget := &command.BudgetFlag{}
	return &cli.Command{
		Description: `Serves the agent to an editor over the Agent Client Protocol (ACP), until the end of
standard input. The editor starts the program; agents help acp shows the settings that it
needs. Each conversation is a session, in the folder that the editor names.`,
		Flags: append(slices.Concat(o.Keep.Folders(), o.Models.Flags(), o.Rights.CallFlags()),
			command.CompatNamesFlag(&p.Global),
			&cli.GenericFlag{Name: "set", Usage: "fill ${NAME} in the agent's prompts, `NAME=VALUE`; repeatable", Value: &command.SetFlag{Values: &o.Set}},
			&cli.GenericFlag{Name: "budget", Usage: "limit each run, `AMOUNTS` such as usd=2,seconds=600; repeatable (see agents help budgets)", Value: budget},
		),
		Action: command.WithoutArguments(func(ctx context.Context, _ *cli.Command) error {
			if err := o.Keep.Check(); err != nil {
				return err
			}
			o.Budget = budget.Budget
			return chat.Editor(ctx, p, *o)
		}),
	}
}
