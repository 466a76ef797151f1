package main

import (
	"context"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/work"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/urfave/cli/v3"
)

// devProgram is this program with a Temporal server, which is twice as large.
const devProgram = "agents-fleet-dev"

func (f *fleet) devCommand() *cli.Command {
	o, keys, listen := &work.Options{Deployment: deployment, Upgrade: true}, "", ""
	return &cli.Command{
		Name: "dev", Usage: "run a Temporal server and a worker on this machine until interrupted",
		Description: "All state is kept in the folder of --dir, so the next `agents-fleet dev` continues unfinished\nruns. While it runs, the other commands use its server and store.",
		Flags: append(f.workerFlags(o, &keys), f.keyFlag(), f.dirFlag(),
			&cli.StringFlag{Name: "store", Usage: "`URL` of the store, by default a folder of this machine", Sources: cli.EnvVars(envStore), Destination: &f.location},
			&cli.StringFlag{Name: "listen", Usage: "the server's `HOST:PORT`; port 0 selects a free port", Value: "127.0.0.1:7233", Destination: &listen}),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := command.NoArguments(c); err != nil {
				return err
			}
			var err error
			if o.BuildID, err = buildID(); err != nil {
				return err
			}
			return f.dev(ctx, *o, keys, listen)
		},
	}
}
