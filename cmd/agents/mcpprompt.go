package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/urfave/cli/v3"
)

// An mcpPrompt is a prompt of an MCP server, and what fills its gaps.
type mcpPrompt struct {
	name string
	args map[string]string
}

// arguments reads the arguments of the command, which belong to the prompt.
func (m *mcpPrompt) arguments(c *cli.Command) error {
	if m.name == "" {
		return noArguments(c)
	}
	m.args = map[string]string{}
	for _, arg := range c.Args().Slice() {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return usage("", "--mcp-prompt: %q: want NAME=VALUE", arg)
		}
		if _, twice := m.args[name]; twice {
			return usage("", "--mcp-prompt: the argument %s is there twice", name)
		}
		m.args[name] = value
	}
	return nil
}

// opening is the prompt, and the messages that come before it: those of
// --mcp-prompt but for its last, which what the other flags give follows.
func (f *promptFlags) opening(ctx context.Context, p *program, l *loaded) (prompt agent.Message, before []agent.Message, err error) {
	if f.mcp.name == "" {
		prompt, err = f.message(ctx, p, l)
		return prompt, nil, err
	}
	messages, err := l.Prompt(ctx, f.mcp.name, f.mcp.args)
	var wrong *agentfile.PromptError
	switch {
	case errors.As(err, &wrong):
		return prompt, nil, usage("", "--mcp-prompt: %w", err)
	case err != nil && ctx.Err() != nil:
		return prompt, nil, err
	case err != nil:
		return prompt, nil, nothingRan(fmt.Errorf("--mcp-prompt: %w", err), "")
	}
	if len(f.script) > 0 || len(f.media) > 0 {
		if prompt, err = f.added(ctx, p); err != nil {
			return prompt, nil, err
		}
	}
	if len(prompt.Parts) > 0 {
		messages = append(messages, prompt)
	}
	messages = together(messages)
	last := len(messages) - 1
	if messages[last].Role != agent.RoleUser {
		return prompt, nil, usage("say with --prompt what is to be done", "--mcp-prompt: %s ends with words of the model and asks nothing", f.mcp.name)
	}
	return messages[last], messages[:last], nil
}

// together makes one message of those of one role that follow each other: many
// models want the roles to take turns.
func together(messages []agent.Message) []agent.Message {
	var joined []agent.Message
	for _, m := range messages {
		last := len(joined) - 1
		if last < 0 || joined[last].Role != m.Role {
			m.Parts = slices.Clone(m.Parts)
			joined = append(joined, m)
			continue
		}
		parts := joined[last].Parts
		if n := len(parts); n > 0 && parts[n-1].Kind == agent.PartText && !strings.HasSuffix(parts[n-1].Text, "\n") {
			parts[n-1].Text += "\n"
		}
		joined[last].Parts = append(parts, m.Parts...)
	}
	return joined
}

// added is what the flags add to a prompt of a server.
func (f *promptFlags) added(ctx context.Context, p *program) (agent.Message, error) {
	m := agent.Message{Role: agent.RoleUser}
	if len(f.script) > 0 {
		text, err := f.script.render(ctx, p.in, p.err)
		if err != nil {
			return m, err
		}
		m.Parts = append(m.Parts, agent.Text(text))
	}
	media, err := attachments(ctx, f.media)
	m.Parts = append(m.Parts, media...)
	return m, err
}
