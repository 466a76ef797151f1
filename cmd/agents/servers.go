//go:build !core

package main

import (
	"context"

	"github.com/agents-exe/agents/cmd/agents/internal/chat"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/serve"
	"github.com/agents-exe/agents/cmd/agents/internal/servers"
)

// serversElsewhere are the programs with the servers, and what they are needed for.
var serversElsewhere [][2]string

func serveAgents(ctx context.Context, p *program.Env, f *servers.Agents) error {
	return serve.Agents(ctx, p, f)
}

func serveMCP(ctx context.Context, p *program.Env, f *servers.MCP) error { return serve.Run(ctx, p, f) }

func serveEditor(ctx context.Context, p *program.Env, o chat.Options) error {
	return chat.Editor(ctx, p, o)
}
