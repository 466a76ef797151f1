package serve

import (
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/servers"
	"github.com/agents-exe/agents/pkg/edge/mcpserver"
	"github.com/agents-exe/agents/pkg/edge/serve"
)

// TestDefaultsAreThoseOfTheServers: `agents` shows them without linking the servers.
func TestDefaultsAreThoseOfTheServers(t *testing.T) {
	shown := []any{servers.DefaultRuns, servers.DefaultQueue, servers.DefaultQueueTime, servers.DefaultConnections, servers.DefaultGrace, servers.DefaultLinger, servers.DefaultTaskAfter}
	for i, want := range []any{serve.DefaultRuns, serve.DefaultQueue, serve.DefaultQueueTime, serve.DefaultConnections, serve.DefaultGrace, mcpserver.DefaultLinger, mcpserver.DefaultTaskAfter} {
		if shown[i] != want {
			t.Errorf("default %d is %v, want %v", i, shown[i], want)
		}
	}
}
