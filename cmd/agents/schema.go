package main

import (
	"context"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/schemas"
	"github.com/urfave/cli/v3"
)

const schemaSuffix = ".schema.json"

func schemaCommand(p *program.Env) *cli.Command {
	var names []string
	for _, name := range schemas.Names() {
		names = append(names, strings.TrimSuffix(name, schemaSuffix))
	}
	return &cli.Command{
		ArgsUsage:   strings.Join(names, "|"),
		Description: "A JSON Schema documents every key of a file, and lets an editor complete it.",
		Action: command.WithArgument("the name ("+strings.Join(names, ", ")+")", func(_ context.Context, _ *cli.Command, name string) error {
			text, err := schemas.Read(strings.TrimSuffix(name, schemaSuffix) + schemaSuffix)
			if err != nil {
				return failure.Usage("", "schema: there is no schema %q; there are %s", name, strings.Join(names, ", "))
			}
			return p.Print(string(text))
		}),
	}
}
