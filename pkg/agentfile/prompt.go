package agentfile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/mcpclient"
)

// A PromptError says that there is no such prompt, and which ones there are.
type PromptError struct{ text string }

// Error is a message for a person.
func (e *PromptError) Error() string { return e.text }

func noPrompt(format string, args ...any) error { return &PromptError{fmt.Sprintf(format, args...)} }

// Prompt returns the messages, at least one, of a prompt of one of the root's MCP
// servers with args. It is named SERVER/NAME. A name or an argument
// that does not fit is a *PromptError.
func (t *Tree) Prompt(ctx context.Context, name string, args map[string]string) ([]agent.Message, error) {
	root := t.Nodes[0]
	var servers []string
	for _, s := range root.servers() {
		if short, ok := strings.CutPrefix(name, s.Name+"/"); ok {
			return s.prompt(ctx, short, args)
		}
		servers = append(servers, s.Name)
	}
	if len(servers) == 0 {
		return nil, noPrompt("agent %s has no MCP servers", root.Agent.Slug)
	}
	slices.Sort(servers)
	if server, _, ok := strings.Cut(name, "/"); ok {
		return nil, noPrompt("agent %s has no MCP server %q; it has %s", root.Agent.Slug, server, strings.Join(servers, ", "))
	}
	return nil, noPrompt("%q: want SERVER/NAME; the servers of agent %s are %s", name, root.Agent.Slug, strings.Join(servers, ", "))
}

// prompt returns the messages of a prompt of the server.
func (s *server) prompt(ctx context.Context, name string, args map[string]string) ([]agent.Message, error) {
	prompts, err := s.set.Prompts(ctx)
	i := slices.IndexFunc(prompts, func(p mcpclient.Prompt) bool { return p.Name == name })
	switch {
	case i < 0 && err != nil:
		return nil, err
	case i < 0:
		return nil, noPrompt("MCP server %s has no prompt %q%s", s.Name, name, promptList(prompts))
	}
	if err := fits(&prompts[i], args); err != nil {
		return nil, err
	}
	messages, err := s.set.Prompt(ctx, name, args)
	if err == nil && len(messages) == 0 {
		err = fmt.Errorf("MCP server %s: prompt %s: it has no messages", s.Name, name)
	}
	return messages, err
}

// fits compares args with the arguments of a prompt.
func fits(p *mcpclient.Prompt, args map[string]string) error {
	known := map[string]bool{}
	var missing []string
	for _, a := range p.Arguments {
		known[a.Name] = true
		if _, ok := args[a.Name]; a.Required && !ok {
			missing = append(missing, a.Name)
		}
	}
	if len(missing) > 0 {
		return noPrompt("prompt %s needs %s%s", p.Name, strings.Join(missing, " and "), argumentList(p))
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if !known[name] {
			return noPrompt("prompt %s has no argument %q%s", p.Name, name, argumentList(p))
		}
	}
	return nil
}

// argumentList is a clause with the arguments of a prompt, a line each.
func argumentList(p *mcpclient.Prompt) string {
	if len(p.Arguments) == 0 {
		return "; it takes none"
	}
	var b strings.Builder
	b.WriteString("; it takes")
	for _, a := range p.Arguments {
		fmt.Fprintf(&b, "\n  %s=", a.Name)
		if !a.Required {
			b.WriteString(" (optional)")
		}
		if a.Description != "" {
			b.WriteString("  " + strings.Join(strings.Fields(a.Description), " "))
		}
	}
	return b.String()
}

// promptList is a clause with the prompts of a server, a line each.
func promptList(prompts []mcpclient.Prompt) string {
	if len(prompts) == 0 {
		return "; it has none"
	}
	var b strings.Builder
	b.WriteString("; it has")
	for _, p := range prompts {
		fmt.Fprintf(&b, "\n  %s", p.Name)
		for _, a := range p.Arguments {
			if a.Required {
				fmt.Fprintf(&b, " %s=", a.Name)
			} else {
				fmt.Fprintf(&b, " [%s=]", a.Name)
			}
		}
		if p.Description != "" {
			b.WriteString("  " + strings.Join(strings.Fields(p.Description), " "))
		}
	}
	return b.String()
}
