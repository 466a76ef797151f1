package main

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/agents-exe/agents/pkg/policy"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/urfave/cli/v3"
)

type initFlags struct {
	model  scaffold.ModelFlags
	from   string
	slug   string
	yes    bool
	edit   bool
	global bool
}

func initCommand(p *program.Env) *cli.Command {
	f := &initFlags{}
	return &cli.Command{
		Description: `Writes agent.json, or the file of --agent-file, with the tools of the agent in tools/.
Existing files are not overwritten.

The agent is an assistant: it reads, edits and searches the files of the folder in which it
is started and runs commands there, in a sandbox, and asks before it changes something;
where there is no terminal, that is denied without --yes. --from chooses another agent.

Its model is what init finds here: a key in the keys file or the environment
(OPENAI_API_KEY and the like), a model server on this machine (Ollama, llama.cpp,
LM Studio, vLLM), or else a script that works offline. A key of the environment goes into
agents-exe.keys. At a terminal, init asks which agent and which model, then shows what it
is going to write and asks for confirmation.

With --global it writes the agent into your configuration folder: agents run uses it in
every folder that has no agent of its own. The key goes into the keys file there.`,
		Flags: append(f.model.Flags(),
			scaffold.Agents().Flag(&f.from),
			&cli.StringFlag{Name: "slug", Usage: "`SLUG` of the agent; otherwise that of the file or its folder", Destination: &f.slug},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "ask no questions", Destination: &f.yes},
			&cli.BoolFlag{Name: "global", Usage: "write the agent into your configuration folder, for every folder", Destination: &f.global},
			&cli.BoolFlag{Name: "edit", Usage: "afterwards open the agent file in $GIT_EDITOR or $EDITOR", Destination: &f.edit},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return failure.Usage("the file is named with --agent-file", "%s: unexpected argument %q", c.FullName(), c.Args().First())
			}
			if f.from == "?" {
				return p.Print(scaffold.Agents().List())
			}
			return initAgent(ctx, p, f)
		},
	}
}

func initAgent(ctx context.Context, p *program.Env, f *initFlags) error {
	file, slug, err := initNames(p, f)
	if err != nil {
		return err
	}
	s := &scaffold.Files{P: p}
	if program.Taken(file) {
		p.Note("%s already exists and was not changed", file)
		if f.edit {
			edit(p, file)
		}
		return s.Finish(nil, "agents check --agent-file "+program.ShellQuote(file))
	}
	plan, err := initKeys(p, f, file)
	if err != nil {
		return err
	}
	asker := ask.Terminal(p, f.yes)
	base := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	a := &scaffold.Agent{File: file, Slug: slug, Tools: "tools", Files: base + "-files", Approval: string(policy.Effects)}
	if a.From, err = whichAgent(ctx, asker, f.from); err != nil {
		return err
	}
	if a.Model, err = scaffold.ChooseModel(ctx, p, f.model, plan, asker); err != nil {
		return err
	}
	if !a.Fresh() {
		a.Tools = base + "-tools" // what is in tools is not for a model
	}
	if asker != nil {
		dry := &scaffold.Files{P: p, Dry: true}
		if err := dry.Agent(a, plan); err != nil {
			return failure.NothingRan(err, "")
		}
		if err := agreed(ctx, p, asker, dry.Plan()); err != nil {
			return err
		}
	}
	fresh := a.Fresh()
	if err = s.Agent(a, plan); err != nil {
		return s.Finish(err, "")
	}
	sayModel(p, a.Model, file)
	if f.edit {
		edit(p, file)
	}
	if fresh {
		load.NoteOwn(p, file)
	}
	return s.Finish(nil, scaffold.Next(p, file, "What is in this folder?"))
}

// whichAgent is the shipped agent that the new one is a copy of. At a terminal the person
// chooses.
func whichAgent(ctx context.Context, asker *ask.Asker, from string) (string, error) {
	names := []string{"assistant", "reviewer", "researcher", scaffold.Empty}
	if from != "" || asker == nil {
		return cmp.Or(from, names[0]), nil
	}
	labels := scaffold.Agents().Labels(names...)
	labels[0] = fmt.Sprintf("%-12s reads, edits, searches and runs commands in this folder,\n%17s in a sandbox, and asks before it changes something", names[0], "")
	n, err := asker.Choice(ctx, "Which agent?", ask.Group{Labels: labels})
	if err != nil {
		return "", err
	}
	return names[n], nil
}

// initKeys looks at the keys that the agent is used with.
func initKeys(p *program.Env, f *initFlags, file string) (*scaffold.KeysPlan, error) {
	if f.global {
		env, err := p.ConfigEnv()
		if err != nil {
			return nil, err
		}
		_, keys := env.Own()
		return scaffold.PlanGlobalKeys(p, keys)
	}
	c, err := load.Config(p)
	if err != nil {
		return nil, err
	}
	return scaffold.PlanKeys(p, c, file)
}

// agreed shows the person what is going to be written and asks.
func agreed(ctx context.Context, p *program.Env, asker *ask.Asker, plan string) error {
	fmt.Fprintf(p.Err, "This is what init writes:\n%s", termtext.Clean(plan))
	agrees, err := asker.Agrees(ctx, "write it?", "yes")
	if err == nil && !agrees {
		err = failure.Usage("", "nothing was written")
	}
	return err
}

// initNames are the agent file to write and the agent's slug.
func initNames(p *program.Env, f *initFlags) (file, slug string, err error) {
	file = program.Shown(load.Here().Path)
	switch names := p.Global.AgentFiles; {
	case len(names) > 1:
		return "", "", failure.Usage("", "--agent-file: init writes one agent, and %d files are named", len(names))
	case len(names) == 1:
		file = names[0]
	}
	if f.global {
		if file, err = globalFile(p); err != nil {
			return "", "", err
		}
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
	switch {
	case f.global:
		name = "assistant"
	case name == "agent":
		absolute, err := filepath.Abs(file)
		if err != nil {
			return "", "", failure.NothingRan(err, "")
		}
		name = filepath.Base(filepath.Dir(absolute))
	}
	return file, scaffold.SlugOf(name, "agent"), nil
}

// globalFile is the agent file of the user's own configuration.
func globalFile(p *program.Env) (string, error) {
	if len(p.Global.AgentFiles) > 0 || p.Global.APIKeys != "" {
		return "", failure.Usage("", "--global: it has an agent file and a keys file of its own; leave out --agent-file and --api-keys")
	}
	env, err := p.ConfigEnv()
	if err != nil {
		return "", err
	}
	agents, _ := env.Own()
	if agents == "" {
		return "", failure.NothingRan(errors.New("--global: there is no home folder"), "set HOME")
	}
	return filepath.Join(agents, load.UsualFile), nil
}

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
		p.Warn("there is no editor: neither GIT_EDITOR nor EDITOR is set")
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
