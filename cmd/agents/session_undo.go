package main

import (
	"context"
	"errors"
	"fmt"

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
		Description: `Restores files to what they were before an agent changed them. The command lists the
files and asks before it writes. Without ID, it takes the last session that began in this
folder. By default, it undoes what changed since your last message in the session.

If somebody else has edited a file since then, it is left alone, and the exit code is 1.
The conversation is not changed: "agents session fork --undo" takes back the message.

It works if the agent file has "checkpoints": true, which "agents init" sets.`,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "turn", Usage: "restore the files to what they were before turn `TURN` (default: before the last message)", HideDefault: true, Destination: &turn},
			&cli.BoolFlag{Name: "redo", Usage: "take back the last undo", Destination: &redo},
			&cli.BoolFlag{Name: "dry-run", Usage: "only list the files", Destination: &dry},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask", Destination: &yes},
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
		if agrees, err := asker.Agrees(ctx, "put them back?", "no"); err != nil || !agrees {
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
