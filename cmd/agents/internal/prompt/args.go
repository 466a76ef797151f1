package prompt

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/urfave/cli/v3"
)

// Args are the flags for arguments of the agent in place of a prompt.
type Args struct {
	JSON  string   // of --args
	Pairs []string // of --arg
}

func (a *Args) Flags() []cli.Flag {
	const category = "prompt (in the order given)"
	return []cli.Flag{
		&cli.StringFlag{Name: "args", Category: category, Usage: "call the agent with the arguments in `JSON`, an object that fits its inputSchema, in place of a prompt; @FILE reads a file, - standard input", Destination: &a.JSON},
		&cli.StringSliceFlag{Name: "arg", Category: category, Usage: "one of these arguments, `NAME=VALUE`; repeatable", Destination: &a.Pairs},
	}
}

// Given reports whether there are any.
func (a *Args) Given() bool { return a.JSON != "" || len(a.Pairs) > 0 }

// Text is the arguments as a JSON object.
func (a *Args) Text(ctx context.Context, p *program.Env, of *agent.Agent) (string, error) {
	if a.JSON != "" {
		return ReadJSON(ctx, p, "--args", a.JSON, agent.MaxArgsBytes)
	}
	return Pairs(of.ArgsSchema(), a.Pairs)
}

// Message is the prompt for an agent with these arguments.
func (a *Args) Message(ctx context.Context, p *program.Env, of *agent.Agent) (agent.Message, error) {
	text, err := a.Text(ctx, p, of)
	if err != nil {
		return agent.Message{}, err
	}
	m, err := of.Prompt(ctx, text)
	if err != nil {
		return m, failure.Usage("`agents describe` prints what the agent takes", "call agent %s: %w", of.Slug, err)
	}
	return m, nil
}

// Pairs makes an object of NAME=VALUE pairs, in their order. A value is JSON if the schema of
// the arguments does not want a text there.
func Pairs(schema json.RawMessage, pairs []string) (string, error) {
	var doc struct {
		Properties map[string]struct{ Type any }
	}
	_ = json.Unmarshal(schema, &doc) // of a schema that is none, every value is a string
	var b strings.Builder
	separator := "{"
	seen := map[string]bool{}
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return "", failure.Usage("", "--arg %q: want NAME=VALUE", pair)
		}
		if !utf8.ValidString(pair) {
			return "", failure.Usage("put other bytes into a file and give the tool its name", "--arg %s: the value is not UTF-8", name)
		}
		if seen[name] {
			return "", failure.Usage("give a list as one JSON array", "--arg %s: it is there twice", name)
		}
		seen[name] = true
		value := []byte(text)
		kind, _ := doc.Properties[name].Type.(string)
		switch property, known := doc.Properties[name]; {
		case !known || kind == "string", property.Type == nil && !json.Valid(value):
			value = program.QuoteJSON(text)
		case !json.Valid(value):
			return "", failure.Usage("", "--arg %s: %q is not JSON; the tool wants a value of type %v", name, text, property.Type)
		}
		b.WriteString(separator)
		separator = ","
		b.Write(program.QuoteJSON(name))
		b.WriteByte(':')
		b.Write(value)
	}
	return b.String() + "}", nil
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

// Needed returns an error that names the arguments without which the agent cannot be
// called, if they are others than a prompt; nil if there are none.
func Needed(of *agent.Agent) error {
	var schema struct{ Required []string }
	_ = json.Unmarshal(of.ArgsSchema(), &schema) // of a schema that is none, there are none
	if of.InputSchema == nil || len(schema.Required) == 0 || slices.Equal(schema.Required, []string{"prompt"}) {
		return nil
	}
	return failure.Usage("--arg NAME=VALUE or --args JSON gives them; `agents describe` prints the schema", "agent %s needs arguments: %s", of.Slug, strings.Join(schema.Required, ", "))
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
