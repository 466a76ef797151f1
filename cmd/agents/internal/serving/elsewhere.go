//go:build core

package serving

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

// Companions are the programs with the servers, and what they are needed for.
var Companions = [][2]string{{program.Serve, "`agents serve`, `agents mcp-server` and `agents acp`"}}

// Agents starts agents-serve in place of this process, with the same command line. The flags were
// checked before. So do MCP and Editor.
func Agents(_ context.Context, p *program.Env, _ *servers.Agents) error { return execServer(p) }

func MCP(_ context.Context, p *program.Env, _ *servers.MCP) error { return execServer(p) }

func Editor(_ context.Context, p *program.Env, _ chat.Options) error { return execServer(p) }

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
