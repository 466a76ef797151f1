package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/agents-exe/agents/pkg/runner"
)

// The limits, used where a field of Options is 0.
const (
	DefaultLinger    = 10 * time.Second
	DefaultTaskAfter = 10 * time.Second
)

// maxCalls is how many calls run at the same time. Others wait.
const maxCalls = 128

// MaxLine is the length of the longest message that is taken.
const MaxLine = 16 << 20

// Keys of the _meta of results.
const (
	MetaSession = "agents-exe/session" // names the conversation
	MetaStatus  = "agents-exe/status"  // an agent.Status: how the run ended
	MetaReceipt = "agents-exe/receipt" // an agent.Receipt: what happened in it
	MetaUsage   = "agents-exe/usage"   // an agent.Usage: what the run consumed, with its sub-agents
)

// Options say how a Server works. Agents need Start, and tools Call.
type Options struct {
	// Clients see Name and Version.
	Name, Version string
	// Start begins a run of the agent with a name: host.Host.Start. start has the arguments and
	// the session to continue, which must not be that of another token: see TokenOf. Its error
	// goes to the client.
	Start func(ctx context.Context, name string, start agent.Start) (*runner.Channel, error)
	// Call makes one call of a tool: host.Host.Call. Its events go to observe, one at a time.
	Call func(ctx context.Context, tool agent.Tool, args, traceparent string, observe func(agent.Event)) (agent.Result, error)
	// Panicked gets the text and the stack of a panic, which fails the request; nil lets it end
	// the program.
	Panicked func(text string)
	// Hide takes out of a text what no client may see; nil changes nothing.
	Hide func(string) string
	// Linger is how long calls may run after the end of the input before they
	// are ended. They are answered in any case.
	Linger time.Duration
	// TaskAfter is how long a call may take until its request is answered with a task,
	// if its client supports tasks.
	TaskAfter time.Duration
}

// An Agent is an agent that is offered as a tool.
type Agent struct {
	// Name is the tool's name: letters, digits, _ and -, at most 64.
	Name  string
	Agent *agent.Agent
}

// A Server offers agents or tools to MCP clients. Its methods may be called at the
// same time.
type Server struct {
	opts  Options
	mcp   *server.MCPServer
	calls chan struct{} // one for each call that may run
	key   []byte        // of the states that clients keep for tools

	mu          sync.Mutex
	offered     map[string]mcp.Tool
	prompts     map[string]Prompt
	current     *generation
	collections []Collection
	known       []string // of the resources that were listed last
	fixed       int      // how many collections are one resource
	conns       map[*conn]struct{}
}

// New makes a server that offers nothing yet.
func New(opts Options) *Server {
	opts.Linger = cmp.Or(opts.Linger, DefaultLinger)
	opts.TaskAfter = cmp.Or(opts.TaskAfter, DefaultTaskAfter)
	opts.Name = cmp.Or(opts.Name, "agents")
	if opts.Hide == nil {
		opts.Hide = func(s string) string { return s }
	}
	s := &Server{
		opts:    opts,
		calls:   make(chan struct{}, maxCalls),
		key:     []byte(rand.Text()),
		current: &generation{users: 1, idle: make(chan struct{})},
		conns:   map[*conn]struct{}{},
	}
	hooks := &server.Hooks{}
	hooks.AddAfterListResources(s.listResources)
	s.mcp = server.NewMCPServer(opts.Name, opts.Version,
		server.WithToolCapabilities(true), server.WithPromptCapabilities(true), server.WithResourceCapabilities(true, true),
		server.WithLogging(), server.WithCompletions(), server.WithHooks(hooks), server.WithExtensions(map[string]any{extensionTasks: struct{}{}}),
		server.WithPromptCompletionProvider(completer{s}), server.WithResourceCompletionProvider(completer{s}))
	return s
}

// SetAgents offers agents in place of what was offered before. Names must differ.
// The channel is closed when no call of what was ever offered before is running.
func (s *Server) SetAgents(agents []Agent) (idle <-chan struct{}) {
	var list []mcp.Tool
	gen := newGeneration()
	for _, a := range agents {
		description := cmp.Or(a.Agent.Announce, "asks the agent "+a.Agent.Slug)
		list = append(list, mcp.NewToolWithRawSchema(a.Name, description, a.schema()))
		gen.calls[a.Name] = func(ctx context.Context, r *request, _ mcp.MultiRoundTripParams) *mcp.CallToolResult {
			return s.ask(ctx, r, a)
		}
	}
	return s.offer(gen, list)
}

// SetTools offers tools in place of what was offered before, as SetAgents does
// with agents. A tool that runs a sub-agent is offered like any other.
func (s *Server) SetTools(tools []agent.Tool) (idle <-chan struct{}) {
	var list []mcp.Tool
	gen := newGeneration()
	for _, t := range tools {
		spec := t.Spec()
		list = append(list, describe(spec))
		gen.long[spec.Name] = spec.Task == agent.TaskRequired
		gen.calls[spec.Name] = func(ctx context.Context, r *request, round mcp.MultiRoundTripParams) *mcp.CallToolResult {
			return s.callTool(ctx, r, t, round)
		}
	}
	return s.offer(gen, list)
}

func describe(spec agent.ToolSpec) mcp.Tool {
	t := mcp.NewToolWithRawSchema(spec.Name, spec.Description, shown(spec))
	yes, no := true, false
	switch spec.Effects {
	case agent.EffectsNone:
		t.Annotations.ReadOnlyHint = &yes
	case agent.EffectsIdempotent:
		t.Annotations.ReadOnlyHint, t.Annotations.IdempotentHint = &no, &yes
	}
	return t
}

// offer makes list what clients can call. They are notified only of changes that they
// can see.
func (s *Server) offer(gen *generation, list []mcp.Tool) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.current
	s.current = gen
	offered := make(map[string]mcp.Tool, len(list))
	var changed []server.ServerTool
	for _, t := range list {
		offered[t.Name] = t
		if before, ok := s.offered[t.Name]; !ok || !equal(before, t) {
			changed = append(changed, server.ServerTool{Tool: t, Handler: s.handler(t.Name)})
		}
	}
	var gone []string
	for name := range s.offered {
		if _, ok := offered[name]; !ok {
			gone = append(gone, name)
		}
	}
	s.offered = offered
	// All at once would show clients an empty list for a moment.
	if len(gone) > 0 {
		s.mcp.DeleteTools(gone...)
	}
	if len(changed) > 0 {
		s.mcp.AddTools(changed...)
	}
	old.next = gen
	old.release()
	return old.idle
}

func equal(a, b mcp.Tool) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func (s *Server) handler(name string) server.ToolHandlerFunc {
	return func(ctx context.Context, q mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r := requestFrom(ctx)
		switch {
		case r == nil:
			return nil, errNotServed
		case r.message.takesTasks():
			return s.startTask(ctx, r, name, q.Params.MultiRoundTripParams), nil
		}
		return s.perform(ctx, r, name, q.Params.MultiRoundTripParams), nil
	}
}

// perform makes one call of what is offered as name.
func (s *Server) perform(ctx context.Context, r *request, name string, round mcp.MultiRoundTripParams) *mcp.CallToolResult {
	s.mu.Lock()
	gen := s.current
	run, ok := gen.calls[name]
	if ok {
		gen.users++
	}
	s.mu.Unlock()
	if !ok {
		return failure("nothing ran: the tool " + name + " is gone")
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		gen.release()
	}()
	select {
	case s.calls <- struct{}{}:
		defer func() { <-s.calls }()
	case <-ctx.Done():
		result := failure("nothing ran: " + context.Cause(ctx).Error())
		result.Meta = mcp.NewMetaFromMap(map[string]any{MetaStatus: agent.StatusOf(ctx.Err())})
		return result
	}
	var result *mcp.CallToolResult
	if err := guard.Run(s.opts.Panicked, func() error { result = run(ctx, r, round); return nil }); err != nil {
		return failure(err.Error())
	}
	return result
}

// A call runs what is offered under a name.
type call func(context.Context, *request, mcp.MultiRoundTripParams) *mcp.CallToolResult

// A generation is what one SetAgents or SetTools offered. Server.mu guards it.
type generation struct {
	calls map[string]call
	long  map[string]bool // clients without tasks cannot call them
	users int             // running calls; one more while it is current, and one until the generation before is idle
	next  *generation     // that replaced it
	idle  chan struct{}   // closed when users is 0
}

// newGeneration makes a generation that replaces another.
func newGeneration() *generation {
	return &generation{calls: map[string]call{}, long: map[string]bool{}, users: 2, idle: make(chan struct{})}
}

// release takes one user from g, and then from those that wait for it.
func (g *generation) release() {
	for ; g != nil; g = g.next {
		if g.users--; g.users > 0 {
			return
		}
		close(g.idle)
	}
}
