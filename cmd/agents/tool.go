package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/exectool"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/urfave/cli/v3"
)

func toolDescribeCommand(p *program) *cli.Command {
	return &cli.Command{
		ArgsUsage: "PATH",
		Description: `The description is printed with the defaults filled in. Notes for the tool's
author go to stderr. A description that cannot be used is an error, exit code 2.`,
		Action: func(ctx context.Context, c *cli.Command) error {
			path, err := oneArgument(c, "the tool's file")
			if err != nil {
				return err
			}
			return p.toolDescribe(ctx, path)
		},
	}
}

func toolCallCommand(p *program) *cli.Command {
	var args []string
	return &cli.Command{
		ArgsUsage: "NAME-or-PATH",
		Description: `A path, or the name of a file here, is an executable. Any other name is that of
a tool of the loaded agent, with or without bash_ before it.

The arguments are one JSON object on standard input, or --arg, which is then not
read. They are checked as in a run. The result is printed as it is, cut where a
model would see it cut; an attachment is printed as its bytes. A call that fails
prints what the tool said on stderr, exit code 1.`,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "arg", Usage: "an argument as `NAME=VALUE`, repeatable; what the tool wants as a string is taken as it is, anything else is JSON", Destination: &args},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			name, err := oneArgument(c, "the name of a tool or its file")
			if err != nil {
				return err
			}
			return p.toolCall(ctx, name, args)
		},
	}
}

// group makes c a command that only holds others.
func group(c *cli.Command) *cli.Command {
	c.Action = func(_ context.Context, c *cli.Command) error {
		hint := fmt.Sprintf("`%s --help` lists the commands", c.FullName())
		if name := c.Args().First(); name != "" {
			return usage(hint, "%s: there is no command %q%s", c.FullName(), name, didYouMean(name, c))
		}
		return usage(hint, "%s: no command given", c.FullName())
	}
	return c
}

// oneArgument is the only argument of c, which must be there.
func oneArgument(c *cli.Command, what string) (string, error) {
	hint := fmt.Sprintf("`%s --help` says more", c.FullName())
	switch {
	case c.Args().First() == "":
		return "", usage(hint, "%s: %s is missing", c.FullName(), what)
	case c.NArg() > 1:
		return "", usage(hint, "%s: unexpected argument %q", c.FullName(), c.Args().Get(1))
	}
	return c.Args().First(), nil
}

// openTool describes the executable at path. Its description is never taken from
// the cache: whoever works on a tool changes it.
func (p *program) openTool(ctx context.Context, path string) (*exectool.Tool, error) {
	set, err := exectool.Open(ctx, []exectool.Source{{Path: path}}, exectool.Options{Environ: p.environ, DescribeTimeout: p.describing})
	if err != nil {
		return nil, err
	}
	if list := set.List(); len(list) == 1 {
		return list[0], nil
	}
	if problems := set.Problems(); len(problems) > 0 {
		return nil, nothingRan(problems[0].Err, toolHint(problems[0].Err))
	}
	return nil, usage("", "%s: this is a folder; name a file in it", path)
}

func toolHint(err error) string {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "`agents check --tools list` names the tools of an agent"
	case errors.Is(err, exectool.ErrWritable):
		return "take the right to write away from others: chmod o-w"
	}
	return "docs/tools.md describes what a tool answers"
}

func (p *program) toolDescribe(ctx context.Context, path string) error {
	t, err := p.openTool(ctx, path)
	if err != nil {
		return err
	}
	d, err := t.Description()
	if err != nil {
		return nothingRan(fmt.Errorf("describe %s: %w", path, err), toolHint(err))
	}
	for _, note := range t.Notes() {
		fmt.Fprintf(p.err, "note: %s: %s\n", observe.Clean(path), observe.Clean(note))
	}
	return p.writeJSON(asChecked(d))
}

// asChecked is a description with everything in it that a reader of the tool's own
// output takes as understood.
func asChecked(d *exectool.Description) description {
	out := description{
		Slug: d.Slug, Description: d.Description, Args: []describedArg{}, MediaType: d.MediaType,
		Effects: d.Effects, Locks: d.Locks, Timeout: d.Timeout.Seconds(),
	}
	if out.Effects == "" {
		out.Effects = agent.EffectsOnce
	}
	if d.Empty != "" {
		out.Empty = &describedMessage{"AddMessage", d.Empty}
	}
	for _, a := range d.Args {
		arity := "single"
		if a.Optional {
			arity = "optional"
		}
		out.Args = append(out.Args, describedArg{
			Name: a.Name, Description: a.Description, Type: a.Type, Backing: a.Backing, Arity: arity, Mode: string(a.Mode),
			AllowDash: a.AllowDash, Enum: a.Enum, Default: a.Default, Items: a.Items,
		})
	}
	return out
}

func (p *program) toolCall(ctx context.Context, name string, pairs []string) error {
	tool, owner, done, err := p.findTool(ctx, name)
	if err != nil {
		return err
	}
	defer done()
	spec := tool.Spec()
	args, err := p.callArgs(ctx, spec, pairs)
	if err != nil {
		return err
	}
	session := rand.Text()
	inv := &agent.Invocation{
		Call: agent.ToolCall{ID: "call", Name: spec.Name, Args: args}, Spec: spec,
		Key: session + ".1.1", Session: session, Agent: owner, Turn: 1,
	}
	result, err := tool.Call(ctx, inv)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("call %s: %w", spec.Name, context.Cause(ctx))
	case err != nil:
		if said := strings.TrimSpace(result.Text()); said != "" {
			fmt.Fprintln(p.err, observe.Clean(said))
		}
		return &failure{code: exitFailed, err: fmt.Errorf("call %s: %w", spec.Name, err)}
	}
	return p.printResult(spec.Name, result)
}

// findTool is the tool that a name or a path means, and the slug of its agent.
// done releases what was loaded for it.
func (p *program) findTool(ctx context.Context, name string) (tool agent.Tool, owner string, done func() error, err error) {
	info, statErr := os.Stat(name)
	if strings.Contains(name, "/") || statErr == nil && info.Mode().IsRegular() {
		t, err := p.openTool(ctx, name)
		if err != nil {
			return nil, "", nil, err
		}
		return schema.Checked(t), "", func() error { return nil }, nil
	}
	l, err := p.load(ctx, loadOptions{noModels: true, elicit: p.newPerson().asked()})
	if err != nil {
		return nil, "", nil, err
	}
	tool, err = namedTool(ctx, l, name)
	if err != nil {
		return nil, "", nil, errors.Join(err, l.Close())
	}
	return tool, l.Root.Slug, l.Close, nil
}

// namedTool is the root agent's tool of this name. Sub-agents are none: they need a
// model.
func namedTool(ctx context.Context, l *loaded, name string) (agent.Tool, error) {
	var names []string
	for _, set := range l.Root.Toolsets {
		tools, err := set.Tools(ctx)
		if err != nil {
			return nil, nothingRan(fmt.Errorf("tools of agent %s: %w", l.Root.Slug, err), "")
		}
		for _, t := range tools {
			spec := t.Spec()
			match := spec.Name == name || spec.Name == exectool.Name("bash", name)
			switch {
			case match && spec.Agent != "":
				return nil, usage("ask it with `agents run --agent-file "+spec.Source+"`", "tool call: %s is an agent and needs its model", name)
			case match:
				return t, nil
			case spec.Agent == "":
				names = append(names, spec.Name)
			}
		}
	}
	if len(names) == 0 {
		return nil, usage("a path to an executable works too: ./"+name, "tool call: there is no tool %q: agent %s has none", name, l.Root.Slug)
	}
	return nil, usage("a path to an executable works too: ./"+name, "tool call: agent %s has no tool %q; it has %s", l.Root.Slug, name, strings.Join(names, ", "))
}

// callArgs is the JSON object of the arguments. Nothing is asked of a person who
// gave none: they are told what is missing.
func (p *program) callArgs(ctx context.Context, spec agent.ToolSpec, pairs []string) (string, error) {
	if len(pairs) > 0 {
		return pairArgs(spec, pairs)
	}
	if p.inTerm {
		return "{}", nil
	}
	data, err := await(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(p.in, agent.MaxArgsBytes+1)) })
	if err != nil {
		return "", notRead(ctx, "read the arguments from standard input", err)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return "{}", nil
	}
	return string(data), nil
}

// pairArgs makes an object of NAME=VALUE pairs, in their order.
func pairArgs(spec agent.ToolSpec, pairs []string) (string, error) {
	var doc struct {
		Properties map[string]struct{ Type any }
	}
	_ = json.Unmarshal(spec.Schema, &doc) // of a schema that is none, every value is a string
	var b strings.Builder
	separator := "{"
	seen := map[string]bool{}
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return "", usage("", "--arg %q: want NAME=VALUE", pair)
		}
		if !utf8.ValidString(pair) {
			return "", usage("put other bytes into a file and give the tool its name", "--arg %s: the value is not UTF-8", name)
		}
		if seen[name] {
			return "", usage("give a list as one JSON array", "--arg %s: it is there twice", name)
		}
		seen[name] = true
		value := []byte(text)
		kind, _ := doc.Properties[name].Type.(string)
		switch property, known := doc.Properties[name]; {
		case !known || kind == "string", property.Type == nil && !json.Valid(value):
			value = quoteJSON(text)
		case !json.Valid(value):
			return "", usage("", "--arg %s: %q is no JSON; the tool wants a value of type %v", name, text, property.Type)
		}
		b.WriteString(separator)
		separator = ","
		b.Write(quoteJSON(name))
		b.WriteByte(':')
		b.Write(value)
	}
	return b.String() + "}", nil
}

// quoteJSON is s as a JSON string.
func quoteJSON(s string) []byte {
	text, _ := json.Marshal(s) // a string always encodes
	return text
}

// printResult writes what the tool gave back: an attachment as its bytes, any
// other result as its text. What is said beside an attachment goes to stderr.
func (p *program) printResult(name string, r agent.Result) error {
	text := p.out
	for _, part := range r.Parts {
		if part.Kind == agent.PartMedia {
			text = p.err
		}
	}
	for _, part := range r.Parts {
		var err error
		switch {
		case part.Kind == agent.PartMedia && p.outTerm:
			return &failure{code: exitFailed, err: fmt.Errorf("call %s: the result is %d bytes of %s, which are not for a terminal", name, len(part.Data), part.MIME), hint: "write it to a file: > FILE"}
		case part.Kind == agent.PartMedia:
			_, err = p.out.Write(part.Data)
		case text == p.err:
			_, err = fmt.Fprintln(p.err, observe.Clean(part.Text))
		case p.outTerm:
			_, err = io.WriteString(p.out, strings.TrimSuffix(observe.Clean(part.Text), "\n")+"\n")
		default:
			_, err = io.WriteString(p.out, part.Text)
		}
		if err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
	}
	return nil
}
