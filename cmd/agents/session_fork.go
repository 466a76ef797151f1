package main

import (
	"context"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/urfave/cli/v3"
)

func sessionForkCommand(p *program.Env) *cli.Command {
	var at int
	var sub string
	return &cli.Command{
		ArgsUsage: "ID",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "sub-agent", Usage: "copy only the conversation of the sub-agent `NAME`: its slug, or the id of its session", Destination: &sub},
			&cli.IntFlag{Name: "at", Usage: "the last `TURN` of the copy (default: all)", HideDefault: true, Destination: &at},
		},
		Action: command.WithArgument("the session's id", func(_ context.Context, c *cli.Command, name string) error {
			s := sessions.Of(p, c)
			events, err := s.Open(name)
			if err != nil {
				return err
			}
			if sub != "" {
				id, err := sessions.SubAgent(events, sub)
				if err != nil {
					return err
				}
				events = session.Alone(events, id)
			}
			if c.IsSet("at") {
				events = session.UpTo(events, at)
			}
			return s.Keep(events)
		}),
	}
}
