package main

import (
	"context"
	"fmt"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/urfave/cli/v3"
)

func sessionForkCommand(p *program.Env) *cli.Command {
	var at int
	var sub string
	var undo bool
	return &cli.Command{
		ArgsUsage: "ID",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "sub-agent", Usage: "copy only the conversation of the sub-agent `NAME`: its slug, or the id of its session", Destination: &sub},
			&cli.BoolFlag{Name: "undo", Usage: "leave out the last message and what followed; prints no id if it was the first", Destination: &undo},
			&cli.IntFlag{Name: "at", Usage: "the last `TURN` of the copy (default: all)", HideDefault: true, Destination: &at},
		},
		Action: command.WithArgument("the session's id", func(_ context.Context, c *cli.Command, name string) error {
			s := sessions.Of(p, c)
			path, err := s.Find(name)
			if err != nil {
				return err
			}
			events, turns := sessions.EventsOf(path), -1
			if undo {
				u, err := sessions.LastPrompt(events)
				if err != nil {
					return failure.NothingRan(err, "")
				}
				fmt.Fprint(p.Err, termtext.Clean(u.Text(false)))
				if u.Before == 0 {
					return nil
				}
				events, turns = u.Rest(events), u.Turn-1
			}
			if sub != "" {
				id, err := sessions.SubAgent(events, sub)
				if err != nil {
					return err
				}
				events, path = session.Alone(events, id), ""
			}
			if c.IsSet("at") {
				events, turns = session.UpTo(events, at), at
			}
			return s.Keep(events, path, turns)
		}),
	}
}
