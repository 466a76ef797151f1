package main

import (
	"context"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/urfave/cli/v3"
)

func sessionShowCommand(p *program.Env) *cli.Command {
	f := &sessions.ShowFlags{}
	return &cli.Command{
		ArgsUsage: "[ID]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "tools", Value: "cut", Usage: "arguments and results of calls: `DETAIL` is hidden, cut or whole", Destination: &f.Tools, Validator: command.OneOf("hidden", "cut", "whole")},
			&cli.IntFlag{Name: "last", Usage: "only the last `N` turns", HideDefault: true, Destination: &f.Last},
			&cli.BoolFlag{Name: "reverse", Usage: "the newest turn first", Destination: &f.Reverse},
			&cli.BoolFlag{Name: "thinking", Usage: "with the model's thinking", Destination: &f.Thinking},
			&cli.BoolFlag{Name: "system", Usage: "with the system prompt", Destination: &f.System},
			&cli.BoolFlag{Name: "no-sub-agents", Usage: "without the sessions of sub-agents", Destination: &f.Alone},
		},
		Action: command.WithOptional("the session's id", func(_ context.Context, c *cli.Command, name string) error {
			if f.Last < 0 || c.IsSet("last") && f.Last == 0 {
				return failure.Usage("", "--last %d: it must be positive", f.Last)
			}
			events, err := sessions.Of(p, c).Open(name)
			if err != nil {
				return err
			}
			return sessions.Show(p, events, f)
		}),
	}
}
