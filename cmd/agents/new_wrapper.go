package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/scaffold"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/urfave/cli/v3"
)

func newWrapperCommand(p *program.Env) *cli.Command {
	var dir, runner string
	return &cli.Command{
		ArgsUsage: "SLUG",
		Description: `Writes SLUG.sh, which runs the agent of --agent-file in a process of its own. With
--runner, as "podman run -i --rm IMAGE" or "ssh HOST", the process runs elsewhere, and
--agent-file is a path there. Nothing is overwritten.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "runner", Usage: "run agents with the prefix `COMMAND`, in shell syntax", Destination: &runner},
			&cli.StringFlag{Name: "dir", Value: ".", Usage: "write into `DIR`", Destination: &dir},
		},
		Action: func(_ context.Context, c *cli.Command) error {
			slug, err := scaffold.SlugArgument(c)
			if err != nil {
				return err
			}
			return newWrapper(p, slug, dir, runner)
		},
	}
}

func newWrapper(p *program.Env, slug, dir, runner string) error {
	if len(p.Global.AgentFiles) != 1 {
		return failure.Usage("name its file with --agent-file", "new wrapper: want one agent")
	}
	if strings.ContainsAny(runner, "\r\n") {
		return failure.Usage("", "--runner: want one line")
	}
	path := filepath.Join(dir, slug+".sh")
	if program.Taken(path) {
		return failure.Usage("choose another slug or --dir", "new wrapper: %s already exists", path)
	}
	file, err := wrapped(p, dir, runner)
	if err != nil {
		return err
	}
	s := &scaffold.Files{P: p}
	if err = s.Folder(dir); err == nil {
		err = s.Add(path, 0o755, fmt.Sprintf(scaffold.Wrapper, slug, strings.TrimLeft(runner+" agents", " "), file))
	}
	if filepath.Base(path) == path {
		path = "./" + path
	}
	return s.Finish(err, "agents tool describe "+program.ShellQuote(path))
}

// wrapped returns the agent file as the script in dir names it: without a runner relative
// to the script, unless the path is absolute.
func wrapped(p *program.Env, dir, runner string) (string, error) {
	file := p.Global.AgentFiles[0]
	if words := strings.Fields(runner); len(words) > 0 {
		file = program.ShellQuote(file)
		if filepath.Base(words[0]) == "ssh" { // a second shell reads it
			file = program.ShellQuote(file)
		}
		return file, nil
	}
	c, err := load.Config(p)
	if err != nil {
		return "", err
	}
	chosen, err := load.Choose(p, c, "")
	if err != nil {
		return "", err
	}
	if _, _, err := agentfile.Read(chosen); err != nil {
		hint := ""
		if errors.Is(err, fs.ErrNotExist) {
			hint = "with --runner, the file may be elsewhere"
		}
		return "", failure.NothingRan(fmt.Errorf("load agent: %w", err), hint)
	}
	if filepath.IsAbs(file) {
		return program.ShellQuote(file), nil
	}
	abs, err := filepath.Abs(chosen)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err == nil {
		file, err = filepath.Rel(dir, abs)
	}
	return `"${0%/*}"/` + program.ShellQuote(file), err
}
