package main

import (
	"context"
	"errors"
	"os"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/urfave/cli/v3"
)

func sessionRmCommand(p *program.Env) *cli.Command {
	return &cli.Command{
		ArgsUsage: "ID...",
		Action: func(_ context.Context, c *cli.Command) error {
			if !c.Args().Present() {
				return failure.Usage("`agents session rm --help` says more", "session rm: the id is missing")
			}
			// All are found before the first is removed: "latest" means one session.
			var paths []string
			for _, name := range c.Args().Slice() {
				path, err := sessions.Of(p, c).Find(name)
				if err != nil {
					return err
				}
				paths = append(paths, path)
			}
			var errs []error
			for _, path := range paths {
				if err := session.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
					errs = append(errs, err)
				}
			}
			if err := errors.Join(errs...); err != nil {
				return &failure.Error{Code: failure.ExitFailed, Err: err, Hint: sessions.BusyHint(err)}
			}
			return nil
		},
	}
}
