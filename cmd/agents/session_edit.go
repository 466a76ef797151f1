package main

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/session/transcript"
	"github.com/urfave/cli/v3"
)

var leftOut = []string{string(transcript.WithoutThinking), string(transcript.WithoutToolResults), string(transcript.WithoutSubAgents)}

// readEdit returns the edit of a flag for op with a value; the op "" is the value.
func readEdit(op transcript.EditOp, value string) (transcript.Edit, error) {
	if op == "" {
		return transcript.Edit{Op: transcript.EditOp(value)}, command.OneOf(leftOut...)(value)
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return transcript.Edit{}, errors.New("want a number of turns")
	}
	return transcript.Edit{Op: op, N: n}, nil
}

func sessionEditCommand(p *program.Env) *cli.Command {
	var edits []transcript.Edit
	flag := func(name string, op transcript.EditOp, usage string) cli.Flag {
		return &cli.GenericFlag{Name: name, Usage: usage, Value: &program.Repeatable{Add: func(value string) error {
			e, err := readEdit(op, value)
			edits = append(edits, e)
			return err
		}}}
	}
	return &cli.Command{
		ArgsUsage: "ID",
		Description: `Without an ID the session is read from standard input, as export and edit write it,
or as one of agents-exe. The changes are made in the order in which they are given.`,
		Flags: []cli.Flag{
			flag("take", transcript.Take, "keep the first `N` turns"),
			flag("take-last", transcript.TakeLast, "keep the last `N` turns"),
			flag("drop", transcript.Drop, "take the first `N` turns away"),
			flag("drop-last", transcript.DropLast, "take the last `N` turns away"),
			flag("without", "", "leave `WHAT` out: "+strings.Join(leftOut, ", ")),
		},
		Action: func(_ context.Context, c *cli.Command) error {
			events := transcript.Read(p.In)
			if c.Args().Present() {
				name, err := command.OneArgument(c, "the session's id")
				if err != nil {
					return err
				}
				if events, err = sessions.Of(p, c).Open(name); err != nil {
					return err
				}
			} else if p.InTerm {
				return failure.Usage("name a session, or give one on standard input", "session edit: the session's id is missing")
			}
			return sessions.Print(p, func(w io.Writer) error { return transcript.Write(w, transcript.Apply(events, edits)) })
		},
	}
}
