package main

import (
	"context"
	_ "embed"
	"io"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/complete"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/urfave/cli/v3"
)

// The scripts for the shells. They know nothing of the commands: at every
// completion they ask the program, always the one in PATH. A file that a person
// has only begun to name is never executed.
var (
	//go:embed scaffold/complete.bash
	bashCompletion string
	//go:embed scaffold/complete.zsh
	zshCompletion string
	//go:embed scaffold/complete.fish
	fishCompletion string
)

func completionCommand(p *program.Env) *cli.Command {
	return &cli.Command{
		ArgsUsage: "bash|zsh|fish",
		Description: `In ~/.bashrc: source <(agents completion bash)

In ~/.zshrc, after compinit: source <(agents completion zsh)

For fish, once: agents completion fish >~/.config/fish/completions/agents.fish`,
		Action: command.WithArgument("the shell", func(_ context.Context, c *cli.Command, shell string) error {
			return completion(p, c, shell)
		}),
		Commands: []*cli.Command{{
			// What the scripts call: with "line" and the command line up to the
			// cursor, or with "words" and its words behind the program's name,
			// the last of them under the cursor.
			Name: "candidates", Hidden: true, SkipFlagParsing: true,
			Action: func(_ context.Context, c *cli.Command) error {
				return complete.Print(p, c.Root(), c.Args().Slice())
			},
		}},
	}
}

func completion(p *program.Env, c *cli.Command, shell string) error {
	script, ok := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[shell]
	if !ok {
		return failure.Usage("", "%s: there is no script for %q; there are bash, zsh and fish", c.FullName(), shell)
	}
	_, err := io.WriteString(p.Out, script)
	return err
}
