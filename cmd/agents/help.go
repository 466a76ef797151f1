package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/docs"
	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/urfave/cli/v3"
)

func helpCommand(p *program.Env) *cli.Command {
	return &cli.Command{
		ArgsUsage: strings.Join(docs.Topics(), "|"),
		Description: `Without a topic, lists the commands. With the name of a command, prints the help of that
command, as in "agents help session list". If a command and a page have the same name,
both are printed.`,
		Action: func(ctx context.Context, c *cli.Command) error {
			if !c.Args().Present() {
				return cli.ShowRootCommandHelp(c.Root())
			}
			if c.NArg() > 1 {
				return subcommandHelp(ctx, c.Root(), c.Args().Slice())
			}
			topic, err := command.OneArgument(c, "the topic")
			if err != nil {
				return err
			}
			page, err := docs.Read(topic)
			if c.Root().Command(topic) != nil {
				if err := cli.ShowCommandHelp(ctx, c.Root(), topic); err != nil || page == nil {
					return err
				}
				page = append([]byte("\n"), page...)
			}
			if err == nil {
				return p.Print(string(page))
			}
			return failure.Usage("`agents --help` lists the commands", "help: there is no topic %q%s; there are %s", topic, closest.Hint(topic, docs.Topics()), strings.Join(docs.Topics(), ", "))
		},
	}
}

// subcommandHelp prints the help of the command with this name of several words.
func subcommandHelp(ctx context.Context, c *cli.Command, names []string) error {
	for i, name := range names {
		sub := c.Command(name)
		switch {
		case sub == nil:
			return failure.Usage(fmt.Sprintf("`%s --help` lists the commands", strings.TrimSpace(c.FullName())), "help: %s has no command %q%s", strings.TrimSpace(c.FullName()), name, command.DidYouMean(name, c))
		case i == len(names)-1:
			return cli.ShowCommandHelp(ctx, c, name)
		}
		c = sub
	}
	return nil
}
