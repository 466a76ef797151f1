package main

import (
	"cmp"
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
	var slug, text string
	return &cli.Command{
		Description: `With --agent-file the description is that agent's. A script that runs
"agents --agent-file FILE" with its own arguments behind is a tool of other agents.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "self-describe-slug", Usage: "print the slug `NAME`", Destination: &slug},
			&cli.StringFlag{Name: "self-describe-description", Usage: "print the description `TEXT`", Destination: &text},
		},
		Action: command.WithoutArguments(func(_ context.Context, _ *cli.Command) error {
			return describe(p, slug, text)
		}),
	}
}

// describe prints the description. The prompt is taken on standard input: it may
// be longer than one argument and begin with a dash.
func describe(p *program.Env, slug, text string) error {
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
	if len(p.Global.AgentFiles) == 0 && p.Global.Agent == "" {
		d.Slug, d.Description = cmp.Or(c.File.DescribeSlug, d.Slug), cmp.Or(c.File.DescribeText, d.Description)
	}
	d.Slug, d.Description = cmp.Or(slug, d.Slug), cmp.Or(text, d.Description)
	return p.WriteJSON(d)
}
