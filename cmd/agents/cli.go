package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/chat"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/runs"
	"github.com/urfave/cli/v3"
)

func cliCommand(p *program.Env) *cli.Command {
	f := &runs.Flags{}
	var plain bool
	return &cli.Command{
		Description: `A conversation is one session, and each message that you type is a run of it. /help
lists the commands; @FILE includes a file, !COMMAND the output of a shell command.
Ctrl-C stops a run and keeps the conversation; Ctrl-D leaves (see agents help chat). It is
the terminal interface of agents tui without the rows of agents, which Ctrl-G shows.

With --plain, without a terminal, or without agents-tui, each line of standard input is a
message, a \ at its end continues it, and answers go to standard output. Text from a pipe can neither include files nor run shell commands. The exit code
is that of the last run.`,
		Flags: append(f.Flags(),
			command.CompatNamesFlag(&p.Global),
			&cli.BoolFlag{Name: "plain", Usage: "read lines, and write text without control sequences", Destination: &plain},
		),
		Action: command.WithoutArguments(func(ctx context.Context, c *cli.Command) error {
			if plain {
				return chat.Plain(ctx, p, *f)
			}
			shared := slices.DeleteFunc(append(f.ManyFlags(), command.CompatNamesFlag(&p.Global)), func(shared cli.Flag) bool { return shared.Names()[0] == "yes" })
			return chat.Run(ctx, p, *f, command.Given(os.Args[1:], c, shared))
		}),
	}
}

// withoutCommand is the program without a command: at a terminal a chat, or without an agent
// the offer to write one.
func withoutCommand(ctx context.Context, p *program.Env, write func() error) error {
	if !p.InTerm || !p.OutTerm || !p.ErrTerm {
		return failure.Usage("`agents --help` lists the commands", "no command given")
	}
	err := chat.Run(ctx, p, runs.Flags{}, nil)
	asker := ask.Terminal(p, false)
	if !errors.Is(err, load.ErrNoAgent) || asker == nil || load.Here().Found {
		return err
	}
	fmt.Fprintln(p.Err, "There is no agent in this folder. `agents init` writes one.")
	if agrees, failed := asker.Agrees(ctx, "write one?", "yes"); failed != nil || !agrees {
		return err
	}
	return write()
}
