package prompt

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/jsondoc"
	"github.com/urfave/cli/v3"
)

// Args are the flags for arguments of the agent in place of a prompt.
type Args struct {
	JSON  string   // of --args
	Pairs []string // of --arg
}

// Flags are the flags.
func (a *Args) Flags() []cli.Flag {
	const category = "prompt (in the order given)"
	return []cli.Flag{
		&cli.StringFlag{Name: "args", Category: category, Usage: "call the agent with the arguments in `JSON`, an object that fits its inputSchema, in place of a prompt; @FILE reads a file, - standard input", Destination: &a.JSON},
		&cli.StringSliceFlag{Name: "arg", Category: category, Usage: "one of these arguments, `NAME=VALUE`; repeatable", Destination: &a.Pairs},
	}
}

// Given reports whether there are any.
func (a *Args) Given() bool { return a.JSON != "" || len(a.Pairs) > 0 }

// Message is the prompt of the arguments of an agent, of which object makes one of
// NAME=VALUE pairs.
func (a *Args) Message(ctx context.Context, p *program.Env, of *agent.Agent, object func(agent.ToolSpec, []string) (string, error)) (agent.Message, error) {
	var text string
	var err error
	if a.JSON != "" {
		text, err = ReadJSON(ctx, p, "--args", a.JSON, agent.MaxArgsBytes)
	} else {
		text, err = object(agent.ToolSpec{Schema: of.ArgsSchema()}, a.Pairs)
	}
	if err != nil {
		return agent.Message{}, err
	}
	m, err := of.Prompt(ctx, text)
	if err != nil {
		return m, failure.Usage("`agents describe` prints what the agent takes", "call agent %s: %w", of.Slug, err)
	}
	return m, nil
}

// ReadJSON is the JSON of a flag: itself, that of @FILE, or with - of standard input.
func ReadJSON(ctx context.Context, p *program.Env, flag, value string, most int64) (string, error) {
	data := []byte(value)
	var err error
	if file, ok := strings.CutPrefix(value, "@"); ok {
		data, err = program.ReadFile(ctx, file, most)
	} else if value == "-" {
		data, err = program.Await(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(p.In, most+1)) })
	}
	if err != nil {
		return "", failure.NotRead(ctx, flag, err)
	}
	if _, err := jsondoc.Parse(data, jsondoc.Options{MaxBytes: int(most), MaxDepth: agent.MaxArgsDepth, Strict: true, Shallow: true}); err != nil {
		return "", failure.Usage("", "%s: %w", flag, err)
	}
	return string(data), nil
}

// Fitting makes a prompt that was given as text the message of an agent with an
// inputSchema.
func Fitting(ctx context.Context, of *agent.Agent, m agent.Message) (agent.Message, error) {
	if of.InputSchema == nil {
		return m, nil
	}
	args, err := json.Marshal(map[string]string{"prompt": m.Text()})
	if err != nil {
		return m, err
	}
	if _, err := of.Prompt(ctx, string(args)); err != nil {
		return m, failure.Usage("--args or --arg gives them; `agents describe` prints the schema", "agent %s takes other arguments than a prompt: %w", of.Slug, err)
	}
	return m, nil
}
