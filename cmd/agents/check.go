package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/urfave/cli/v3"
)

func checkCommand(p *program) *cli.Command {
	var tools string
	return &cli.Command{
		Description: `Checks all agents that are found, or those of --agent-file, with their whole
trees. Problems go to stderr, a summary to stdout. Warnings and notes are fine;
with an error, or anything that had to be left out, the exit code is 2.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "tools", Usage: "print the tools of one agent instead, as its model sees them: `FORM` is list, openai or json", Destination: &tools, Validator: oneOf("list", "openai", "json")},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return p.check(ctx, tools)
		},
	}
}

func (p *program) check(ctx context.Context, form string) error {
	c, err := p.config()
	if err != nil {
		return err
	}
	p.warn(c.Warnings)
	files := candidates(c)
	if form != "" || p.global.agent != "" || len(files) == 0 {
		file, err := p.choose(c, "")
		if err != nil {
			return err
		}
		files = []string{file}
	}
	bad := 0
	for _, file := range files {
		n, err := p.checkFile(ctx, c, file, form)
		if err != nil {
			return err
		}
		bad += n
	}
	if bad > 0 {
		return nothingRan(fmt.Errorf("check: %d %s", bad, plural(bad, "problem")), "")
	}
	return nil
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// checkFile reports on one tree, and returns how many of its problems make it
// fail. An error means that it could not be checked at all.
func (p *program) checkFile(ctx context.Context, c *config.Config, file, form string) (bad int, err error) {
	l, err := p.loadFile(ctx, c, file, loadOptions{check: true})
	if l == nil || l.Tree == nil || ctx.Err() != nil {
		return 0, err
	}
	defer l.Close()
	l.Connect(ctx)
	for i, problem := range l.Problems {
		fmt.Fprintf(p.err, "%s: %s\n", problem.Severity, observe.Clean(problem.String()))
		// Of several problems with one hint the last has it.
		last := i+1 == len(l.Problems) || l.Problems[i+1].Code != problem.Code
		if hint := problemHint(problem.Code); hint != "" && last {
			fmt.Fprintf(p.err, "  hint: %s\n", hint)
		}
		if problem.Severity <= agentfile.LeftOut {
			bad++
		}
	}
	switch {
	case l.Root == nil && (form != "" || len(l.Nodes) == 0):
		return max(bad, 1), nil
	case form != "":
		return bad, p.printTools(l.Nodes[0], form)
	}
	return bad, p.summary(l.Tree)
}

// summary is the tree as text: agents, their tools and where these come from.
func (p *program) summary(t *agentfile.Tree) error {
	var b strings.Builder
	for _, n := range t.Nodes {
		fmt.Fprintf(&b, "%s (%s): %d %s\n", n.Agent.Slug, n.File.Path, len(n.Tools), plural(len(n.Tools), "tool"))
		width := 0
		for _, tool := range n.Tools {
			width = max(width, len(tool.Name))
		}
		for _, tool := range n.Tools {
			fmt.Fprintf(&b, "  %-*s  %s\n", width, tool.Name, tool.Source)
		}
	}
	_, err := io.WriteString(p.out, observe.Clean(b.String()))
	return err
}

// printTools prints what the model of n sees.
func (p *program) printTools(n *agentfile.Node, form string) error {
	switch form {
	case "json":
		return p.writeJSON(n.Tools)
	case "openai":
		type function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		}
		type tool struct {
			Type     string   `json:"type"`
			Function function `json:"function"`
		}
		list := []tool{}
		for _, s := range n.Tools {
			list = append(list, tool{"function", function{s.Name, s.Description, s.Schema}})
		}
		return p.writeJSON(list)
	case "list":
		var b strings.Builder
		for _, s := range n.Tools {
			line, _, _ := strings.Cut(strings.TrimSpace(s.Description), "\n")
			fmt.Fprintf(&b, "%s: %s\n", s.Name, line)
		}
		_, err := io.WriteString(p.out, observe.Clean(b.String()))
		return err
	}
	return errors.New("unknown form " + form)
}
