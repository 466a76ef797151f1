package main

import (
	"context"
	"fmt"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/urfave/cli/v3"
)

func describeCommand(p *program.Env) *cli.Command {
	return &cli.Command{
		Description: `With --agent-file the description is that agent's. A script that runs
"agents --agent-file FILE" with its own arguments behind is a tool of other agents.`,
		Action: func(_ context.Context, c *cli.Command) error {
			if err := command.NoArguments(c); err != nil {
				return err
			}
			return describe(p)
		},
	}
}

// describe prints the description. The prompt is taken on standard input: it may
// be longer than one argument and begin with a dash.
func describe(p *program.Env) error {
	d := load.Description{
		Slug:        "agents",
		Description: "runs the agent that is configured here with a prompt",
		Args: []load.DescribedArg{{
			Name: "prompt", Description: "what you ask of this agent; it knows nothing of your conversation",
			Type: "string", Backing: "string", Arity: "single", Mode: "stdin",
		}},
		Channel: channel.Version,
		Empty:   &load.DescribedMessage{Tag: "AddMessage", Contents: "(the agent answered with an empty text)"},
	}
	c, err := load.Config(p)
	if err != nil {
		return err
	}
	files, err := load.Candidates(p, c)
	if err != nil {
		return err
	}
	if len(files) > 0 {
		file, err := load.Choose(p, c, "")
		if err != nil {
			return err
		}
		slug := p.Global.Agent
		if !agentfile.Sibling(file, slug) {
			slug = ""
		}
		f, _, err := agentfile.ReadAgent(file, slug)
		if err != nil {
			return failure.NothingRan(fmt.Errorf("load agent: %w", err), "")
		}
		d.Slug = f.Spec.Slug
		if f.Spec.Announce != "" {
			d.Description = f.Spec.Announce
		}
		if schema := f.Spec.InputSchema; schema != nil {
			d.Input = schema
			d.Args = []load.DescribedArg{{
				Name: "args", Description: "a JSON object that fits the JSON Schema " + string(schema),
				Type: "JSON", Backing: "object", Arity: "single", Mode: "dashdashequal",
			}}
		}
	}
	return p.WriteJSON(d)
}
