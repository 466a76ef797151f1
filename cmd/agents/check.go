package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/rights"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/urfave/cli/v3"
)

func checkCommand(p *program.Env) *cli.Command {
	f := &checkFlags{shown: map[agentfile.Problem]bool{}}
	return &cli.Command{
		Description: `Checks all agents that are found, or those named with --agent-file, with all agents
below them. Problems go to stderr, a summary to stdout. The exit code is 2 if there
is an error or something had to be left out; warnings and notes do not change it.`,
		Flags: append(f.rights.Flags(),
			command.CompatNamesFlag(&p.Global),
			&cli.BoolFlag{Name: "effective", Usage: "instead print what each agent may do with each tool, by which rule, and what enforces it", Destination: &f.effective},
			&cli.BoolFlag{Name: "no-start", Usage: "do not start MCP servers and toolboxes that may use the network: their tools are left out", Destination: &f.noStart},
			&cli.StringFlag{Name: "tools", Usage: "instead print the tools of one agent as its model sees them: `FORM` is list, openai or json", Destination: &f.tools, Validator: command.OneOf("list", "openai", "json", "none", "agents-exe")},
		),
		Action: command.WithoutArguments(func(ctx context.Context, _ *cli.Command) error {
			if form, ok := map[string]string{"none": "", "agents-exe": "json"}[f.tools]; ok {
				f.tools = form
			}
			if f.effective && f.tools != "" {
				return failure.Usage("", "--effective and --tools exclude each other")
			}
			return check(ctx, p, f)
		}),
	}
}

type checkFlags struct {
	tools     string
	effective bool
	noStart   bool
	rights    load.RightsFlags
	shown     map[agentfile.Problem]bool // agents may have files in common
}

func check(ctx context.Context, p *program.Env, f *checkFlags) error {
	c, err := load.Config(p)
	if err != nil {
		return err
	}
	p.Warn(c.Warnings...)
	files, err := load.Candidates(p, c)
	if err != nil {
		return err
	}
	if f.tools != "" || p.Global.Agent != "" || len(files) == 0 {
		file, err := load.Choose(p, c, "")
		if err != nil {
			return err
		}
		files = []string{file}
	}
	bad := 0
	for _, file := range files {
		n, err := checkFile(ctx, p, c, file, f, "")
		if err != nil {
			return err
		}
		bad += n
	}
	if bad > 0 {
		return failure.NothingRan(fmt.Errorf("check: %d %s", bad, program.Plural(bad, "problem")), "")
	}
	return nil
}

// checkFile reports on the tree of the agent with the slug, or on those of all agents in
// the file, and returns how many problems make the check fail. An error means that a
// tree could not be checked at all.
func checkFile(ctx context.Context, p *program.Env, c *config.Config, file string, f *checkFlags, slug string) (bad int, err error) {
	l, err := load.File(ctx, p, c, file, load.Options{Check: true, Rights: f.rights, Agent: slug})
	if _, drift := errors.AsType[*agentfile.DriftError](err); drift {
		return 0, err
	}
	if l == nil || l.Tree == nil || ctx.Err() != nil {
		return 0, err
	}
	defer l.Close()
	f.connect(ctx, p, l.Tree)
	fresh := slices.DeleteFunc(slices.Clone(l.Problems), func(problem agentfile.Problem) bool { return f.shown[problem] })
	for i, problem := range fresh {
		f.shown[problem] = true
		fmt.Fprintf(p.Err, "%s: %s\n", problem.Severity, termtext.Clean(problem.String()))
		// If several problems have the same hint, it is printed after the last.
		last := i+1 == len(fresh) || fresh[i+1].Code != problem.Code || fresh[i+1].Schema != problem.Schema
		if hint := load.ProblemHint(problem); hint != "" && last {
			fmt.Fprintf(p.Err, "  hint: %s\n", hint)
		}
		if problem.Severity <= agentfile.LeftOut {
			bad++
		}
	}
	switch {
	case l.Root == nil && (f.tools != "" || len(l.Nodes) == 0):
		return max(bad, 1), nil
	case f.tools != "":
		return bad, printTools(p, l.Nodes[0], f.tools)
	case f.effective:
		err = rights.Print(p, l.Tree)
	default:
		err = summary(p, l.Tree)
	}
	if slug != "" || p.Global.Agent != "" {
		return bad, err
	}
	root := l.Nodes[0].File
	for _, other := range root.Slugs[1:] {
		if err == nil && !slices.ContainsFunc(l.Nodes, func(n *agentfile.Node) bool { return n.File.Real == root.Real && n.Agent.Slug == other }) {
			var more int
			more, err = checkFile(ctx, p, c, file, f, other)
			bad += more
		}
	}
	return bad, err
}

// connect starts the servers of the tree to list their tools, and prints a note, because a
// program such as npx downloads what it starts.
func (f *checkFlags) connect(ctx context.Context, p *program.Env, t *agentfile.Tree) {
	var list []string
	for _, s := range t.MCPServers() {
		start := strings.Join(append([]string{s.Server.Executable}, s.Server.Args...), " ")
		if s.Server.URL != "" {
			start = program.ShownURL(s.Server.URL)
		} else if s.Server.Executable == "" {
			continue // reported as a problem, never started
		}
		list = append(list, fmt.Sprintf("%s (%.200s)", s.Name, start))
	}
	note := "note: these MCP servers are started to list their tools, and may use the network (--no-start prevents this): %s\n"
	if f.noStart {
		note = "note: not started, so their tools are missing here: %s\n"
		t.FitTools()
	} else {
		defer t.Connect(ctx)
	}
	if len(list) > 0 {
		fmt.Fprintf(p.Err, note, termtext.Clean(strings.Join(list, ", ")))
	}
}

// summary is the tree as text: agents, their tools and where these come from.
func summary(p *program.Env, t *agentfile.Tree) error {
	var b strings.Builder
	for _, n := range t.Nodes {
		fmt.Fprintf(&b, "%s (%s): %d %s%s\n", n.Agent.Slug, n.File.Path, len(n.Tools), program.Plural(len(n.Tools), "tool"), limits(n.Agent))
		if hidden := n.HiddenTools(); hidden > 0 {
			fmt.Fprintf(&b, "  %d of them are hidden until the model activates them (meta_discover_tools)\n", hidden)
		}
		for _, s := range n.Sandboxes() {
			if s.Enforced == "" {
				continue
			}
			fmt.Fprintf(&b, "  sandbox of %s\n    %s\n    %s\n", strings.Join(s.Of, ", "), s.Permits, s.Enforced)
		}
		width := 0
		for _, tool := range n.Tools {
			width = max(width, len(tool.Name))
		}
		for _, tool := range n.Tools {
			fmt.Fprintf(&b, "  %-*s  %s\n", width, tool.Name, tool.Source)
		}
	}
	return p.PrintClean(b.String())
}

func limits(a *agent.Agent) string {
	text := ""
	if budget := a.Budget.String(); budget != "" {
		text = ", budget " + budget
	}
	if a.Deadline > 0 {
		text += fmt.Sprintf(", deadline %s", a.Deadline)
	}
	return text
}

// printTools prints what the model of n sees.
func printTools(p *program.Env, n *agentfile.Node, form string) error {
	switch form {
	case "json":
		return p.WriteJSON(n.Tools)
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
		return p.WriteJSON(list)
	}
	var b strings.Builder // list
	for _, s := range n.Tools {
		line, _, _ := strings.Cut(strings.TrimSpace(s.Description), "\n")
		fmt.Fprintf(&b, "%s: %s\n", s.Name, line)
	}
	return p.PrintClean(b.String())
}
