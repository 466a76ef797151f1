package main

import (
	"context"
	"io"

	"github.com/agents-exe/agents/pkg/observe"
	"github.com/urfave/cli/v3"
)

func echoPromptCommand(p *program) *cli.Command {
	script := &promptScript{}
	return &cli.Command{
		Flags: script.flags(p, nil),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := noArguments(c); err != nil {
				return err
			}
			text, err := script.render(ctx, p.in, p.err)
			if err != nil {
				return err
			}
			if p.outTerm {
				text = observe.Clean(text)
			}
			_, err = io.WriteString(p.out, text)
			return err
		},
	}
}
