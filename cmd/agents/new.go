package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/urfave/cli/v3"
)

func newAgentCommand(p *program) *cli.Command {
	var dir string
	f := &modelFlags{}
	return &cli.Command{
		ArgsUsage: "SLUG",
		Description: `Written into the tool directory of another agent (--dir), it is a sub-agent of
that one. It gets the model of the agent that is chosen here; without one, what
init would find, but for keys of the environment. Nothing is overwritten.`,
		Flags: append(f.flags(),
			&cli.StringFlag{Name: "dir", Value: ".", Usage: "write into `DIR`", Destination: &dir},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			slug, err := slugArgument(c)
			if err != nil {
				return err
			}
			return p.newAgent(ctx, slug, dir, *f)
		},
	}
}

func newToolCommand(p *program) *cli.Command {
	var dir, lang string
	return &cli.Command{
		ArgsUsage: "SLUG",
		Description: `A tool in Go is a script that builds the program in the folder beside it when it
is called and has changed. Nothing is overwritten.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "lang", Value: "bash", Usage: "`LANGUAGE` of the tool: bash, python, node or go", Destination: &lang, Validator: oneOf("bash", "python", "node", "go")},
			&cli.StringFlag{Name: "dir", Usage: "write into `DIR`; otherwise into the tool directory of the agent that is chosen here, otherwise into tools", Destination: &dir},
		},
		Action: func(_ context.Context, c *cli.Command) error {
			slug, err := slugArgument(c)
			if err != nil {
				return err
			}
			return p.newTool(slug, dir, lang)
		},
	}
}

// slugArgument is the slug that a new thing gets.
func slugArgument(c *cli.Command) (string, error) {
	slug, err := oneArgument(c, "the slug, its name,")
	if err == nil && !validSlug(slug) {
		return "", usage(slugHint, "%s: %q is no slug", c.FullName(), slug)
	}
	return slug, err
}

// newAgent writes an agent file, with a script where it has no model.
func (p *program) newAgent(ctx context.Context, slug, dir string, f modelFlags) error {
	file := filepath.Join(dir, slug+".json")
	tools := slug + "-tools"
	if taken(file) {
		return usage("choose another slug or --dir", "new agent: %s is there already", file)
	}
	m, err := p.newAgentModel(ctx, file, f)
	if err != nil {
		return err
	}
	s := &scaffold{p: p}
	err = s.folder(filepath.Join(dir, tools))
	if m.flavor == agentfile.FlavorScripted && err == nil {
		// A .json in a tool directory must be an agent file; one in a folder
		// there need not.
		m.script = slug + "-script/script.json"
		if err = s.folder(filepath.Join(dir, slug+"-script")); err == nil {
			err = s.add(filepath.Join(dir, filepath.FromSlash(m.script)), 0o644, agentScript)
		}
	}
	if err == nil {
		err = s.add(file, 0o644, agentText(slug, m, "say here what other agents can ask of this one", []string{
			"Say here who this agent is and what it is to do.",
		}, tools))
	}
	return s.finish(err, "agents run --agent-file "+shellQuote(file)+` --prompt "Who are you?"`)
}

// newAgentModel is the model of a new agent: what the flags say, else that of the
// agent that is chosen here, else what is found.
func (p *program) newAgentModel(ctx context.Context, file string, f modelFlags) (modelChoice, error) {
	c, err := p.config()
	if err != nil {
		return modelChoice{}, err
	}
	if !f.named() && f.keyID == "" {
		other, err := p.chosen(c)
		if err != nil {
			return modelChoice{}, err
		}
		if other != nil && other.Spec.Flavor != agentfile.FlavorScripted {
			s := other.Spec
			return modelChoice{flavor: s.Flavor, url: s.ModelURL, model: first(f.model, s.ModelName), keyID: s.APIKeyID}, nil
		}
		if other != nil && f.model == "" {
			return scriptedChoice(), nil
		}
	}
	plan, err := p.planKeys(c, file)
	if err != nil {
		return modelChoice{}, err
	}
	plan.path = "" // only init writes keys
	return p.chooseModel(ctx, f, plan, nil)
}

// chosen is the agent that the command line, the environment, a cfg file or the
// working directory means; nil if there is none. The agents of the user's own
// configuration are not meant: what is made here belongs here.
func (p *program) chosen(c *config.Config) (*agentfile.File, error) {
	var path string
	switch {
	case len(p.global.agentFiles) > 0 || p.global.agent != "" || p.getenv(config.EnvAgentFile) != "",
		c.File.Path != "" && len(candidates(c)) > 0:
		file, err := p.choose(c, "")
		if err != nil {
			return nil, err
		}
		path = file
	case agentfile.IsAgentFile("agent.json"):
		path = "agent.json"
	default:
		return nil, nil
	}
	file, _, err := agentfile.Read(path)
	if err != nil {
		return nil, nothingRan(fmt.Errorf("load agent: %w", err), "")
	}
	return file, nil
}

// A language is one that tools are written in.
type language struct {
	suffix, text string
	program      string // what runs it
	source       bool   // a Go program lies beside it
}

func languageOf(name string) language {
	switch name {
	case "python":
		return language{suffix: ".py", text: pythonTool, program: "python3"}
	case "node":
		return language{suffix: ".mjs", text: nodeTool, program: "node"}
	case "go":
		return language{suffix: ".sh", text: goTool, program: "go", source: true}
	}
	return language{suffix: ".sh", text: bashTool, program: "bash"}
}

func (p *program) newTool(slug, dir, lang string) error {
	if dir == "" {
		var err error
		if dir, err = p.toolDir(); err != nil {
			return err
		}
	}
	l := languageOf(lang)
	name := slug + l.suffix
	source := slug + "-src"
	for _, other := range []string{slug, slug + ".sh", slug + ".py", slug + ".mjs", source} {
		if path := filepath.Join(dir, other); taken(path) {
			return usage("choose another slug or --dir", "new tool: %s is there already", path)
		}
	}
	s := &scaffold{p: p}
	err := s.folder(dir)
	if l.source && err == nil {
		err = goSource(s, filepath.Join(dir, source), slug, name)
	}
	path := filepath.Join(dir, name)
	if err == nil {
		err = s.add(path, 0o755, fill(l.text, slug, name))
	}
	if _, lookErr := exec.LookPath(l.program); lookErr != nil && err == nil {
		p.note("%s, which runs it, is not in PATH", l.program)
	}
	if filepath.Base(path) == path {
		path = "./" + path
	}
	return s.finish(err, "agents tool call "+shellQuote(path)+" --arg text=hello --arg times=2")
}

// goSource writes the program of a tool in Go, a module of its own.
func goSource(s *scaffold, dir, slug, name string) error {
	if err := s.folder(dir); err != nil {
		return err
	}
	if err := s.add(filepath.Join(dir, "go.mod"), 0o644, fill("module example.com/@SLUG@\n\ngo 1.21\n", slug, name)); err != nil {
		return err
	}
	if err := s.add(filepath.Join(dir, ".gitignore"), 0o644, fill("/@SLUG@.built*\n", slug, name)); err != nil {
		return err
	}
	return s.add(filepath.Join(dir, "main.go"), 0o644, fill(goProgram, slug, name))
}

// toolDir is where a new tool belongs.
func (p *program) toolDir() (string, error) {
	c, err := p.config()
	if err != nil {
		return "", err
	}
	file, err := p.chosen(c)
	if err != nil {
		return "", err
	}
	if file == nil {
		return "tools", nil
	}
	dir := file.Spec.ToolDirectory
	if dir == "" {
		return "", nothingRan(fmt.Errorf("new tool: agent %s (%s) has no toolDirectory", file.Spec.Slug, file.Path), "name a folder with --dir")
	}
	if filepath.IsAbs(dir) {
		return dir, nil
	}
	beside := filepath.Join(filepath.Dir(file.Path), dir)
	// Some files mean the working directory; see agentfile.Load.
	if _, err := os.Stat(beside); errors.Is(err, os.ErrNotExist) && taken(dir) {
		return dir, nil
	}
	return relative(beside), nil
}

// relative is path as seen from here, if it lies here.
func relative(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}
