package prompt

import (
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/urfave/cli/v3"
)

type mcpPrompt struct {
	Name string
	args map[string]string
}

// Arguments reads the arguments of the command: the words of the prompt, or what
// belongs to --mcp-prompt.
func (f *Flags) Arguments(c *cli.Command) error {
	m := &f.MCP
	if m.Name == "" {
		return f.Script.Words(c)
	}
	m.args = map[string]string{}
	for _, arg := range c.Args().Slice() {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return failure.Usage("", "--mcp-prompt: %q: want NAME=VALUE", arg)
		}
		if _, twice := m.args[name]; twice {
			return failure.Usage("", "--mcp-prompt: the argument %s is there twice", name)
		}
		m.args[name] = value
	}
	return nil
}

// together makes one message of those of one role that follow each other: many
// models require alternating roles.
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
