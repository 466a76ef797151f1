package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/urfave/cli/v3"
)

func trustCommand(p *program.Env) *cli.Command {
	var list, yes bool
	var remove string
	return &cli.Command{
		Description: `Files that no flag names may come from somebody else: a cfg file, or an agent.json in
the working directory. They are used only after you trust them. This command shows
which files decide what runs and what has changed since they were trusted, and asks.
It executes none of them. With --agent-file it is about that file, which needs trust
if ` + load.EnvTrust + `=strict is set.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "trust what is shown without asking", Destination: &yes},
			&cli.BoolFlag{Name: "list", Usage: "list what is trusted", Destination: &list},
			&cli.StringFlag{Name: "remove", Usage: "stop trusting the agent file or cfg file `FILE`", Destination: &remove},
		},
		Action: command.WithoutArguments(func(ctx context.Context, _ *cli.Command) error {
			switch {
			case list:
				return listTrusted(p)
			case remove != "":
				return distrust(p, remove)
			}
			return trust(ctx, p, yes)
		}),
	}
}

func listTrusted(p *program.Env) error {
	var b strings.Builder
	for _, t := range load.ListTrusted(p) {
		b.WriteString(t.Path + "\n")
	}
	_, err := io.WriteString(p.Out, termtext.Clean(b.String()))
	return err
}

func distrust(p *program.Env, path string) error {
	was, err := load.Distrust(p, path)
	switch {
	case err != nil:
		return failure.NothingRan(fmt.Errorf("trust: %w", err), "")
	case !was:
		return failure.NothingRan(fmt.Errorf("trust: %s was not trusted", path), "`agents trust --list` shows what is")
	}
	return nil
}

// trust shows what needs trust, and notes it if the person agrees.
func trust(ctx context.Context, p *program.Env, yes bool) error {
	found, text, err := untrusted(p)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(p.Out, termtext.Clean(text)); err != nil || len(found) == 0 {
		return err
	}
	if !yes {
		asker := ask.Terminal(p, false)
		if asker == nil {
			return failure.NothingRan(errors.New("trust: there is no terminal to ask at"), "`agents trust --yes` trusts what is shown")
		}
		answer, err := asker.Line(ctx, "trust it? yes or no", "no")
		if err != nil {
			return err
		}
		if answer = strings.ToLower(answer); answer != "yes" && answer != "y" {
			return failure.NothingRan(errors.New("trust: nothing was trusted"), "")
		}
	}
	for _, t := range found {
		if err := t.Keep(p); err != nil {
			return failure.NothingRan(fmt.Errorf("trust: %w", err), "")
		}
	}
	return nil
}

// untrusted returns the files, found here or named, whose current contents are not
// trusted, with a text for the person.
func untrusted(p *program.Env) (found []*load.Trust, text string, err error) {
	var b strings.Builder
	add := func(now *load.Trust, about string) {
		was := load.Trusted(p, now.Path)
		switch {
		case was == nil:
			fmt.Fprintf(&b, "%s\n%s", now.Path, about)
		case len(was.Changes(now)) == 0:
			fmt.Fprintf(&b, "%s: trusted\n", now.Path)
			return
		default:
			fmt.Fprintf(&b, "%s: changed since it was trusted\n", now.Path)
			for _, line := range was.Changes(now) {
				fmt.Fprintf(&b, "  %s\n", line)
			}
		}
		found = append(found, now)
	}
	var cfg *load.Trust
	c, err := load.AnyConfig(p, func(path string, text []byte) error { cfg = load.SurveyConfig(path, text); return nil })
	if err != nil {
		return nil, "", err
	}
	if cfg != nil {
		cfg.AddPolicies(c)
		add(cfg, aboutConfig(c))
	}
	files := c.AgentFiles
	if usual, err := filepath.Abs(load.UsualFile); err == nil && !slices.ContainsFunc(files, func(f config.AgentFile) bool { return f.Named }) && agentfile.IsAgentFile(usual) {
		files = append(files, config.AgentFile{Place: config.Place{Path: usual}, Discovered: true})
	}
	for _, f := range files {
		if f.Discovered || len(p.Global.AgentFiles) > 0 {
			tree, now := load.SurveyFile(p, f.Path)
			add(now, aboutTree(tree, now))
		}
	}
	if b.Len() == 0 {
		return nil, "", failure.NothingRan(errors.New("trust: found no files here that need it"), "--agent-file names a file")
	}
	return found, b.String(), nil
}

// aboutConfig describes what a cfg file decides besides the list of agents.
func aboutConfig(c *config.Config) string {
	var b strings.Builder
	for _, path := range c.File.Policies {
		fmt.Fprintf(&b, "  %-8s%s\n", agentfile.KindPolicy, path)
	}
	for _, l := range [][2]string{{"sends all events to", c.File.LogHTTP}, {"takes keys from", c.File.ConfigDir}, {"writes sessions to", c.File.SessionDir}} {
		if l[1] != "" {
			fmt.Fprintf(&b, "  %s %s\n", l[0], l[1])
		}
	}
	return b.String()
}

// aboutTree lists what a tree runs, one line each.
func aboutTree(tree *agentfile.Tree, now *load.Trust) string {
	var b strings.Builder
	lock := now.Tree
	line := func(kind, text string) {
		fmt.Fprintf(&b, "  %-8s%s\n", kind, strings.Join(strings.Fields(text), " "))
	}
	for _, n := range tree.Nodes {
		for _, m := range n.Models() {
			if m.ModelURL != "" {
				line("model", n.Agent.Slug+" sends its prompts to "+m.ModelURL)
			}
		}
		for _, s := range n.Services() {
			line("service", n.Agent.Slug+" calls "+cmp.Or(s.URL, "the servers in "+s.Document))
			for _, command := range s.Commands {
				line("secret", strings.Join(command, " "))
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(lock.Files)) {
		line(lock.Files[path].Kind, path)
	}
	for _, path := range slices.Sorted(maps.Keys(now.Keys)) {
		line("keys", path)
	}
	for _, key := range slices.Sorted(maps.Keys(lock.Servers)) {
		s := lock.Servers[key]
		line("server", key+": "+strings.Join(append(slices.Clone(s.Command), s.URL), " "))
	}
	for _, key := range slices.Sorted(maps.Keys(lock.Runners)) {
		line("runner", key+": "+strings.Join(lock.Runners[key].Command, " "))
	}
	return b.String()
}
