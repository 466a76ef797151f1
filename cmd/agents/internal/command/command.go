// Package command holds what commands share in reading their command line: flags,
// arguments and the messages about them.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/urfave/cli/v3"
)

// UsageError keeps the help text off stdout, where callers expect results.
func UsageError(_ context.Context, c *cli.Command, err error, _ bool) error {
	name := strings.TrimSpace(c.FullName())
	return failure.Usage(fmt.Sprintf("`%s --help` lists the flags", name), "%s: %s%s", name, wanted(twoDashes(err.Error())), similarFlag(c, err))
}

func similarFlag(c *cli.Command, err error) string {
	_, name, ok := strings.Cut(err.Error(), "flag provided but not defined: ")
	if !ok {
		return ""
	}
	var known []string
	for _, level := range c.Lineage() {
		for _, f := range level.Flags {
			for _, n := range f.Names() {
				if len(n) > 1 {
					known = append(known, "--"+n)
				}
			}
		}
	}
	name = "--" + strings.TrimLeft(name, "-")
	switch name {
	case "--http", "--port", "--addr", "--address", "--host": // of other commands and programs
		if slices.Contains(known, "--listen") {
			name = "--listen"
		}
	}
	return closest.Hint(name, known)
}

// wanted replaces the Go error in a message of the flag parser by what the value must
// be.
func wanted(message string) string {
	for _, of := range []struct{ said, want string }{
		{": strconv.ParseInt: ", "a whole number"},
		{": time: ", "a time such as 30s, 5m or 1h30m"},
		{": parse error", "true or false"},
	} {
		if head, _, ok := strings.Cut(message, of.said); ok && strings.HasPrefix(message, "invalid value ") {
			return head + ": want " + of.want
		}
	}
	return message
}

// twoDashes writes the flags in a message of the flag parser with two dashes.
func twoDashes(message string) string {
	for _, before := range []string{"for flag -", "not defined: -"} {
		head, name, ok := strings.Cut(message, before)
		end := strings.IndexByte(name+":", ':')
		if ok && !strings.HasPrefix(name, "-") && end > 1 {
			return head + before + "-" + name
		}
	}
	return message
}

// DidYouMean names the subcommand of c that name may stand for.
func DidYouMean(name string, c *cli.Command) string {
	var known []string
	for _, sub := range c.VisibleCommands() {
		known = append(known, sub.Names()...)
	}
	return closest.Hint(name, known)
}

// WithoutArguments is the action of a command that takes no arguments.
func WithoutArguments(do cli.ActionFunc) cli.ActionFunc {
	return func(ctx context.Context, c *cli.Command) error {
		if err := NoArguments(c); err != nil {
			return err
		}
		return do(ctx, c)
	}
}

// WithArgument is the action of a command that requires one argument; what names it.
func WithArgument(what string, do func(ctx context.Context, c *cli.Command, argument string) error) cli.ActionFunc {
	return func(ctx context.Context, c *cli.Command) error {
		argument, err := OneArgument(c, what)
		if err != nil {
			return err
		}
		return do(ctx, c, argument)
	}
}

// WithOptional is WithArgument for an argument that may be left out, and is "" then.
func WithOptional(what string, do func(ctx context.Context, c *cli.Command, argument string) error) cli.ActionFunc {
	return func(ctx context.Context, c *cli.Command) error {
		if c.NArg() == 0 {
			return do(ctx, c, "")
		}
		return WithArgument(what, do)(ctx, c)
	}
}

func NoArguments(c *cli.Command) error {
	if c.Args().Present() {
		hint := fmt.Sprintf("`%s --help` lists the flags", c.FullName())
		if jsondoc.HasName(c.Args().First()) {
			hint = "an agent file is given with --agent-file"
		}
		return failure.Usage(hint, "%s: unexpected argument %q", c.FullName(), c.Args().First())
	}
	return nil
}

// Given returns those of the arguments args of c that are flags, with their values.
func Given(args []string, c *cli.Command, flags []cli.Flag) []string {
	find := func(list []cli.Flag, name string) cli.Flag {
		i := slices.IndexFunc(list, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
		if i < 0 {
			return nil
		}
		return list[i]
	}
	var given []string
	for len(args) > 0 {
		name, _, inline := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		n := 1
		f := find(slices.Concat(c.Flags, c.Root().Flags), name)
		if d, ok := f.(cli.DocGenerationFlag); ok && d.TakesValue() && !inline && strings.HasPrefix(args[0], "-") {
			n = min(2, len(args))
		}
		if strings.HasPrefix(args[0], "-") && find(flags, name) != nil {
			given = append(given, args[:n]...)
		}
		args = args[n:]
	}
	return given
}

// GlobalFlags stand before or after the command.
func GlobalFlags(g *program.Flags) []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "agent-file", Usage: "root agent `FILE`, repeatable; replaces what the configuration finds", Destination: &g.AgentFiles},
		&cli.StringFlag{Name: "agent", Aliases: []string{"a"}, Usage: "pick the loaded agent `SLUG`", Destination: &g.Agent},
		&cli.StringFlag{Name: "api-keys", Usage: "keys `FILE`", Destination: &g.APIKeys},
		&cli.BoolFlag{Name: "locked", Usage: "refuse agents that differ from agents.lock", Destination: &g.Locked},
		&cli.StringFlag{Name: "log-json-file", Usage: "append every event to `FILE` as a line of JSON", Destination: &g.LogJSON},
		&cli.StringFlag{Name: "log-http", Usage: "post every event to `URL`", Destination: &g.LogHTTP},
		&cli.StringFlag{Name: "log-file", Usage: "append a readable log to `FILE`", Destination: &g.LogText},
		&cli.StringFlag{Name: "transcript", Usage: "keep each conversation, those of sub-agents too, as a text file in the folder `DIR`", Destination: &g.Transcript},
		&cli.BoolFlag{Name: "quiet", Usage: "no progress on stderr", Destination: &g.Quiet},
		&cli.StringFlag{Name: "color", Value: "auto", Usage: "`WHEN` to use color: auto, always or never", Destination: &g.Color, Validator: OneOf("auto", "always", "never")},
	}
}

func CompatNamesFlag(g *program.Flags) cli.Flag {
	return &cli.BoolFlag{Name: "compat-names", Usage: "name sub-agents as agents-exe does: io_prompt_agent_SLUG, with the argument what", Destination: &g.CompatNames}
}

func OneOf(values ...string) func(string) error {
	return func(s string) error {
		if slices.Contains(values, s) {
			return nil
		}
		return &ChoiceError{Values: values}
	}
}

// Dashes is a flag with its dashes.
func Dashes(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// A ChoiceError is that a value is none of Values. Text may say it in other words.
type ChoiceError struct {
	Values []string
	Text   string
}

func (e *ChoiceError) Error() string {
	return cmp.Or(e.Text, "must be one of "+strings.Join(e.Values, ", "))
}

// SetFlag is --set, which collects NAME=VALUE. A value may hold anything.
func SetFlag(usage string, values *map[string]string) cli.Flag {
	add := func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return errors.New("want NAME=VALUE")
		}
		if *values == nil {
			*values = map[string]string{}
		}
		(*values)[name] = value
		return nil
	}
	return &cli.GenericFlag{Name: "set", Usage: usage, Value: &program.Repeatable{Add: add}}
}

// Group makes c a command that only has subcommands.
func Group(c *cli.Command) *cli.Command {
	c.Action = func(_ context.Context, c *cli.Command) error {
		hint := fmt.Sprintf("`%s --help` lists the commands", c.FullName())
		if name := c.Args().First(); name != "" {
			return failure.Usage(hint, "%s: there is no command %q%s", c.FullName(), name, DidYouMean(name, c))
		}
		return failure.Usage(hint, "%s: no command given", c.FullName())
	}
	return c
}

// OneArgument returns the one argument of c, which is required.
func OneArgument(c *cli.Command, what string) (string, error) {
	hint := fmt.Sprintf("`%s --help` says more", c.FullName())
	switch {
	case c.Args().First() == "":
		return "", failure.Usage(hint, "%s: %s is missing", c.FullName(), what)
	case c.NArg() > 1:
		return "", failure.Usage(hint, "%s: unexpected argument %q", c.FullName(), c.Args().Get(1))
	}
	return c.Args().First(), nil
}

// BudgetFlag is --budget.
func BudgetFlag(usage string, b *agent.Budget) cli.Flag {
	return &cli.GenericFlag{Name: "budget", Usage: usage, Value: &program.Repeatable{Add: func(s string) error { return AddBudget(b, s) }}}
}

// AddBudget sets what s names in b: AMOUNT=NUMBER, separated by commas.
func AddBudget(b *agent.Budget, s string) error {
	for amount := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(amount), "=")
		if !ok || name == "" {
			return errors.New("want AMOUNT=NUMBER, as usd=2,seconds=600")
		}
		if err := b.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}
