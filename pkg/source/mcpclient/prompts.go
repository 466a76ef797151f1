package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

const maxPrompts = 1000

// A Prompt is a text with gaps that a server offers.
type Prompt struct {
	Name        string           `json:"name"`
	Title       string           `json:"title"`
	Description string           `json:"description"`
	Arguments   []PromptArgument `json:"arguments"`
}

// A PromptArgument is a gap in a Prompt.
type PromptArgument struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

// Prompts returns the server's prompts, sorted by name. It starts the server if
// need be. Prompts and an error may both come back.
func (s *Toolset) Prompts(ctx context.Context) ([]Prompt, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, _, cancel := newCallTimer(ctx, s.server.callTimeout())
	defer cancel()
	if c.caps.Prompts == nil {
		return nil, nil
	}
	items, err := c.pages(ctx, mcp.MethodPromptsList, "prompts", maxPrompts)
	if err != nil {
		err = s.named(fmt.Errorf("list its prompts: %w", err))
	}
	var prompts []Prompt
	for _, raw := range items {
		var p Prompt
		if decodeErr := jsonrpc.Unmarshal(raw, &p); decodeErr != nil || p.Name == "" {
			err = errors.Join(err, s.named(fmt.Errorf("a prompt cannot be read: %s", clip(string(raw), 200))))
			continue
		}
		prompts = append(prompts, p)
	}
	slices.SortStableFunc(prompts, func(a, b Prompt) int { return strings.Compare(a.Name, b.Name) })
	return prompts, err
}

// Prompt returns the messages of a prompt with args in its gaps.
func (s *Toolset) Prompt(ctx context.Context, name string, args map[string]string) ([]agent.Message, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, timer, cancel := newCallTimer(ctx, s.server.callTimeout())
	defer cancel()
	raw, err := c.invoke(ctx, timer, nil, mcp.MethodPromptsGet, map[string]any{"name": name, "arguments": args})
	if err != nil {
		return nil, s.named(fmt.Errorf("prompt %s: %w", name, err))
	}
	var result struct {
		Messages []struct {
			Role    agent.Role      `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := jsonrpc.Unmarshal(raw, &result); err != nil {
		return nil, s.named(fmt.Errorf("prompt %s: %w", name, err))
	}
	var messages []agent.Message
	for _, m := range result.Messages {
		if m.Role != agent.RoleUser && m.Role != agent.RoleAssistant {
			return nil, s.named(fmt.Errorf("prompt %s: a message has the role %q", name, clip(string(m.Role), 50)))
		}
		messages = append(messages, agent.Message{Role: m.Role, Parts: contentParts(m.Content)})
	}
	return messages, nil
}
