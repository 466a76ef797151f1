package main

import (
	"context"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/runs"
	"github.com/agents-exe/agents/cmd/agents/internal/servers"
	"github.com/agents-exe/agents/cmd/agents/internal/serving"
	"github.com/agents-exe/agents/pkg/policy"
	"github.com/urfave/cli/v3"
)

func serveCommand(p *program.Env) *cli.Command {
	f := &servers.Agents{}
	return &cli.Command{
		Description: `Serves the agents that the configuration finds, or those of --agent-file:
the list of agents at /v1/agents, their runs at /v1/runs, the channel over WebSocket at
/v1/agents/SLUG/channel, OpenAI's chat completions and responses at /v1, MCP at /mcp,
A2A at /a2a/SLUG, metrics at /metrics, /healthz, and at / a page for people.

After the first SIGTERM or Ctrl-C, no new runs start, and runs in progress have as long
as --grace says to finish. After that, or after a second signal, they are stopped;
their sessions can be resumed.`,
		Flags: append(runs.Hide(f.ManyFlags(), "yes"),
			&cli.StringFlag{Name: "listen", Usage: "listen on `ADDRESS`: a host and a port, or unix:PATH, a private socket", Value: "127.0.0.1:8420", Destination: &f.Listen},
			&cli.BoolFlag{Name: "open", Usage: "print a link that opens the page and signs in, once and within a minute, and open it in the browser", Destination: &f.Open},
			&cli.StringFlag{Name: "token-file", TakesFile: true, Usage: "accept the bearer tokens in `FILE`, one per line, or JSON (default on the loopback: a private file)", Destination: &f.Tokens},
			&cli.BoolFlag{Name: "no-token", Usage: "require no token on the loopback: every user of this machine can run the agents", Destination: &f.NoToken},
			&cli.StringSliceFlag{Name: "allow-origin", Usage: "accept requests from web pages of `ORIGIN`, such as https://agents.example; repeatable", Destination: &f.Origins},
			&cli.IntFlag{Name: "runs", Usage: "allow `N` concurrent runs; others wait", Value: servers.DefaultRuns, Destination: &f.Runs},
			&cli.IntFlag{Name: "token-runs", Usage: "allow `N` concurrent runs of one token (default: that of --runs)", HideDefault: true, Destination: &f.TokenRuns},
			&cli.IntFlag{Name: "queue", Usage: "let at most `N` runs of one token wait; refuse others", Value: servers.DefaultQueue, Destination: &f.Queue},
			&cli.DurationFlag{Name: "queue-time", Usage: "let a run wait at most `DURATION`", Value: servers.DefaultQueueTime, Destination: &f.QueueTime},
			&cli.IntFlag{Name: "connections", Usage: "allow `N` open connections", Value: servers.DefaultConnections, Destination: &f.Connections},
			&cli.DurationFlag{Name: "grace", Usage: "give runs `DURATION` to finish when the server shuts down", Value: servers.DefaultGrace, Destination: &f.Grace},
			&cli.StringFlag{Name: "keep-sessions", Usage: "keep the sessions of clients within `LIMITS`: an age as 30d, a count as 1000, a size as 5GB, several with commas, or all", Value: servers.DefaultKeep, Destination: &f.KeepSessions},
			&cli.StringFlag{Name: "agent-of", Usage: "serve the agent of session `ID`, regardless of --agent-file", Destination: &f.AgentOf},
			&cli.BoolFlag{Name: "until-idle", Usage: "exit when no client is connected and no run is in progress", Destination: &f.UntilIdle},
			&cli.BoolFlag{Name: "resume", Usage: "continue the runs of an earlier server that was stopped or crashed", Destination: &f.Resume},
		),
		Action: command.WithoutArguments(func(ctx context.Context, _ *cli.Command) error {
			switch {
			case f.Rights.Yes:
				return failure.Usage("--approval never asks about nothing; --allow names what needs no question", "--yes cannot be used with serve: clients answer the questions of their runs")
			case f.NoToken && f.Tokens != "":
				return failure.Usage("", "--no-token and --token-file exclude each other")
			case f.Resume && f.Keep.None:
				return failure.Usage("", "--resume and --no-session exclude each other")
			case min(f.Runs, f.Queue, f.Connections) <= 0, f.TokenRuns < 0, f.QueueTime <= 0, f.Grace <= 0:
				return failure.Usage("", "the limits must be positive")
			}
			if err := f.Keep.Check(); err != nil {
				return err
			}
			if f.UntilIdle || f.Open { // it serves an interface, at which there is a person
				f.Rights.Default = policy.Effects
			}
			return serving.Agents(ctx, p, f)
		}),
	}
}
