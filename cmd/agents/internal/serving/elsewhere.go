//go:build core

package serving

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/runs"
	"github.com/agents-exe/agents/cmd/agents/internal/servers"
	"github.com/agents-exe/agents/pkg/process"
)

// Companions are the programs with the servers, and what they are needed for.
var Companions = [][2]string{{program.Serve, "`agents serve`, `agents mcp-server` and `agents acp`"}}

// Agents starts agents-serve in place of this process, with the same command line. The flags were
// checked before. So do MCP and Editor.
func Agents(ctx context.Context, p *program.Env, _ *servers.Agents) error { return execServer(ctx, p) }

func MCP(ctx context.Context, p *program.Env, _ *servers.MCP) error { return execServer(ctx, p) }

func Editor(ctx context.Context, p *program.Env, _ runs.Flags) error { return execServer(ctx, p) }

// execServer replaces this process by agents-serve with the same command line.
func execServer(ctx context.Context, p *program.Env) error {
	if strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") == program.Serve { // else it would start itself for ever
		return failure.NothingRan(fmt.Errorf("%s is a copy of agents, or a link to it, without the servers", os.Args[0]), "`make build` makes both programs")
	}
	path, err := process.Companion(program.Serve)
	if err != nil {
		return failure.NothingRan(err, "put agents-serve beside agents: `make build` makes both; the agents of `go install` needs no other program for this command")
	}
	return p.Exec(ctx, path, os.Args[1:])
}
