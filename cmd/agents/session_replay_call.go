package main

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/call"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/keep"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/session/transcript"
	"github.com/urfave/cli/v3"
)

func sessionReplayCallCommand(p *program.Env) *cli.Command {
	var tool string
	var check bool
	var rights load.RightsFlags
	return &cli.Command{
		ArgsUsage: "ID CALL",
		Description: `CALL is TURN.N as "session calls" shows it, or, for the call of a sub-agent, its key,
which "session calls --json" shows. A single number is the index of a call in the session,
counted from 0.

The tool of this name comes from the loaded agent, or from the agent that the session
names. The recorded arguments are checked, and the call is allowed, asked about or
denied, as in a run. Nothing is added to the session. The new result is printed as by
"tool call"; "session calls" shows the recorded one.`,
		Flags: append(rights.CallFlags(),
			&cli.StringFlag{Name: "tool", Usage: "call the tool `NAME-or-PATH` instead", Destination: &tool},
			&cli.BoolFlag{Name: "check", Usage: "only check the arguments", Destination: &check},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Len() != 2 {
				return failure.Usage("`agents session calls ID` shows the calls", "%s: want ID and CALL", c.FullName())
			}
			return replayCall(ctx, p, sessions.Of(p, c), c.Args().Get(0), c.Args().Get(1), tool, check, rights)
		},
	}
}

func replayCall(ctx context.Context, p *program.Env, s *sessions.Store, session, name, toolName string, check bool, rights load.RightsFlags) error {
	path, err := s.Find(session)
	if err != nil {
		return err
	}
	recorded, source, err := findCall(sessions.EventsOf(path), name)
	if err != nil {
		return err
	}
	o := load.Options{Rights: rights, Agent: recorded.Agent}
	if o.Agent == transcript.ImportedAgent {
		o.Agent = ""
	}
	if o.File, o.Suggested, err = keep.AgentOf(p, path, source); err != nil {
		return err
	}
	tool, tree, err := call.Find(ctx, p, cmp.Or(toolName, recorded.Name), o)
	if err != nil {
		return err
	}
	defer tree.Close()
	args := cmp.Or(strings.TrimSpace(recorded.Args), "{}")
	if check {
		return call.Check(ctx, p, tool, tool.Spec().Name, args)
	}
	return call.Run(ctx, p, tree, tool, args, rights.Yes)
}

// findCall returns the call of a session with a name, and the file of the session's agent.
func findCall(events sessions.Events, name string) (call transcript.CallOf, source string, err error) {
	sum, err := sessions.Summary(events)
	if err != nil {
		return call, "", err
	}
	first, err := sessions.First(events)
	if err != nil {
		return call, "", err
	}
	n := 0 // as list-tool-calls counts
	for t, err := range transcript.Turns(events) {
		if err != nil {
			return call, "", sessions.Damaged(err)
		}
		for c := range t.All(sum.ID, sum.Agent) {
			if c.Key == name || c.Depth == 0 && (sessions.TurnAndPlace(c) == name || strconv.Itoa(n) == name) {
				return c, first.Source, nil
			}
			if c.Depth == 0 {
				n++
			}
		}
	}
	return call, "", failure.Usage("`agents session calls ID` shows the calls", "session %s has no call %q", sum.ID, name)
}
