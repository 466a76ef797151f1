package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/scaffold"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/termtext"
	"github.com/urfave/cli/v3"
)

type initFlags struct {
	model scaffold.ModelFlags
	slug  string
	yes   bool
}

func initCommand(p *program.Env) *cli.Command {
	f := &initFlags{}
	return &cli.Command{
		Description: `Writes agent.json, or the file of --agent-file, and beside it tools/ and
agents-exe.keys. A file that is there already is left as it is.

The agent runs on what is found here: a key in the keys file or the environment
(OPENAI_API_KEY and the like), a model server on this machine (Ollama, llama.cpp,
LM Studio, vLLM), otherwise a script that works offline. On a terminal you are
asked which; then the agent file is opened in $GIT_EDITOR or $EDITOR.`,
		Flags: append(f.model.Flags(),
			&cli.StringFlag{Name: "slug", Usage: "`SLUG` of the agent; otherwise that of the file or its folder", Destination: &f.slug},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "ask nothing and open no editor", Destination: &f.yes},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return failure.Usage("the file is named with --agent-file", "%s: unexpected argument %q", c.FullName(), c.Args().First())
			}
			return initAgent(ctx, p, f)
		},
	}
}

// initAgent writes the first agent.
func initAgent(ctx context.Context, p *program.Env, f *initFlags) error {
	file, slug, err := initNames(p, f)
	if err != nil {
		return err
	}
	s := &scaffold.Files{P: p}
	if program.Taken(file) {
		p.Note("%s already exists and was not changed", file)
		return s.Finish(nil, "agents check --agent-file "+program.ShellQuote(file))
	}
	c, err := load.Config(p)
	if err != nil {
		return err
	}
	plan, err := scaffold.PlanKeys(p, c, file)
	if err != nil {
		return err
	}
	asker := ask.Terminal(p, f.yes)
	m, err := scaffold.ChooseModel(ctx, p, f.model, plan, asker)
	if err != nil {
		return err
	}
	if m.Flavor == agentfile.FlavorScripted {
		m.Script = strings.TrimSuffix(filepath.Base(file), ".json") + "-script.json"
		if script := filepath.Join(filepath.Dir(file), m.Script); program.Taken(script) {
			return failure.Usage("move or delete it, or choose a model with --flavor", "nothing was written: %s already exists", script)
		}
	}
	others, _ := os.ReadDir(filepath.Join(filepath.Dir(file), "tools")) // mostly there is no such folder
	err = s.FirstAgent(file, slug, m, plan)
	if err == nil {
		sayModel(p, m, file)
	}
	if err == nil && asker != nil {
		edit(p, file)
	}
	next := "agents run"
	if err == nil && !(len(others) == 0 && load.NoteOwn(p, file) && filepath.Clean(file) == load.UsualFile) {
		next += " --agent-file " + program.ShellQuote(file)
	}
	if p.Global.APIKeys != "" {
		next += " --api-keys " + program.ShellQuote(p.Global.APIKeys)
	}
	return s.Finish(err, next+` --prompt "What is in this folder?"`)
}

// initNames are the agent file to write and the agent's slug.
func initNames(p *program.Env, f *initFlags) (file, slug string, err error) {
	file = load.UsualFile
	switch names := p.Global.AgentFiles; {
	case len(names) > 1:
		return "", "", failure.Usage("", "--agent-file: init writes one agent, and %d files are named", len(names))
	case len(names) == 1:
		file = names[0]
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return "", "", failure.Usage("name a file in it: "+filepath.Join(file, load.UsualFile), "--agent-file %s: this is a folder", file)
	}
	if f.slug != "" {
		if !scaffold.ValidSlug(f.slug) {
			return "", "", failure.Usage(scaffold.SlugHint, "--slug %q: not a valid slug", f.slug)
		}
		return file, f.slug, nil
	}
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	if name == "agent" {
		absolute, err := filepath.Abs(file)
		if err != nil {
			return "", "", failure.NothingRan(err, "")
		}
		name = filepath.Base(filepath.Dir(absolute))
	}
	return file, scaffold.SlugOf(name, "agent"), nil
}

// sayModel says what the agent runs on.
func sayModel(p *program.Env, m scaffold.ModelChoice, file string) {
	if m.Model == "" {
		p.Note("it runs on %s", m.Label)
		return
	}
	p.Note("it runs on %s, model %s; modelName in %s changes that", m.Label, m.Model, file)
}

// edit opens the agent file in the person's editor, as git does. An error there
// is only a warning: the file is written.
func edit(p *program.Env, file string) {
	editor := cmp.Or(p.Getenv("GIT_EDITOR"), p.Getenv("EDITOR"))
	if editor == "" {
		return
	}
	cmd := exec.Command("sh", "-c", editor+` "$@"`, editor, file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.In, p.Err, p.Err // stdout belongs to the result
	p.Editing.Lock()
	defer p.Editing.Unlock()
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(p.Err, "warning: edit %s with %s: %s\n", termtext.Clean(file), termtext.Clean(editor), err)
	}
}
