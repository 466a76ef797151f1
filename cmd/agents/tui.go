package main

import (
	"context"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/chat"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/urfave/cli/v3"
)

func tuiCommand(p *program.Env) *cli.Command {
	var attach bool
	r := &chat.Screen{Tree: true}
	return &cli.Command{
		ArgsUsage: "[URL|SESSION] [-- FLAGS OF SERVE]",
		Description: `Shows conversations with agents, for which it starts a server. Finished messages and
calls go into the scrollback; below it are the tree of agents, their questions, and the
input. Press ? for a list of the keys; tui-keys.json in your configuration folder changes
them.

With --attach it uses the server at URL, or shows the run or session SESSION; without
either, it lists runs and sessions to choose from. agents cli is the same without the tree.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "attach", Usage: "show a run of another server, or continue a session", Destination: &attach},
			&cli.StringFlag{Name: "token-file", TakesFile: true, Usage: "read the bearer token for the server from `FILE`", Destination: &r.TokenFile},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			r.Serve = c.Args().Slice()
			if where := c.Args().First(); attach && where != "" && !strings.HasPrefix(where, "-") {
				r.Serve = r.Serve[1:]
				if strings.Contains(where, "://") || strings.HasPrefix(where, "unix:") {
					r.URL = where
				} else {
					r.Session = where
				}
			}
			if len(r.Serve) > 0 && !strings.HasPrefix(r.Serve[0], "-") {
				return failure.Usage("`agents tui --help` lists the flags", "tui: unexpected argument %q", r.Serve[0])
			}
			r.Pick = attach && r.URL == "" && r.Session == ""
			if !p.InTerm || !p.OutTerm {
				return failure.Usage("`agents run` answers one prompt without a terminal", "tui: standard input and output must be a terminal")
			}
			if !attach {
				if err := load.Consent(ctx, p); err != nil {
					return err
				}
			}
			return r.Exec(ctx, p)
		},
	}
}
