//go:build !core

package serving

import (
	"context"

	"github.com/agents-exe/agents/cmd/agents/internal/chat"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/runs"
	"github.com/agents-exe/agents/cmd/agents/internal/serve"
	"github.com/agents-exe/agents/cmd/agents/internal/servers"
)

// Companions are the programs with the servers, and what they are needed for.
var Companions [][2]string

// Agents serves agents over HTTP until the end of ctx.
func Agents(ctx context.Context, p *program.Env, f *servers.Agents) error {
	return serve.Agents(ctx, p, f)
}

// MCP serves agents or tools to MCP clients.
func MCP(ctx context.Context, p *program.Env, f *servers.MCP) error { return serve.Run(ctx, p, f) }

// Editor serves an agent to an editor on standard input and output.
func Editor(ctx context.Context, p *program.Env, o runs.Flags) error {
	return chat.Editor(ctx, p, o)
}
