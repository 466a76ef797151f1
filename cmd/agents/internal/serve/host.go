package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	"github.com/agents-exe/agents/cmd/agents/internal/keep"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/runs"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/mcpserver"
	"github.com/agents-exe/agents/pkg/serve"
	"github.com/agents-exe/agents/pkg/session"
)

// Agents serves agents over HTTP.
type Agents struct {
	Listen  string
	Tokens  string
	NoToken bool
	Origins []string
	runs.Flags
	// AgentOf is a session whose agent is served alone; "" is none.
	AgentOf string
	// KeepSessions limits the sessions of clients that are kept: see session.ParseKeep.
	KeepSessions string
	// Resume continues the runs that an earlier server left.
	Resume bool
	// Options has the limits.
	Options serve.Options
}

// Run serves until the end of ctx, and then as serve.Server.ServeListener says.
func (f *Agents) Run(ctx context.Context, p *program.Env) error {
	for _, origin := range f.Origins {
		if u, err := url.Parse(origin); err != nil || u.Host == "" || origin != u.Scheme+"://"+u.Host {
			return failure.Usage("", "--allow-origin %s: it is a scheme and a host, such as https://agents.example", origin)
		}
	}
	web, err := listen(ctx, p, address{flag: "--listen", value: f.Listen, tokens: f.Tokens, noToken: f.NoToken, own: "serve.token", socket: true})
	if err != nil {
		return err
	}
	defer web.close()
	h := &host{live: map[string]*liveRun{}, service: &service{
		p: p, flags: &Flags{Expose: "agents", Flags: f.Flags},
		said: map[string]bool{}, began: time.Now(), called: make(chan struct{}, 1), elicit: elicit,
	}}
	h.learn(web.secrets())
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
	err = errors.Join(f.serve(ctx, h, web), out.Close())
	return err
}

// serve serves the trees.
func (f *Agents) serve(ctx context.Context, h *host, web *httpListener) error {
	limits, err := session.ParseKeep(f.KeepSessions)
	if err != nil {
		return failure.Usage("", "--keep-sessions %s: %v", f.KeepSessions, err)
	}
	if h.sessions, err = h.keeper(); err != nil {
		return err
	}
	if h.sessions != nil {
		h.notes = filepath.Join(h.dirs[0], ".serve")
	}
	if h.list, err = h.agents(); err != nil {
		return err
	}
	o := f.Options
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
	if h.sessions != nil {
		o.Journal = h.lastRun
	}
	now, stop := f.hurry(ctx, h)
	defer stop()
	o.Now = now
	unlist, err := web.publish(h.Agents())
	if err != nil {
		h.say("warning: other programs will not find this server: " + err.Error())
	} else {
		defer unlist()
	}
	fmt.Fprintf(h.p.Err, "serving agents at %s\n", web.address())
	o.Warn = h.say
	if h.sessions != nil && limits != (session.Keep{}) {
		defer h.prune(ctx, limits, f.KeepSessions)()
	}
	server := serve.New(o)
	if f.Resume {
		h.resume(server)
	}
	err = server.ServeListener(ctx, web.listener)
	h.ending.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve %s: %w", web.address(), err)
	}
	return nil
}

// hurry returns a channel that is closed by the second signal: who sends it does not want
// to wait for runs. Until then, what is still to be done is not ended by force.
func (f *Agents) hurry(ctx context.Context, h *host) (now chan struct{}, stop func()) {
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
		if n := h.running(); n > 0 {
			h.say(fmt.Sprintf("runs in progress: %d; they have %s, or until the next signal", n, f.Options.Grace))
		}
		for range 2 { // the one that ended ctx, and the second
			select {
			case <-signals:
			case <-time.After(f.Options.Grace):
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

// A host starts the runs of a serve.Server.
type host struct {
	*service
	list     []mcpserver.Agent
	sessions opener // nil if none are kept
	notes    string // the folder of notes
	metrics  *serve.Metrics
	secured  bool           // requests need a token
	ending   sync.WaitGroup // runs whose sessions are not closed yet

	mu   sync.Mutex
	live map[string]*liveRun // by session
}

// A liveRun is a run whose session is open.
type liveRun struct {
	session string
	ended   bool  // the last event was seen; under host.mu
	parked  bool  // it ended with the server
	note    *note // for the next server; nil if the run ends with its client
	kept    *keep.Session
	closed  chan struct{} // closed when the session is
}

// Agents implements serve.Host.
func (h *host) Agents() []agent.ToolSpec {
	var list []agent.ToolSpec
	for _, a := range h.list {
		list = append(list, (&agent.Subagent{Name: a.Name, Agent: a.Agent}).Spec())
	}
	return list
}

// Start implements serve.Host.
func (h *host) Start(ctx context.Context, slug string, start agent.Start) (*agent.Channel, error) {
	i := slices.IndexFunc(h.list, func(a mcpserver.Agent) bool { return a.Name == slug })
	if i < 0 {
		return nil, fmt.Errorf("there is no agent %.100q", slug)
	}
	a := h.list[i]
	r := h.runner(a.Agent)
	k, err := h.open(ctx, a, start)
	if err != nil {
		return nil, err
	}
	run := &liveRun{kept: k, closed: make(chan struct{})}
	if d := start.Lease.DetachedSeconds; d != nil && *d > 0 && k != nil {
		run.note = newNote(ctx, a, start)
	}
	if err := k.Attach(h.p, r); err != nil {
		k.Close()
		return nil, err
	}
	r.Observe = func(e agent.Event) {
		h.observe(e)
		_ = agent.Guard(h.panicked, func() error { h.metrics.Observe(e); return nil })
		h.sessionEvent(run, e)
	}
	if k != nil && start.Session == "" {
		start.History = slices.Clone(start.History)
		if err := begin(ctx, r.Journal, r, start.History); err != nil {
			k.Close()
			return nil, err
		}
	}
	c := r.Start(ctx, start)
	h.ending.Go(func() {
		<-c.Done()
		k.Close()
		h.closed(run)
	})
	return c, nil
}

// begin writes the history of a conversation that the client keeps into the new session of
// its run. The client does not know all about the agent.
func begin(ctx context.Context, j agent.Journal, r *agent.Runner, history []agent.Event) error {
	redact := agent.RedactEvent(r.Secrets)
	for i := range history {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e := &history[i]
		e.Agent = r.Agent.Slug
		if e.Kind == agent.EventSession {
			e.Source, e.Model = r.Agent.Source, r.Agent.Model
		}
		if redact != nil {
			*e = redact(*e)
		}
		if err := j.Append(ctx, *e); err != nil {
			return err
		}
	}
	return nil
}

// open opens the session of a run; it is nil if none is kept. An earlier run of the session
// may have ended a moment ago.
func (h *host) open(ctx context.Context, a mcpserver.Agent, start agent.Start) (*keep.Session, error) {
	if h.sessions == nil || start.Journal {
		return nil, nil
	}
	h.mu.Lock()
	earlier := h.live[start.Session]
	wait := earlier != nil && earlier.ended
	h.mu.Unlock()
	if wait {
		select {
		case <-earlier.closed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return h.sessions(a, start.Session, serve.Owner(ctx))
}

// sessionEvent notes the session of a run, and its last event.
func (h *host) sessionEvent(run *liveRun, e agent.Event) {
	if e.Depth > 0 || run.session != "" && e.Kind != agent.EventEnd {
		return
	}
	h.mu.Lock()
	if run.ended = e.Kind == agent.EventEnd; run.ended {
		run.parked = e.Status == agent.StatusInterrupted && strings.Contains(e.Error, serve.Parked)
	}
	begins := run.session == "" && e.Session != ""
	if begins {
		run.session = e.Session
		h.live[e.Session] = run
	}
	h.mu.Unlock()
	if begins && run.note != nil {
		if err := run.note.write(h.notes, e.Session); err != nil {
			h.say("warning: a server that starts with --resume will not find session " + e.Session + ": " + err.Error())
		}
	}
}

// running returns how many runs have not ended.
func (h *host) running() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, run := range h.live {
		if !run.ended {
			n++
		}
	}
	return n
}

// closed notes that the session of a run is closed.
func (h *host) closed(run *liveRun) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.live[run.session] == run {
		delete(h.live, run.session)
	}
	if run.note != nil && !run.parked && run.session != "" {
		run.note.remove(h.notes, run.session)
	}
	close(run.closed)
}

// toolsOf returns the tools of an agent.
func (h *host) toolsOf(ctx context.Context, slug string) []agent.ToolSpec {
	for _, t := range h.trees {
		i := slices.IndexFunc(h.list, func(a mcpserver.Agent) bool { return a.Name == slug && a.Agent == t.Root })
		if i < 0 {
			continue
		}
		var list []agent.ToolSpec
		for _, tool := range h.permitted(ctx, t) {
			list = append(list, tool.Spec())
		}
		return list
	}
	return nil
}

// newMetrics returns metrics with the names in the trees.
func (h *host) newMetrics() *serve.Metrics {
	var agents, tools, models []string
	for _, t := range h.trees {
		for _, n := range t.Nodes {
			agents, models = append(agents, n.Agent.Slug), append(models, n.Agent.Model)
			for _, spec := range n.Tools {
				tools = append(tools, spec.Name)
			}
		}
	}
	return serve.NewMetrics(agents, tools, models)
}
