// Package compat implements the commands of agents-exe that have other names here, with
// their flags in agents-exe. Output for programs has the format of agents-exe; output for
// people is that of the commands that replace them.
package compat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/call"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/docs"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/urfave/cli/v3"
)

// deprecated is the note of a command in its help.
func deprecated(use string) string {
	return "Deprecated: this command exists for scripts written for agents-exe. Use `agents " + use + "` instead."
}

// rerun runs another command of this program with args, and returns what it wrote to
// standard output.
func rerun(ctx context.Context, p *program.Env, c *cli.Command, name string, args ...string) (string, error) {
	words := strings.Fields(name)
	target := c.Root()
	for _, word := range words {
		target = target.Command(word)
	}
	var out bytes.Buffer
	stdout, terminal := p.Out, p.OutTerm
	p.Out, p.OutTerm = &out, false
	defer func() { p.Out, p.OutTerm = stdout, terminal }()
	err := target.Run(ctx, append([]string{words[len(words)-1]}, args...))
	return out.String(), err
}

// noEffect returns flags that scripts may pass and that have no effect here.
func noEffect(names ...string) []cli.Flag {
	var flags []cli.Flag
	for _, name := range names {
		flags = append(flags, &cli.BoolFlag{Name: name, Usage: "without effect"})
	}
	return flags
}

func Spec(p *program.Env) *cli.Command {
	return &cli.Command{
		ArgsUsage:   "bash-tools",
		Description: deprecated("help tools"),
		Action: func(_ context.Context, c *cli.Command) error {
			if c.NArg() != 1 || c.Args().First() != "bash-tools" {
				return failure.Usage("`agents --help` lists the commands", "spec: the only topic is bash-tools")
			}
			page, err := docs.Read("tools")
			if err != nil {
				return err
			}
			return p.Print(string(page))
		},
	}
}

func Config(p *program.Env) *cli.Command {
	var force bool
	return &cli.Command{
		ArgsUsage: "local init | api-key list | api-key create NAME",
		Description: deprecated("keys") + `
"local init" writes a minimal agents-exe.cfg.json. "api-key create" reads the key from the
terminal or standard input, as "agents keys set" does.`,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "overwrite what exists", Destination: &force}},
		Action: func(ctx context.Context, c *cli.Command) error {
			words := append(c.Args().Slice(), "", "", "")
			command := map[string]string{"api-key list": "keys list", "api-key create": "keys set"}[words[0]+" "+words[1]]
			switch {
			case words[0] == "local" && words[1] == "init":
				return writeConfig(force)
			case command != "":
				text, err := rerun(ctx, p, c, command, c.Args().Slice()[2:]...)
				return errors.Join(p.Print(text), err)
			case words[0] == "":
				return failure.Usage("`agents config --help` lists the subcommands", "config: the subcommand is missing")
			case words[0] == "keymap":
				return failure.Usage("`agents help tui` describes tui-keys.json", "config keymap: the file with the keys of the terminal interface has a different format here")
			}
			return failure.Usage("`agents config --help` lists the subcommands", "config: there is no subcommand %q", strings.Join(c.Args().Slice(), " "))
		},
	}
}

func writeConfig(force bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(config.FileName, flags, 0o644)
	if err != nil {
		return failure.NothingRan(fmt.Errorf("config local init: %w", err), "--force overwrites it")
	}
	_, err = io.WriteString(f, "{\n  \"agentsConfigDir\": \"~/.config/agents-exe\",\n  \"agentsFiles\": []\n}\n")
	return errors.Join(err, f.Close())
}

func ToolCall(p *program.Env) *cli.Command {
	var log string
	return &cli.Command{
		ArgsUsage: "TOOLNAME",
		Description: deprecated("tool call") + `
Reads the arguments, a JSON object, from standard input. Prints a JSON object with resultData,
resultDuration and resultTraceId. The exit code is 0 even if the call fails.`,
		Flags: []cli.Flag{&cli.StringFlag{Name: "l", Usage: "the same as --log-file `FILE`", Destination: &log}},
		Action: command.WithArgument("the name of the tool", func(ctx context.Context, c *cli.Command, name string) error {
			if log != "" {
				p.Global.LogText = log
			}
			began := time.Now()
			text, err := rerun(ctx, p, c, "tool call", name)
			result := map[string]any{"type": "blob", "data": text}
			if failed, ok := errors.AsType[*failure.Error](err); ok && failed.Code == failure.ExitFailed {
				result = map[string]any{"type": "error", "error": err.Error()}
			} else if err != nil {
				return err
			}
			return p.WriteJSON(map[string]any{"resultData": result, "resultDuration": time.Since(began).Seconds(), "resultTraceId": began.UTC().Format(time.RFC3339Nano)})
		}),
	}
}

func DescribeTool(p *program.Env) *cli.Command {
	var check bool
	return &cli.Command{
		ArgsUsage:   "TOOLPATH",
		Description: deprecated("tool describe"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: "json", Usage: "`FORM`: json, or pretty, which is the same here", Validator: command.OneOf("json", "pretty")},
			&cli.BoolFlag{Name: "check-only", Usage: "only check the description", Destination: &check},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			text, err := rerun(ctx, p, c, "tool describe", c.Args().Slice()...)
			if err == nil && check {
				text = c.Args().First() + ": the description is valid\n"
			}
			return errors.Join(p.Print(text), err)
		},
	}
}

func CheckToolCall(p *program.Env) *cli.Command {
	var path string
	return &cli.Command{
		Description: `Compares the arguments on standard input, a JSON object, with the schema of a tool. The tool
is only executed with "describe". The exit code is 1 if the arguments do not fit. In a run, and in
"agents tool call", each call is checked in this way.`,
		Flags: []cli.Flag{&cli.StringFlag{Name: "tool", Aliases: []string{"t"}, Usage: "the executable `PATH`", Required: true, Destination: &path}},
		Action: command.WithoutArguments(func(ctx context.Context, _ *cli.Command) error {
			l, err := load.Rootless(ctx, p)
			if err != nil {
				return err
			}
			defer l.Close()
			t, err := load.OpenTool(ctx, p, path)
			if err != nil {
				return err
			}
			args, err := call.ReadArgs(ctx, p)
			if err != nil {
				return err
			}
			return call.Check(ctx, p, t, path, args)
		}),
	}
}

func ReplayToolCall(p *program.Env) *cli.Command {
	var session, index, path string
	var check bool
	return &cli.Command{
		Description: deprecated("session replay-call"),
		Flags: append(noEffect("raw"),
			&cli.StringFlag{Name: "session", Aliases: []string{"s"}, Usage: "the session `FILE`", Required: true, Destination: &session},
			&cli.StringFlag{Name: "tool-call", Aliases: []string{"i"}, Usage: "the `INDEX` of the call in list-tool-calls", Required: true, Destination: &index},
			&cli.StringFlag{Name: "tool", Aliases: []string{"t"}, Usage: "the executable `PATH`", Required: true, Destination: &path},
			&cli.BoolFlag{Name: "validate-only", Usage: "only check the arguments", Destination: &check},
		),
		Action: command.WithoutArguments(func(ctx context.Context, c *cli.Command) error {
			args := []string{"--tool", path, session, index}
			if check {
				args = append([]string{"--check"}, args...)
			}
			text, err := rerun(ctx, p, c, "session replay-call", args...)
			return errors.Join(p.Print(text), err)
		}),
	}
}
