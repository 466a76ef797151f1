package main

import (
	"context"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/prompt"
	"github.com/urfave/cli/v3"
)

func echoPromptCommand(p *program.Env) *cli.Command {
	script := &prompt.Script{}
	return &cli.Command{
		ArgsUsage: "[PROMPT...]",
		Flags:     script.Flags(p, nil),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := script.Words(c); err != nil {
				return err
			}
			text, err := script.Render(ctx, p)
			if err != nil {
				return err
			}
			return p.Print(text)
		},
	}
}
