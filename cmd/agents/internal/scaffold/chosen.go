package scaffold

import (
	"fmt"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/urfave/cli/v3"
)

// Slug is the slug of a new agent or tool. That of a copy of from may be left out.
func (s Shipped) Slug(c *cli.Command, from string) (string, error) {
	if from != "" && from != Empty && !c.Args().Present() {
		return from, nil
	}
	return SlugArgument(c)
}

func SlugArgument(c *cli.Command) (string, error) {
	slug, err := command.OneArgument(c, "the slug, its name,")
	if err == nil {
		err = CheckSlug(c, slug)
	}
	return slug, err
}

// CheckSlug returns an error for the user if slug cannot be the name of an agent or tool.
func CheckSlug(c *cli.Command, slug string) error {
	if !ValidSlug(slug) {
		return failure.Usage(SlugHint, "%s: %q is not a valid slug", c.FullName(), slug)
	}
	return nil
}

// FileArguments returns the arguments of a new agent or tool in the order of agents-exe, SLUG
// first. ok is false if their number is not between least and most: the command line then has
// another form.
func FileArguments(c *cli.Command, least, most int) (args []string, ok bool, err error) {
	args = c.Args().Slice()
	if len(args) < least || len(args) > most {
		return nil, false, nil
	}
	return args, true, CheckSlug(c, args[0])
}

// Chosen is the agent that the command line, the environment, a cfg file or the
// working directory selects; nil if there is none. The agents of the user's own
// configuration are ignored: a new file belongs to this folder.
func Chosen(p *program.Env, c *config.Config) (*agentfile.File, error) {
	files, err := load.Candidates(p, c)
	if err != nil {
		return nil, err
	}
	var path string
	switch {
	case len(p.Global.AgentFiles) > 0 || p.Global.Agent != "" || p.Getenv(config.EnvAgentFile) != "",
		c.File.Path != "" && len(files) > 0:
		file, err := load.Choose(p, c, "")
		if err != nil {
			return nil, err
		}
		path = file
	case load.Trusted(p, load.Here().Path) != nil:
		path = program.Shown(load.Here().Path)
	default:
		return nil, nil
	}
	file, _, err := agentfile.Read(path)
	if err != nil {
		return nil, failure.NothingRan(fmt.Errorf("load agent: %w", err), "")
	}
	return file, nil
}
