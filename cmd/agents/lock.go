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
		Action: command.WithoutArguments(func(ctx context.Context, _ *cli.Command) error {
			return lock(ctx, p)
		}),
	}
}

// lock locks the trees of all agents in the file, or that of --agent.
func lock(ctx context.Context, p *program.Env) error {
	file, slugs, err := lockAgent(ctx, p, "")
	for _, slug := range slugs {
		if err == nil && p.Global.Agent == "" {
			_, _, err = lockAgent(ctx, p, slug)
		}
	}
	if err != nil {
		return err
	}
	return p.Print(program.Shown(file) + "\n")
}

// lockAgent locks the tree of an agent; "" is the first in the file. It returns the lock
// file and the slugs of the other agents.
func lockAgent(ctx context.Context, p *program.Env, slug string) (file string, others []string, err error) {
	l, err := load.Load(ctx, p, load.Options{NoModels: true, Unlocked: true, Agent: slug})
	if err != nil {
		return "", nil, err
	}
	defer l.Close()
	root := l.Nodes[0].File
	path, err := filepath.Abs(root.Name())
	if err != nil {
		return "", nil, failure.NothingRan(err, "")
	}
	content, err := l.Lock(ctx)
	if err == nil {
		file, err = agentfile.WriteLock(ctx, path, content)
	}
	if err != nil {
		return "", nil, failure.NothingRan(fmt.Errorf("lock: %w", err), "")
	}
	return file, root.Slugs[1:], nil
}
