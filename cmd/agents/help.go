package main

import (
	"context"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/docs"
	"github.com/urfave/cli/v3"
)

func helpCommand(p *program.Env) *cli.Command {
	return &cli.Command{
		ArgsUsage: strings.Join(docs.Topics(), "|"),
		Description: `Without a topic it is the list of commands; the name of a command prints the help of
that command.`,
		Action: func(ctx context.Context, c *cli.Command) error {
			if !c.Args().Present() {
				return cli.ShowRootCommandHelp(c.Root())
			}
			topic, err := command.OneArgument(c, "the topic")
			if err != nil {
				return err
			}
			page, err := docs.Read(topic)
			switch {
			case err == nil:
				return p.Print(string(page))
			case c.Root().Command(topic) != nil:
				return cli.ShowCommandHelp(ctx, c.Root(), topic)
			}
			return failure.Usage("`agents --help` lists the commands", "help: there is no topic %q; there are %s", topic, strings.Join(docs.Topics(), ", "))
		},
	}
}
