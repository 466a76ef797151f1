package main

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/scaffold"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/policy"
	"github.com/urfave/cli/v3"
)

func newAgentCommand(p *program.Env) *cli.Command {
	var dir, from string
	f := &scaffold.ModelFlags{}
	return &cli.Command{
		ArgsUsage: "SLUG",
		Description: `In the tool directory of another agent (--dir), the new agent is a sub-agent of that
one. It uses the model of the agent that is chosen here or, without one, the model that
init would find without keys in the environment. Nothing is overwritten.

With --from it is a copy of an agent that ships with this program: SLUG.json, its tools in
SLUG-tools, and in SLUG-files the sub-agents and texts that it needs. The slug is then
optional. Some of them have the program of another coding agent do the work, with a lent
model: see docs/lend.md.

SLUG FILE [MODEL], the arguments of agents-exe, write the agent to FILE.`,
		Flags: append(f.Flags(),
			&cli.StringFlag{Name: "dir", Value: ".", Usage: "write into `DIR`", Destination: &dir},
			scaffold.Agents().Flag(&from),
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			if from == "?" {
				return p.Print(scaffold.Agents().List())
			}
			if args, ok, err := scaffold.FileArguments(c, 2, 3); ok && from == "" && !c.IsSet("dir") {
				if err != nil {
					return err
				}
				if len(args) == 3 {
					f.Model = args[2]
				}
				return newAgent(ctx, p, args[0], args[1], "", *f)
			}
			slug, err := scaffold.Agents().Slug(c, from)
			if err != nil {
				return err
			}
			return newAgent(ctx, p, slug, filepath.Join(dir, slug+".json"), from, *f)
		},
	}
}

// newAgent writes an agent, with a script where it has no model.
func newAgent(ctx context.Context, p *program.Env, slug, file, from string, f scaffold.ModelFlags) error {
	if program.Taken(file) {
		return failure.Usage("choose another slug or --dir", "new agent: %s already exists", file)
	}
	m, err := newAgentModel(ctx, p, file, f)
	if err != nil {
		return err
	}
	a := &scaffold.Agent{File: file, Slug: slug, From: cmp.Or(from, scaffold.Empty), Tools: slug + "-tools", Files: slug + "-files", Model: m}
	if a.From != scaffold.Empty {
		a.Approval = string(policy.Effects)
		if m.Flavor == agentfile.FlavorScripted {
			p.Note("%s, because no model is chosen here; --flavor and --model choose one", a.Modelless())
		}
	}
	fresh := a.Fresh()
	s := &scaffold.Files{P: p}
	if err := s.Agent(a, nil); err != nil {
		return s.Finish(err, "")
	}
	if fresh {
		load.NoteOwn(p, file)
	}
	a.CheckCoding(ctx, p)
	if a.Borrows() {
		p.Note(`it does not run by itself: put the file into the "toolDirectory" of an agent with a model, or add {"slug": %q, "path": %q} to the "extraAgents" of that agent`, slug, file)
		return s.Finish(nil, "")
	}
	return s.Finish(nil, scaffold.Next(p, file, "Who are you?"))
}

// newAgentModel is the model of a new agent: what the flags say, else that of the
// agent that is chosen here, else what is found.
func newAgentModel(ctx context.Context, p *program.Env, file string, f scaffold.ModelFlags) (scaffold.ModelChoice, error) {
	c, err := load.Config(p)
	if err != nil {
		return scaffold.ModelChoice{}, err
	}
	if !f.Named() && f.KeyID == "" {
		other, err := scaffold.Chosen(p, c)
		if err != nil {
			return scaffold.ModelChoice{}, err
		}
		if other != nil && other.Spec.First().Flavor != agentfile.FlavorScripted {
			m := other.Spec.First()
			return scaffold.ModelChoice{Flavor: m.Flavor, Url: m.ModelURL, Model: cmp.Or(f.Model, m.ModelName), KeyID: m.APIKeyID}, nil
		}
		if other != nil && f.Model == "" {
			return scaffold.ScriptedChoice(), nil
		}
	}
	plan, err := scaffold.PlanKeys(p, c, file)
	if err != nil {
		return scaffold.ModelChoice{}, err
	}
	plan.Path = "" // only init writes keys
	return scaffold.ChooseModel(ctx, p, f, plan, nil)
}
