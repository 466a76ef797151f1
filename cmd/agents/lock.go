package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/urfave/cli/v3"
)

func lockCommand(p *program.Env) *cli.Command {
	return &cli.Command{
		Description: `Writes ` + agentfile.LockName + ` beside the agent file: the digests of tools and their descriptions,
of sub-agents, scripts and programs, and the tools and instructions of MCP servers.
For that it runs describe of each tool and starts the MCP servers. Commands with
--locked, and agents with "locked": true, refuse everything that differs from the lock
file; ` + "`agents check --locked`" + ` only compares.`,
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := command.NoArguments(c); err != nil {
				return err
			}
			return lock(ctx, p)
		},
	}
}

func lock(ctx context.Context, p *program.Env) error {
	l, err := load.Load(ctx, p, load.Options{NoModels: true, Unlocked: true})
	if err != nil {
		return err
	}
	defer l.Close()
	root, err := filepath.Abs(l.Nodes[0].File.Name())
	if err != nil {
		return failure.NothingRan(err, "")
	}
	content, err := l.Lock(ctx)
	if err != nil {
		return failure.NothingRan(fmt.Errorf("lock: %w", err), "")
	}
	file, err := agentfile.WriteLock(root, content)
	if err != nil {
		return failure.NothingRan(fmt.Errorf("lock: %w", err), "")
	}
	return p.Print(program.Shown(file) + "\n")
}
