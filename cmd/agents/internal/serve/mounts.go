package serve

import (
	"context"
	"net/http"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/a2aapi"
	"github.com/agents-exe/agents/pkg/edge/mcpserver"
	"github.com/agents-exe/agents/pkg/edge/openaiapi"
	"github.com/agents-exe/agents/pkg/edge/serve"
	"github.com/agents-exe/agents/pkg/session"
)

// mounts are the protocols beside the channel, with handlers for each token. The end of ctx
// is that of the server. stop ends what belongs to no request any more.
func (h *agentServer) mounts(ctx context.Context) (list []serve.Mount, stop func()) {
	var stops []func()
	openai := func(to serve.Host) http.Handler {
		api := &openaiapi.Handler{Host: to, Warn: h.panicked, NewID: session.NewID}
		// Runs that wait for a client would hold up the end of the server.
		done := context.AfterFunc(ctx, api.Close)
		stops = append(stops, func() { done(); api.Close() })
		return api
	}
	a2a := func(to serve.Host) http.Handler {
		api := &a2aapi.Handler{Host: to, Version: h.p.Version, Secured: h.secured, Warn: h.panicked}
		done := context.AfterFunc(ctx, api.Close)
		stops = append(stops, func() { done(); api.Close() })
		return api
	}
	mcp := func(to serve.Host) http.Handler {
		s := mcpserver.New(mcpserver.Options{Name: "agents", Version: h.p.Version, Hide: h.host.Hide, Panicked: h.panicked, Start: to.Start})
		var agents []mcpserver.Agent
		specs := to.Agents()
		for _, a := range h.host.Offers {
			if slices.ContainsFunc(specs, func(spec agent.ToolSpec) bool { return spec.Name == a.Name }) {
				agents = append(agents, mcpserver.Agent(a))
			}
		}
		s.SetAgents(agents)
		handler, stop := s.Handler(ctx)
		stops = append(stops, stop)
		return handler
	}
	return []serve.Mount{{Pattern: "/v1/", New: openai}, {Pattern: mcpserver.Path, New: mcp}, {Pattern: a2aapi.Path, New: a2a}, {Pattern: a2aapi.CardPath, New: a2a}}, func() {
		for _, stop := range stops {
			stop()
		}
	}
}
