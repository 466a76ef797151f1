package main

import (
	"context"
	"fmt"
	"os"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/session/transcript"
	"github.com/urfave/cli/v3"
)

func sessionImportCommand(p *program.Env) *cli.Command {
	return &cli.Command{
		ArgsUsage:   "PATH",
		Description: "- is standard input. --agent SLUG names the agent of a session of agents-exe.",
		Action: command.WithArgument("the file", func(_ context.Context, c *cli.Command, path string) error {
			events, err := importSource(p, path)
			if err != nil {
				return err
			}
			return sessions.Of(p, c).Keep(sessions.Imported(p, events), "", 0)
		}),
	}
}

// importSource is what is read from a path: a file, or the folder or the journal of
// a session, of which the checksums are looked at too.
func importSource(p *program.Env, path string) (sessions.Events, error) {
	if path == "-" {
		return transcript.Read(p.In), nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, failure.NothingRan(fmt.Errorf("import: %w", err), "")
	case !info.Mode().IsRegular() && !info.IsDir():
		return nil, failure.NothingRan(fmt.Errorf("import %s: it is not a regular file", path), "")
	}
	return sessions.EventsOf(path), nil
}
