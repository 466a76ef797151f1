package main

import (
	"context"
	"fmt"

	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/urfave/cli/v3"
)

func describeCommand(p *program) *cli.Command {
	return &cli.Command{
		Description: `With --agent-file the description is that agent's. A script that runs
"agents --agent-file FILE" with its own arguments behind is a tool of other agents.`,
		Action: func(_ context.Context, c *cli.Command) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return p.describe()
		},
	}
}

// describe prints the description. The prompt is taken on standard input: it may
// be longer than one argument and begin with a dash.
func (p *program) describe() error {
	d := description{
		Slug:        "agents",
		Description: "runs the agent that is configured here with a prompt",
		Args: []describedArg{{
			Name: "prompt", Description: "what you ask of this agent; it knows nothing of your conversation",
			Type: "string", Backing: "string", Arity: "single", Mode: "stdin",
		}},
		Empty: &describedMessage{"AddMessage", "(the agent answered with an empty text)"},
	}
	c, err := p.config()
	if err != nil {
		return err
	}
	if len(candidates(c)) > 0 {
		file, err := p.choose(c, "")
		if err != nil {
			return err
		}
		f, _, err := agentfile.Read(file)
		if err != nil {
			return nothingRan(fmt.Errorf("load agent: %w", err), "")
		}
		d.Slug = f.Spec.Slug
		if f.Spec.Announce != "" {
			d.Description = f.Spec.Announce
		}
	}
	return p.writeJSON(d)
}
