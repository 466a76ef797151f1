package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/urfave/cli/v3"
)

func trustCommand(p *program.Env) *cli.Command {
	var list, yes, folder bool
	var remove string
	return &cli.Command{
		Description: `Files that no flag names may come from somebody else: a cfg file, or an agent.json
or agent.yaml in the working directory. They are used only after you trust them. What you change in a
folder that you trust with --folder, or that init wrote, stays trusted. This command shows
which files decide what runs and what has changed since they were trusted, and asks.
It executes none of them. With --agent-file it is about that file, which needs trust
if ` + load.EnvTrust + `=strict is set.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "trust what is shown without asking", Destination: &yes},
			&cli.BoolFlag{Name: "folder", Usage: "also trust what you change in the folder from now on, while nobody else can write it", Destination: &folder},
			&cli.BoolFlag{Name: "list", Usage: "list what is trusted", Destination: &list},
			&cli.StringFlag{Name: "remove", Usage: "stop trusting the agent file or cfg file `FILE`", Destination: &remove},
		},
		Action: command.WithoutArguments(func(ctx context.Context, _ *cli.Command) error {
			switch {
			case list:
				return listTrusted(p)
			case remove != "":
				return distrust(p, remove)
			}
			return trust(ctx, p, yes, folder)
		}),
	}
}

func listTrusted(p *program.Env) error {
	var b strings.Builder
	for _, t := range load.ListTrusted(p) {
		b.WriteString(t.Path + "\n")
	}
	return p.PrintClean(b.String())
}

func distrust(p *program.Env, path string) error {
	was, err := load.Distrust(p, path)
	switch {
	case err != nil:
		return failure.NothingRan(fmt.Errorf("trust: %w", err), "")
	case !was:
		return failure.NothingRan(fmt.Errorf("trust: %s was not trusted", path), "`agents trust --list` shows what is")
	}
	return nil
}

// trust shows what needs trust, and notes it if the person agrees.
func trust(ctx context.Context, p *program.Env, yes, folder bool) error {
	found, text, err := load.Untrusted(p)
	if err != nil {
		return err
	}
	if err := p.PrintClean(text); err != nil || len(found) == 0 && !folder {
		return err
	}
	if !yes {
		if p.Agree == nil {
			return failure.NothingRan(errors.New("trust: there is no terminal to ask at"), "`agents trust --yes` trusts what is shown")
		}
		if agreed, err := p.Agree(ctx, ""); err != nil || !agreed {
			return cmp.Or(err, failure.NothingRan(errors.New("trust: nothing was trusted"), ""))
		}
	}
	if err := load.KeepAll(p, found, folder); err != nil {
		return failure.NothingRan(fmt.Errorf("trust: %w", err), "")
	}
	return nil
}
