// Package call makes single calls of tools for commands, as a run would.
package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// Find returns the tool that a name or a path means, and the tree that is loaded
// for it with o. For a path it is a tree without a root.
func Find(ctx context.Context, p *program.Env, name string, o load.Options) (agent.Tool, *load.Tree, error) {
	info, statErr := os.Stat(name)
	if process.IsPath(name) || statErr == nil && info.Mode().IsRegular() {
		l, err := load.Rootless(ctx, p)
		if err != nil {
			return nil, nil, err
		}
		t, err := load.OpenTool(ctx, p, name)
		if err != nil {
			return nil, nil, errors.Join(err, l.Close())
		}
		return schema.Checked(t), l, nil
	}
	o.NoModels, o.Elicit = true, ask.NewPerson(p).Asked()
	l, err := load.Load(ctx, p, o)
	if err != nil {
		return nil, nil, err
	}
	tool, err := namedTool(ctx, l, name)
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return tool, l, nil
}

// namedTool is the root agent's tool of this name. Sub-agents are none: they need a
// model.
func namedTool(ctx context.Context, l *load.Tree, name string) (agent.Tool, error) {
	var names []string
	for _, set := range l.Root.Toolsets {
		tools, err := set.Tools(ctx)
		if err != nil {
			return nil, failure.NothingRan(fmt.Errorf("tools of agent %s: %w", l.Root.Slug, err), "")
		}
		for _, t := range tools {
			spec := t.Spec()
			match := spec.Name == name || spec.Name == toolname.Join("bash", name)
			switch {
			case match && spec.Agent != "":
				return nil, failure.Usage("ask it with `agents run --agent-file "+spec.Source+"`", "tool call: %s is an agent and needs its model", name)
			case match:
				return t, nil
			case spec.Agent == "":
				names = append(names, spec.Name)
			}
		}
	}
	if len(names) == 0 {
		return nil, failure.Usage("a path to an executable works too: ./"+name, "tool call: there is no tool %q: agent %s has none", name, l.Root.Slug)
	}
	return nil, failure.Usage("a path to an executable works too: ./"+name, "tool call: agent %s has no tool %q; it has %s", l.Root.Slug, name, strings.Join(names, ", "))
}

// Run makes one call of a tool, as a run would, and prints its result.
func Run(ctx context.Context, p *program.Env, tree *load.Tree, tool agent.Tool, args string, yes bool) error {
	spec := tool.Spec()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h := host.New(tree.Tree)
	h.Person = ask.NewApprover(p, ask.NewPerson(p), yes, cancel).Answer
	result, err := h.Call(ctx, tool, args, host.CallOptions{Caller: cmp.Or(tree.Root, &agent.Agent{})})
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("call %s: %w", spec.Name, context.Cause(ctx))
	case err != nil:
		if said := strings.TrimSpace(result.Text()); said != "" {
			fmt.Fprintln(p.Err, termtext.Clean(said))
		}
		return &failure.Error{Code: failure.ExitFailed, Err: fmt.Errorf("call %s: %w", spec.Name, err)}
	}
	return printResult(p, spec.Name, result)
}

// Check reports whether the arguments are valid for a tool; errors call the tool what.
func Check(ctx context.Context, p *program.Env, tool agent.Tool, what, args string) error {
	inv := &agent.Invocation{Call: agent.ToolCall{Name: tool.Spec().Name, Args: args}, Spec: tool.Spec()}
	_, err := inv.Args()
	if err == nil {
		err = schema.Checked(tool).(agent.Validator).Validate(ctx, inv)
	}
	if err != nil {
		return &failure.Error{Code: failure.ExitFailed, Err: fmt.Errorf("check the arguments of %s: %w", what, err)}
	}
	return p.Print("the arguments fit\n")
}

// ReadArgs reads JSON arguments from standard input, at most one byte over the limit: longer ones
// are refused when they are decoded.
func ReadArgs(ctx context.Context, p *program.Env) (string, error) {
	data, err := program.Await(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(p.In, agent.MaxArgsBytes+1)) })
	if err != nil {
		return "", failure.NotRead(ctx, "read the arguments from standard input", err)
	}
	return string(data), nil
}

// printResult writes what the tool gave back: an attachment as its bytes, any
// other result as its text. What is said beside an attachment goes to stderr.
func printResult(p *program.Env, name string, r agent.Result) error {
	text := p.Out
	for _, part := range r.Parts {
		if part.Kind == agent.PartMedia {
			text = p.Err
		}
	}
	for _, part := range r.Parts {
		var err error
		switch {
		case part.Kind == agent.PartMedia && p.OutTerm:
			return &failure.Error{Code: failure.ExitFailed, Err: fmt.Errorf("call %s: the result is %d bytes of %s, which are not for a terminal", name, len(part.Data), part.MIME), Hint: "write it to a file: > FILE"}
		case part.Kind == agent.PartMedia:
			_, err = p.Out.Write(part.Data)
		case text == p.Err:
			_, err = fmt.Fprintln(p.Err, termtext.Clean(part.Text))
		case p.OutTerm:
			_, err = io.WriteString(p.Out, strings.TrimSuffix(termtext.Clean(part.Text), "\n")+"\n")
		default:
			_, err = io.WriteString(p.Out, part.Text)
		}
		if err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
	}
	return nil
}
