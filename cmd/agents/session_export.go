package main

import (
	"context"
	"io"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/session/transcript"
	"github.com/urfave/cli/v3"
)

var exportFormats = []string{"json", "markdown", "html", "openai", "agents-exe", "atif"}

func sessionExportCommand(p *program.Env) *cli.Command {
	var format string
	var recent bool
	return &cli.Command{
		ArgsUsage: "ID",
		Description: `Prints a session to standard output. ID is the id of a session or the beginning of it, or
"latest". To send a conversation to somebody, export a page that shows it in a browser:

  agents session export --format html latest >conversation.html`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Value: "json", Usage: "`FORM`: json (one event per line), markdown, html (a page in one file), openai (a request of the chat completions API), agents-exe (a session file of agents-exe) or atif (a trajectory for Harbor)", Destination: &format, Validator: command.OneOf(exportFormats...)},
			&cli.BoolFlag{Name: "recent", Usage: "print only the last events, about 256 KiB, without checking the file: fast even for long sessions", Destination: &recent},
		},
		Action: command.WithArgument("the session's id", func(_ context.Context, c *cli.Command, name string) error {
			path, err := sessions.Of(p, c).Find(name)
			if err != nil {
				return err
			}
			events := sessions.EventsOf(path)
			if recent && !sessions.Foreign(path) {
				events = session.Recent(path)
			}
			return export(p, events, format)
		}),
	}
}

func export(p *program.Env, events sessions.Events, format string) error {
	sum, err := sessions.Summary(events)
	if err != nil {
		return err
	}
	if format == "markdown" {
		return sessions.Show(p, events, &sessions.ShowFlags{Tools: "whole", Thinking: true, System: true})
	}
	return sessions.Print(p, func(w io.Writer) error {
		switch format {
		case "html":
			return transcript.HTML(w, sum, events)
		case "openai":
			return transcript.OpenAI(w, events)
		case "atif":
			return transcript.ATIF(w, p.Version, events)
		case "agents-exe":
			return transcript.ToAgentsExe(w, events)
		}
		return transcript.Write(w, events)
	})
}
