package main

import (
	"context"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/servers"
	"github.com/agents-exe/agents/cmd/agents/internal/serving"
	"github.com/urfave/cli/v3"
)

func mcpServerCommand(p *program.Env) *cli.Command {
	f := &servers.MCP{Expose: "agents"}
	return &cli.Command{
		Description: `Serves all agents that are found, or those of --agent-file, until the end of
standard input; with --http until it is interrupted. Each is a tool that is named
by its slug.`,
		Flags: append(f.ManyFlags(),
			&cli.GenericFlag{Name: "expose", Usage: "serve `WHAT`: agents (the default) or tools, those of the agent files; and sessions of earlier runs as resources (sessions); repeatable", Value: &program.Repeatable{Add: f.AddExposed}},
			&cli.BoolFlag{Name: "compat-names", Usage: "name the agents as agents-exe does: ask_SLUG_NNN, numbered in their order", Destination: &f.Compat},
			&cli.BoolFlag{Name: "plain-names", Usage: "name the tools of --expose tools by their slugs, without bash_ and expert_", Destination: &f.Plain},
			&cli.DurationFlag{Name: "linger", Value: servers.DefaultLinger, Usage: "end calls that still run `DURATION` after the end of input", Destination: &f.Linger},
			&cli.DurationFlag{Name: "task-after", Value: servers.DefaultTaskAfter, Usage: "continue calls that take longer than `DURATION` as tasks, for clients that support them", Destination: &f.TaskAfter},
			&cli.StringFlag{Name: "http", Usage: "serve over HTTP at `ADDRESS`, such as 127.0.0.1:8080", Destination: &f.HTTP},
			&cli.StringFlag{Name: "token-file", TakesFile: true, Usage: "serve over HTTP only clients that have a bearer token of `FILE`, one a line (default: a file of your own on the loopback)", Destination: &f.Tokens},
			&cli.BoolFlag{Name: "no-token", Usage: "serve every user of this machine over HTTP on the loopback", Destination: &f.NoToken},
			&cli.BoolFlag{Name: "watch", Usage: "load changed agent files and tools while it runs, which executes them", Destination: &f.Watch},
		),
		Action: command.WithoutArguments(func(ctx context.Context, _ *cli.Command) error {
			switch {
			case f.Linger <= 0:
				return failure.Usage("", "--linger %s: it must be positive", f.Linger)
			case f.TaskAfter <= 0:
				return failure.Usage("", "--task-after %s: it must be positive", f.TaskAfter)
			case f.Plain && f.Expose != "tools":
				return failure.Usage("agents are named by their slugs anyway", "--plain-names is for --expose tools")
			case f.Tokens != "" && f.HTTP == "":
				return failure.Usage("", "--token-file is for --http")
			case f.NoToken && f.HTTP == "":
				return failure.Usage("", "--no-token is for --http")
			case f.NoToken && f.Tokens != "":
				return failure.Usage("", "--no-token and --token-file exclude each other")
			case f.Watch && f.Expose != "tools":
				return failure.Usage("", "--watch is for --expose tools")
			}
			if err := f.Keep.Check(); err != nil {
				return err
			}
			return serving.MCP(ctx, p, f)
		}),
	}
}
