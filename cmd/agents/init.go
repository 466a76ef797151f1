package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/urfave/cli/v3"
)

type initFlags struct {
	model modelFlags
	slug  string
	yes   bool
}

func initCommand(p *program) *cli.Command {
	f := &initFlags{}
	return &cli.Command{
		Description: `Writes agent.json, or the file of --agent-file, and beside it tools/ and
agents-exe.keys. A file that is there already is left as it is.

The agent runs on what is found here: a key in the keys file or the environment
(OPENAI_API_KEY and the like), a model server on this machine (Ollama, llama.cpp,
LM Studio, vLLM), otherwise a script that works offline. On a terminal you are
asked which; then the agent file is opened in $GIT_EDITOR or $EDITOR.`,
		Flags: append(f.model.flags(),
			&cli.StringFlag{Name: "slug", Usage: "`SLUG` of the agent; otherwise that of the file or its folder", Destination: &f.slug},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "ask nothing and open no editor", Destination: &f.yes},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return usage("the file is named with --agent-file", "%s: unexpected argument %q", c.FullName(), c.Args().First())
			}
			return p.initAgent(ctx, f)
		},
	}
}

// initAgent writes the first agent.
func (p *program) initAgent(ctx context.Context, f *initFlags) error {
	file, slug, err := p.initNames(f)
	if err != nil {
		return err
	}
	s := &scaffold{p: p}
	if taken(file) {
		p.note("%s is there already and was left as it is", file)
		return s.finish(nil, "agents check --agent-file "+shellQuote(file))
	}
	c, err := p.config()
	if err != nil {
		return err
	}
	plan, err := p.planKeys(c, file)
	if err != nil {
		return err
	}
	ask := p.asker(f.yes)
	m, err := p.chooseModel(ctx, f.model, plan, ask)
	if err != nil {
		return err
	}
	if m.flavor == agentfile.FlavorScripted {
		m.script = strings.TrimSuffix(filepath.Base(file), ".json") + "-script.json"
		if script := filepath.Join(filepath.Dir(file), m.script); taken(script) {
			return usage("move it away, or choose a model with --flavor", "nothing was written: %s is there already", script)
		}
	}
	err = s.firstAgent(file, slug, m, plan)
	if err == nil {
		p.sayModel(m, file)
	}
	if err == nil && ask != nil {
		p.edit(file)
	}
	next := "agents run --agent-file " + shellQuote(file)
	if p.global.apiKeys != "" {
		next += " --api-keys " + shellQuote(p.global.apiKeys)
	}
	return s.finish(err, next+` --prompt "What is in this folder?"`)
}

// initNames are the agent file to write and the agent's slug.
func (p *program) initNames(f *initFlags) (file, slug string, err error) {
	file = usualFile
	switch names := p.global.agentFiles; {
	case len(names) > 1:
		return "", "", usage("", "--agent-file: init writes one agent, and %d files are named", len(names))
	case len(names) == 1:
		file = names[0]
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return "", "", usage("name a file in it: "+filepath.Join(file, usualFile), "--agent-file %s: this is a folder", file)
	}
	if f.slug != "" {
		if !validSlug(f.slug) {
			return "", "", usage(slugHint, "--slug %q: this is no slug", f.slug)
		}
		return file, f.slug, nil
	}
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	if name == "agent" {
		absolute, err := filepath.Abs(file)
		if err != nil {
			return "", "", nothingRan(err, "")
		}
		name = filepath.Base(filepath.Dir(absolute))
	}
	return file, slugOf(name, "agent"), nil
}

// firstAgent writes the files. The agent file comes last: once it is there, so is
// all that it names.
func (s *scaffold) firstAgent(file, slug string, m modelChoice, plan *keysPlan) error {
	dir := filepath.Dir(file)
	tools := filepath.Join(dir, "tools")
	tool := filepath.Join(tools, "list-files.sh")
	entries, _ := os.ReadDir(tools) // a folder that is not there has none
	if err := s.folder(tools); err != nil {
		return err
	}
	if len(entries) > 0 && !taken(tool) {
		s.p.note("%s/ is there already; no tool was added to it", tools)
	} else if err := s.add(tool, 0o755, listFilesTool); err != nil {
		return err
	}
	if err := s.keysFile(m, plan); err != nil {
		return err
	}
	if m.script != "" {
		if err := s.add(filepath.Join(dir, m.script), 0o644, demoScript); err != nil {
			return err
		}
	}
	return s.add(file, 0o644, agentText(slug, m, "answers questions about the folder that it is started in", []string{
		"You help with the folder that you are started in.",
		"Look with your tools before you answer. Be brief.",
	}, "tools"))
}

// keysFile writes the keys file: with the new key, or empty where there is no
// other.
func (s *scaffold) keysFile(m modelChoice, plan *keysPlan) error {
	type entry struct {
		ID    string   `json:"id"`
		Value string   `json:"value"`
		Hosts []string `json:"hosts"`
	}
	keys := []entry{}
	switch {
	case !m.key.Empty():
		u, err := url.Parse(m.url)
		if err != nil {
			return err
		}
		keys = append(keys, entry{m.keyID, m.key.Reveal(), []string{u.Host}})
		s.p.note("%s holds your key: keep it out of version control", plan.path)
		if plan.from != "" {
			s.p.note("%s is used for this agent instead of %s", plan.path, plan.from)
		}
	case plan.from != "":
		return nil
	}
	return s.add(plan.path, 0o600, jsonText(struct {
		Schema string  `json:"$schema"`
		Keys   []entry `json:"keys"`
	}{schemaURL + "keys.schema.json", keys}))
}

// sayModel says what the agent runs on.
func (p *program) sayModel(m modelChoice, file string) {
	if m.model == "" {
		p.note("it runs on %s", m.label)
		return
	}
	p.note("it runs on %s, model %s; modelName in %s changes that", m.label, m.model, file)
}

// edit opens the agent file in the person's editor, as git does. What goes wrong
// there is no failure: the file is written.
func (p *program) edit(file string) {
	editor := first(p.getenv("GIT_EDITOR"), p.getenv("EDITOR"))
	if editor == "" {
		return
	}
	cmd := exec.Command("sh", "-c", editor+` "$@"`, editor, file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.in, p.err, p.err // stdout belongs to the result
	p.editing.Lock()
	defer p.editing.Unlock()
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(p.err, "warning: edit %s with %s: %s\n", observe.Clean(file), observe.Clean(editor), err)
	}
}
