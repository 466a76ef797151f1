package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/leaf/checkpoint"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/urfave/cli/v3"
)

func sessionUndoCommand(p *program.Env) *cli.Command {
	var turn int
	var redo, yes, dry bool
	return &cli.Command{
		ArgsUsage: "[ID]",
		Description: `Shows the files that calls of the session changed and asks before it puts them back. Files
that somebody else has changed since stay as they are, and the exit code is then 1. The
conversation stays as it is; session fork --undo takes the message back.
Only sessions of agents with "checkpoints": true have what is needed.`,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "turn", Usage: "undo what calls did from `TURN` on (default: since the last message)", HideDefault: true, Destination: &turn},
			&cli.BoolFlag{Name: "redo", Usage: "undo the last undo", Destination: &redo},
			&cli.BoolFlag{Name: "dry-run", Usage: "only show the files, and nothing if there are none", Destination: &dry},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "ask no questions", Destination: &yes},
		},
		Action: command.WithOptional("the session's id", func(ctx context.Context, c *cli.Command, name string) error {
			if c.IsSet("turn") && (redo || turn < 1) {
				return failure.Usage("", "session undo: --turn takes a turn, from 1, and excludes --redo")
			}
			path, err := sessions.Of(p, c).Find(name)
			if err != nil {
				return err
			}
			f, err := sessions.OpenFiles(ctx, path, turn, redo)
			if dry && errors.Is(err, checkpoint.ErrNone) {
				return nil
			}
			if err != nil {
				return err
			}
			defer f.Close()
			return undoFiles(ctx, p, f, dry, yes)
		}),
	}
}

func undoFiles(ctx context.Context, p *program.Env, f *sessions.Files, dry, yes bool) error {
	if dry && !f.Any() {
		return nil
	}
	if err := p.Print(termtext.Clean(f.Text())); err != nil || dry || !f.Any() {
		return err
	}
	if !yes {
		asker := ask.Terminal(p, false)
		if asker == nil {
			return failure.Usage("--yes puts them back", "session undo: nobody can be asked: there is no terminal")
		}
		answer, err := asker.Line(ctx, "put them back? yes or no", "no")
		if err != nil || !strings.HasPrefix(strings.ToLower(answer), "y") {
			return err
		}
	}
	text, left, err := f.Undo(ctx)
	fmt.Fprint(p.Err, termtext.Clean(text))
	if err == nil && left > 0 {
		err = fmt.Errorf("undo: %d of the files stay as they are", left)
	}
	if err != nil {
		return &failure.Error{Code: failure.ExitFailed, Err: err}
	}
	p.Note("--redo undoes that")
	return nil
}
