package main

import (
	"context"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/call"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/prompt"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/urfave/cli/v3"
)

func toolCallCommand(p *program.Env) *cli.Command {
	var args []string
	var rights load.RightsFlags
	return &cli.Command{
		ArgsUsage: "NAME-or-PATH",
		Description: `A path, or the name of a file here, is an executable. Any other name is that of
a tool of the loaded agent, with or without bash_ before it.

The arguments are one JSON object on standard input, or --arg, which is then not
read. They are checked as in a run. The result is printed as it is, cut where a
model would see it cut; an attachment is printed as its bytes. A call that fails
prints what the tool said on stderr, exit code 1.`,
		Flags: append(rights.CallFlags(),
			&cli.StringSliceFlag{Name: "arg", Usage: "an argument as `NAME=VALUE`, repeatable; what the tool wants as a string is taken as it is, anything else is JSON", Destination: &args},
		),
		Action: command.WithArgument("the name of a tool or its file", func(ctx context.Context, _ *cli.Command, name string) error {
			return toolCall(ctx, p, name, args, rights)
		}),
	}
}

func toolCall(ctx context.Context, p *program.Env, name string, pairs []string, rights load.RightsFlags) error {
	tool, tree, err := call.Find(ctx, p, name, load.Options{Rights: rights})
	if err != nil {
		return err
	}
	defer tree.Close()
	args, err := callArgs(ctx, p, tool.Spec(), pairs)
	if err != nil {
		return err
	}
	return call.Run(ctx, p, tree, tool, args, rights.Yes)
}

// callArgs returns the JSON object of the arguments. It does not read it from a terminal:
// without arguments it is empty there, and an error names what is missing.
func callArgs(ctx context.Context, p *program.Env, spec agent.ToolSpec, pairs []string) (string, error) {
	if len(pairs) > 0 {
		return prompt.Pairs(spec.Schema, pairs)
	}
	if p.InTerm {
		return "{}", nil
	}
	args, err := call.ReadArgs(ctx, p)
	if err == nil && strings.TrimSpace(args) == "" {
		args = "{}"
	}
	return args, err
}
