package main

import (
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/urfave/cli/v3"
)

func sessionCommand(p *program.Env) *cli.Command {
	return &cli.Command{
		Description: `ID is a session's id, the beginning of one or of its random part, "latest", or the path
of a session. Commands that only read also take a file that export or edit wrote, or
one of agents-exe. Without ID, show, cost, calls and undo take the latest session that
began in this folder.`,
		Flags: []cli.Flag{&cli.StringFlag{Name: sessions.DirFlag, Usage: "look for sessions in the folder `DIR`, and write new ones there"}},
	}
}
