package chat

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/terminal/input"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// A verb does a command and returns what to show.
type verb func(c *chat, ctx context.Context, args string) (string, error)

// verbs are the commands of input.Commands that need no screen. It is a function because
// nothing is built for programs that do not chat.
func verbs() map[string]verb {
	return map[string]verb{
		"help": (*chat).help, "new": (*chat).anew, "clear": (*chat).anew, "agents": (*chat).agents, "agent": (*chat).choose, "tools": (*chat).tools,
		"model": (*chat).model, "cost": (*chat).cost, "budget": (*chat).budget, "undo": (*chat).undo, "fork": (*chat).fork, "save": (*chat).save, "compact": (*chat).compact,
	}
}

// command does a command and returns what to show.
func (c *chat) command(ctx context.Context, name, args string) (string, error) {
	if _, err := input.Find(name, args); err != nil {
		return "", err
	}
	do := verbs()[name]
	if do == nil {
		return "", fmt.Errorf("/%s needs the terminal interface", name)
	}
	return do(c, ctx, args)
}

func (c *chat) help(context.Context, string) (string, error) {
	var b strings.Builder
	for _, known := range input.Commands() {
		if !known.Screen {
			fmt.Fprintf(&b, "  %-24s  %s\n", known.Usage(), known.About)
		}
	}
	for _, other := range input.Others {
		fmt.Fprintf(&b, "  %-24s  %s\n", other[0], other[1])
	}
	return b.String() + "  Ctrl-C                    stop what is running; Ctrl-D leaves\n", nil
}

// anew makes the next message the first of a new conversation.
func (c *chat) anew(context.Context, string) (string, error) {
	c.kept.Release()
	return "  a new conversation with " + c.tree.Root.Slug, c.begin()
}

func (c *chat) agents(context.Context, string) (string, error) {
	var b strings.Builder
	for _, n := range c.tree.Nodes {
		depth := 1
		if n.Agent != c.tree.Root {
			depth = 2
		}
		b.WriteString(entry(depth, n.Agent.Slug, cmp.Or(n.Agent.Model, n.Agent.Flavor), n.File.Spec.Announce))
	}
	others := c.others()
	for _, slug := range slices.Sorted(maps.Keys(others)) {
		b.WriteString(entry(1, slug, "", others[slug]))
	}
	return b.String(), nil
}

// others are agents that are not in the tree and can be chosen, with what they are.
func (c *chat) others() map[string]string {
	list := map[string]string{}
	files, _ := load.Candidates(c.p, c.tree.Config) // what is not trusted is not read
	for _, path := range files {
		f, _, err := agentfile.Read(path)
		if err != nil {
			continue
		}
		for _, slug := range f.Slugs {
			if other, _, err := agentfile.ReadAgent(path, slug); err == nil && slug != c.tree.Root.Slug {
				list[slug] = other.Spec.Announce
			}
		}
	}
	return list
}

// entry returns a line of a list.
func entry(depth int, name, detail, about string) string {
	line := strings.Repeat("  ", depth) + termtext.Clean(name)
	if detail != "" {
		line += " (" + termtext.Clean(detail) + ")"
	}
	if about != "" {
		line += "  " + program.OneLine(about, 200)
	}
	return line + "\n"
}

func (c *chat) choose(ctx context.Context, slug string) (string, error) {
	before, models := c.p.Global.Agent, c.Models
	c.p.Global.Agent, c.Models = slug, nil
	if err := c.load(ctx, load.Options{}); err != nil {
		c.p.Global.Agent, c.Models = before, models
		return "", err
	}
	c.kept.Release()
	return "a new conversation with " + c.tree.Root.Slug, c.begin()
}

func (c *chat) tools(context.Context, string) (string, error) {
	var b strings.Builder
	for _, tool := range c.tree.Nodes[0].Tools {
		kind := ""
		if tool.Agent != "" {
			kind = "agent"
		}
		b.WriteString(entry(1, tool.Name, kind, tool.Description))
	}
	return cmp.Or(b.String(), "  none\n"), nil
}

func (c *chat) model(ctx context.Context, name string) (string, error) {
	if name != "" {
		slug, model, ok := strings.Cut(name, "=")
		if !ok {
			slug, model = "", name
		}
		before := c.Models
		if c.Models = maps.Clone(before); c.Models == nil {
			c.Models = load.Models{}
		}
		choice := c.Models[slug]
		choice.Name = model
		c.Models[slug] = choice
		if err := c.load(ctx, load.Options{File: c.tree.Nodes[0].File.Path, Agent: c.tree.Root.Slug}); err != nil {
			c.Models = before
			return "", err
		}
	}
	text := "  " + cmp.Or(c.tree.Root.Model, c.tree.Root.Flavor)
	if name != "" {
		return text, nil
	}
	list, err := c.tree.Offers(ctx)
	if err != nil {
		text += "\n  " + err.Error()
	}
	for _, o := range list {
		text += "\n    " + strings.TrimSuffix(o.Line(), "\n")
	}
	return text, nil
}

func (c *chat) cost(context.Context, string) (string, error) {
	total, since := c.total, ""
	if events := c.session(); events != nil {
		total = agent.TotalUsage{}
		for e, err := range events {
			if err != nil {
				return "", err
			}
			total.Note(&e)
		}
	} else {
		since = " since the chat began"
	}
	if total.Usage.Requests == 0 {
		return "  nothing yet", nil
	}
	var b strings.Builder
	spent := func(who string, u agent.Usage, since string) {
		fmt.Fprintf(&b, "  %-20s %3d %-8s  %s  %s%s\n", who, u.Requests, program.Plural(u.Requests, "request"), u.TokenText(), u.CostText(), since)
	}
	for _, slug := range slices.Sorted(maps.Keys(total.Agents)) {
		spent(slug, total.Agents[slug], "")
	}
	spent("all", total.Usage, since)
	return b.String(), nil
}

func (c *chat) budget(_ context.Context, amounts string) (string, error) {
	if amounts != "" {
		b := c.Budget
		if err := command.AddBudget(&b, amounts); err != nil {
			return "", fmt.Errorf("/budget %s: %w", amounts, err)
		}
		c.Budget = b
	}
	return "  each run: " + cmp.Or(c.Budget.String(), "no limits except those of the agent file"), nil
}

// compact has the conversation shortened: during a run before its next request, otherwise
// with the next message.
func (c *chat) compact(context.Context, string) (string, error) {
	if c.running != nil {
		c.running.Direct(agent.Directive{Compact: true})
	} else {
		c.shorten = true
	}
	return "  the conversation will be shortened before the next request", nil
}
