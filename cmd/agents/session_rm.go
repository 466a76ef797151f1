package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/urfave/cli/v3"
)

func sessionRmCommand(p *program.Env) *cli.Command {
	var older string
	return &cli.Command{
		ArgsUsage:   "ID...",
		Description: "With --older-than, --agent SLUG removes those of one agent.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "older-than", Usage: "remove the sessions that have not changed since `DATE`: 30d or 36h ago, or 2026-11-21", Destination: &older},
		},
		Action: func(_ context.Context, c *cli.Command) error {
			switch {
			case older != "" && c.Args().Present():
				return failure.Usage("", "session rm: --older-than and an id exclude each other")
			case older != "":
				return removeOlder(p, sessions.Of(p, c), older)
			case !c.Args().Present():
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
			_, err := removeSessions(paths)
			return err
		},
	}
}

func removeOlder(p *program.Env, s *sessions.Store, date string) error {
	before, err := sessions.ParseDate(date, time.Now())
	if err != nil {
		return failure.Usage("", "--older-than %s: %v", date, err)
	}
	dirs, err := s.Folders()
	if err != nil {
		return err
	}
	list, listErr := session.List(session.Filter{Before: before, Want: func(i *session.Info) bool {
		return p.Global.Agent == "" || i.Agent == p.Global.Agent
	}}, dirs...)
	var paths []string
	for _, i := range list {
		paths = append(paths, i.Path)
	}
	n, err := removeSessions(paths)
	p.Note("%d %s removed", n, program.Plural(n, "session"))
	return errors.Join(err, listErr)
}

func removeSessions(paths []string) (removed int, err error) {
	var errs []error
	for _, path := range paths {
		switch err := session.Remove(path); {
		case err == nil:
			removed++
		case !errors.Is(err, os.ErrNotExist):
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return removed, &failure.Error{Code: failure.ExitFailed, Err: err, Hint: sessions.BusyHint(err)}
	}
	return removed, nil
}
