//go:build core

package main

import (
	"context"
	"fmt"
	"os"

	"github.com/agents-exe/agents/cmd/agents/internal/chat"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/servers"
	"github.com/agents-exe/agents/pkg/process"
)

// The servers and their libraries would add a fifth to the size of the program and to the time
// of every start, also when it runs as its own tool. So they are in agents-serve, which is this
// program built without the tag. By the time it starts, this program has checked the flags.

var serversElsewhere = [][2]string{{program.Serve, "`agents serve`, `agents mcp-server` and `agents acp`"}}

func serveAgents(_ context.Context, p *program.Env, _ *servers.Agents) error { return execServer(p) }

func serveMCP(_ context.Context, p *program.Env, _ *servers.MCP) error { return execServer(p) }

func serveEditor(_ context.Context, p *program.Env, _ chat.Options) error { return execServer(p) }

// execServer replaces this process by agents-serve with the same command line.
func execServer(p *program.Env) error {
	path, err := process.Companion(program.Serve)
	if err != nil {
		return failure.NothingRan(err, "put agents-serve beside agents: `make build` makes both; the agents of `go install` needs no other program for this command")
	}
	if err := process.Exec(path, os.Args[1:], p.Environ); err != nil {
		return failure.NothingRan(fmt.Errorf("start %s: %w", path, err), "")
	}
	return nil
}
