package prompt

import (
	"context"
	"errors"
	"fmt"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
)

// Opening is the prompt, and the messages that come before it: those of
// --mcp-prompt except the last, to which the other flags add.
func (f *Flags) Opening(ctx context.Context, p *program.Env, l *load.Tree) (prompt agent.Message, before []agent.Message, err error) {
	if f.MCP.Name == "" {
		prompt, err = f.Message(ctx, p, l)
		return prompt, nil, err
	}
	messages, err := l.Prompt(ctx, f.MCP.Name, f.MCP.args)
	var wrong *agentfile.PromptError
	switch {
	case errors.As(err, &wrong):
		return prompt, nil, failure.Usage("", "--mcp-prompt: %w", err)
	case err != nil && ctx.Err() != nil:
		return prompt, nil, err
	case err != nil:
		return prompt, nil, failure.NothingRan(fmt.Errorf("--mcp-prompt: %w", err), "")
	}
	if len(f.Script) > 0 || len(f.Media) > 0 {
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
		return prompt, nil, failure.Usage("say with --prompt what is to be done", "--mcp-prompt: %s ends with words of the model and asks nothing", f.MCP.Name)
	}
	return messages[last], messages[:last], nil
}

// added is what the flags add to a prompt of a server.
func (f *Flags) added(ctx context.Context, p *program.Env) (agent.Message, error) {
	m := agent.Message{Role: agent.RoleUser}
	if len(f.Script) > 0 {
		text, err := f.Script.Render(ctx, p)
		if err != nil {
			return m, err
		}
		m.Parts = append(m.Parts, agent.Text(text))
	}
	media, err := Attachments(ctx, f.Media)
	m.Parts = append(m.Parts, media...)
	return m, err
}

// Flags are the flags of a prompt and its attachments.
type Flags struct {
	Script Script
	Media  []string
	Alias  string
	MCP    mcpPrompt
}

func (f *Flags) Given() bool {
	return len(f.Script) > 0 || len(f.Media) > 0 || f.Alias != "" || f.MCP.Name != ""
}

// Message is the prompt with what is attached to it.
func (f *Flags) Message(ctx context.Context, p *program.Env, l *load.Tree) (agent.Message, error) {
	text, err := f.Script.Render(ctx, p)
	if err != nil {
		return agent.Message{}, err
	}
	if f.Alias != "" {
		if text, err = applyAlias(f.Alias, l.Config.File.Aliases, f.Script, text); err != nil {
			return agent.Message{}, err
		}
	}
	media, err := Attachments(ctx, f.Media)
	if err != nil {
		return agent.Message{}, err
	}
	message := agent.UserText(text)
	message.Parts = append(message.Parts, media...)
	return message, nil
}
