package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/servers"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/a2aapi"
	"github.com/agents-exe/agents/pkg/edge/mcpserver"
	"github.com/agents-exe/agents/pkg/edge/openaiapi"
	"github.com/agents-exe/agents/pkg/edge/serve"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/session"
)

// Agents serves agents over HTTP until ctx ends, and then shuts down as
// serve.Server.ServeListener describes.
func Agents(ctx context.Context, p *program.Env, f *servers.Agents) error {
	for _, origin := range f.Origins {
		if u, err := url.Parse(origin); err != nil || u.Host == "" || origin != u.Scheme+"://"+u.Host {
			return failure.Usage("", "--allow-origin %s: it is a scheme and a host, such as https://agents.example", origin)
		}
	}
	if f.Open && strings.HasPrefix(f.Listen, wsconn.Socket) {
		return failure.Usage("", "--open: a browser cannot connect to the socket %s", f.Listen)
	}
	web, err := listen(ctx, p, address{flag: "--listen", value: f.Listen, tokens: f.Tokens, noToken: f.NoToken, own: "serve.token", socket: true})
	if err != nil {
		return err
	}
	defer web.close()
	h := &agentServer{service: newService(p, &servers.MCP{Expose: "agents", Flags: f.Flags})}
	h.elicit = host.Elicit
	h.host.Caller.Key = "" // clients know what they ask for
	h.host.Learn(web.secrets())
	if f.AgentOf != "" {
		if err := h.agentOf(f.AgentOf); err != nil {
			return err
		}
	}
	out, err := h.service.open(ctx)
	if err != nil {
		return err
	}
	defer func() { h.close(h.trees) }()
	return errors.Join(h.serve(ctx, f, web), out.Close())
}

func (h *agentServer) serve(ctx context.Context, f *servers.Agents, web *httpListener) error {
	limits, err := session.ParseKeep(f.KeepSessions)
	if err != nil {
		return failure.Usage("", "--keep-sessions %s: %v", f.KeepSessions, err)
	}
	if h.host.Sessions, err = h.keeper(serve.Owner); err != nil {
		return err
	}
	if h.host.Sessions != nil {
		h.notes = filepath.Join(h.dirs[0], ".serve")
	}
	if h.host.Offers, err = h.agents(); err != nil {
		return err
	}
	o := serve.Options{Runs: f.Runs, TokenRuns: f.TokenRuns, Queue: f.Queue, QueueTime: f.QueueTime, Connections: f.Connections, Grace: f.Grace, UntilIdle: f.UntilIdle}
	o.Host, o.Tools, o.Metrics, o.Name, o.Origins = h, h.toolsOf, h.newMetrics(), web.host, f.Origins
	h.metrics = o.Metrics
	for _, t := range web.tokens {
		o.Tokens = append(o.Tokens, serve.Token{Name: t.Name, Owner: t.Owner, Secret: t.Secret.Reveal(), Agents: t.Agents, Limited: t.Limited, Metrics: t.Metrics, Runs: t.Runs})
	}
	h.secured = len(web.tokens) > 0
	if !h.secured {
		o.Tokenless = web.owner(-1)
	}
	mounts, end := h.mounts(ctx)
	defer end()
	o.Mounts = mounts
	if h.host.Sessions != nil {
		o.Journal, o.Sessions = h.lastRun, h.kept()
	}
	now, stop := h.hurry(ctx, f.Grace)
	defer stop()
	o.Now = now
	unlist, err := web.publish(h.Agents())
	if err != nil {
		h.say("warning: other programs will not find this server: " + err.Error())
	} else {
		defer unlist()
	}
	if f.Open {
		link := web.reachable() + "/"
		if h.secured {
			o.Link = rand.Text()
			link += "#link=" + o.Link
		}
		defer h.openPage(ctx, link)()
	}
	fmt.Fprintf(h.p.Err, "serving agents at %s\n", web.address())
	o.Warn = h.say
	if h.host.Sessions != nil && limits != (session.Keep{}) {
		defer h.prune(ctx, limits, f.KeepSessions)()
	}
	if h.host.Sessions == nil && f.UntilIdle { // the interface continues a conversation that is not kept
		h.host.Sessions = (&host.Memory{Max: maxConversations, Owner: serve.Owner}).Open
	}
	server := serve.New(o)
	if f.Resume {
		h.resume(server)
	}
	err = server.ServeListener(ctx, web.listener)
	_ = h.host.Wait() // a session that could not be closed was a warning
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve %s: %w", web.address(), err)
	}
	return nil
}

// hurry returns a channel that is closed by the second signal: who sends it does not want
// to wait for runs. Until then, what is still to be done is not ended by force.
func (h *agentServer) hurry(ctx context.Context, grace time.Duration) (now chan struct{}, stop func()) {
	p := h.p
	now = make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	p.Editing.Lock()
	over := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		defer p.Editing.Unlock()
		select {
		case <-ctx.Done():
		case <-over:
			return
		}
		if n := h.host.Running(); n > 0 {
			h.say(fmt.Sprintf("runs in progress: %d; they have %s, or until the next signal", n, grace))
		}
		for range 2 { // the one that ended ctx, and the second
			select {
			case <-signals:
			case <-time.After(grace):
			case <-over:
				return
			}
		}
		close(now)
		select {
		case <-over:
		case <-time.After(p.KillAfter):
		}
	})
	return now, func() {
		signal.Stop(signals)
		close(over)
		done.Wait()
	}
}

// An agentServer starts the runs of a serve.Server.
type agentServer struct {
	*service
	notes   string // the folder of notes
	metrics *serve.Metrics
	secured bool // requests need a token
}

// Agents implements runner.Starter.
func (h *agentServer) Agents() []agent.ToolSpec { return h.host.Agents() }

// Start implements runner.Starter.
func (h *agentServer) Start(ctx context.Context, slug string, start agent.Start) (*runner.Channel, error) {
	o := host.Options{Observe: func(e agent.Event) {
		_ = guard.Run(h.panicked, func() error { h.metrics.Observe(e); return nil })
	}}
	if d := start.Lease.DetachedSeconds; d != nil && *d > 0 && h.notes != "" && !start.Journal {
		h.leaveNote(ctx, slug, start, &o)
	}
	return h.host.Run(ctx, slug, start, o)
}

func (h *agentServer) toolsOf(ctx context.Context, slug string) []agent.ToolSpec {
	for _, t := range h.trees {
		if !slices.Contains(h.host.Offers, host.Agent{Name: slug, Agent: t.Root}) {
			continue
		}
		var list []agent.ToolSpec
		for _, tool := range h.host.Tools(ctx, t.Root) {
			list = append(list, tool.Spec())
		}
		return list
	}
	return nil
}

func (h *agentServer) newMetrics() *serve.Metrics {
	var agents, tools, models []string
	for _, t := range h.trees {
		for _, n := range t.Nodes {
			agents, models = append(agents, n.Agent.Slug), append(models, n.Agent.Model)
			for _, m := range n.Models() {
				models = append(models, m.ModelName)
			}
			for _, spec := range n.Tools {
				tools = append(tools, spec.Name)
			}
		}
	}
	return serve.NewMetrics(agents, tools, models)
}

// mounts are the protocols beside the channel, with handlers for each token. The end of ctx
// is that of the server. stop ends what belongs to no request any more.
func (h *agentServer) mounts(ctx context.Context) (list []serve.Mount, stop func()) {
	var stops []func()
	closes := func(close func()) { // runs that wait for a client would hold up the end of the server
		done := context.AfterFunc(ctx, close)
		stops = append(stops, func() { done(); close() })
	}
	openai := func(to runner.Starter) http.Handler {
		api := &openaiapi.Handler{Host: to, Warn: h.panicked, NewID: session.NewID, Checked: true}
		closes(api.Close)
		return api
	}
	a2a := func(to runner.Starter) http.Handler {
		api := &a2aapi.Handler{Host: to, Version: h.p.Version, Secured: h.secured, Warn: h.panicked}
		closes(api.Close)
		return api
	}
	mcp := func(to runner.Starter) http.Handler {
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
