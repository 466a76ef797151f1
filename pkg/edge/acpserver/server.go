// Package acpserver serves an agent to editors and other clients of the Agent Client
// Protocol (package acp).
//
// A [Server] does not depend on agent files or on sessions on disk. For each session of a client
// it gets a [Session], which has functions of a host.Host. The events of a run become updates
// of the protocol; questions become permission requests and forms. A sub-agent's calls are shown
// with its name before them.
//
//	s := &acpserver.Server{Open: open, Name: "agents", Version: version}
//	err := s.Serve(ctx, os.Stdin, os.Stdout)
package acpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
	"github.com/agents-exe/agents/pkg/runner"
)

// An Opening says which session to open.
type Opening struct {
	ID      string
	New     bool
	Dir     string // the absolute working folder
	Servers []acp.MCPServer
	Client  *Client
}

// A Session is an open session of a client. Neither Start nor Command is called while a run
// is in progress; the other functions may be called at any time.
type Session struct {
	// Past are the events of an earlier session.
	Past iter.Seq2[agent.Event, error]
	// Start begins a run: host.Host.Run, with watch as host.Options.Observe. Until the session
	// exists, s.Session is "", and the session of the run gets Opening.ID.
	Start func(ctx context.Context, s agent.Start, watch func(agent.Event)) (*runner.Channel, error)
	// Wait waits until the session is closed after a run: host.Host.Wait.
	Wait func() error
	// Answer answers a question of the run about a call, as runner.Runner.Person does: nil means
	// that nobody does. It may ask Client.Approve.
	Answer func(ctx context.Context, q agent.Event) (json.RawMessage, error)
	// Commands are the slash commands. Command does one and returns the text to show.
	Commands []acp.Command
	Command  func(ctx context.Context, name, args string) (string, error)
	// Hide removes secrets from a text: host.Host.Hide.
	Hide func(text string) string
	// Close ends what Open has started. It is called once, when no run is in progress.
	Close func()
}

// A Server serves one client.
type Server struct {
	// Open loads the agent for a session of the client. It is called concurrently.
	Open func(ctx context.Context, o Opening) (*Session, error)
	// List returns the sessions that began in dir, or all if dir is empty, the most recent
	// first.
	List          func(ctx context.Context, dir string) ([]acp.SessionInfo, error)
	Name, Version string
	// Mode is the first mode of each session; "" is ModeAsk.
	Mode string
	// NewID makes the ids of new sessions; nil makes random ones.
	NewID func() string
	// Panicked gets the text and the stack of a panic, which fails the request; nil lets it end
	// the program.
	Panicked func(text string)

	conn *acp.Conn

	mu       sync.Mutex
	caps     acp.ClientCapabilities
	sessions map[string]*session
}

// maxSessions limits the sessions that a client has open.
const maxSessions = 100

// Serve serves the client until in ends, and then ends the runs in progress. Callers close
// in when ctx ends.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	s.sessions = map[string]*session{}
	if s.NewID == nil {
		s.NewID = rand.Text
	}
	s.conn = acp.NewConn(in, out)
	s.conn.Request, s.conn.Notify = s.request, s.notify
	err := s.conn.Serve(ctx)
	for _, open := range s.sessions {
		open.end()
	}
	return err
}

// notify handles session/cancel.
func (s *Server) notify(method string, params json.RawMessage) {
	var p acp.SessionID
	if method == acp.MethodCancel && acp.Decode(params, &p) == nil {
		if open, err := s.session(p.SessionID); err == nil {
			open.cancel()
		}
	}
}

// request returns what answers a request.
func (s *Server) request(method string, params json.RawMessage) acp.Answer {
	var answer acp.Answer
	err := guard.Run(s.Panicked, func() error { answer = s.method(method, params); return nil })
	if answer == nil && err == nil {
		return nil
	}
	return func(ctx context.Context) (result any, failed error) {
		if err != nil {
			return nil, err
		}
		failed = guard.Run(s.Panicked, func() (err error) { result, err = answer(ctx); return err })
		return result, failed
	}
}

func (s *Server) method(method string, params json.RawMessage) acp.Answer {
	switch method {
	case acp.MethodInitialize:
		return acp.With(params, s.initialize)
	case acp.MethodAuthenticate:
		return acp.With(params, func(context.Context, *acp.Flag) (any, error) { return acp.Flag{}, nil })
	case acp.MethodNew, acp.MethodLoad, acp.MethodResume:
		return acp.With(params, func(ctx context.Context, p *acp.SessionRequest) (any, error) { return s.open(ctx, method, p) })
	case acp.MethodList:
		return acp.With(params, func(ctx context.Context, p *acp.ListRequest) (any, error) {
			list, err := s.List(ctx, p.CWD)
			return acp.ListResponse{Sessions: append([]acp.SessionInfo{}, list...)}, err
		})
	case acp.MethodClose:
		return acp.With(params, s.close)
	case acp.MethodSetMode:
		return acp.With(params, s.setMode)
	case acp.MethodPrompt:
		return s.prompt(params)
	}
	return nil
}

func (s *Server) initialize(_ context.Context, p *acp.InitializeRequest) (any, error) {
	caps := p.ClientCapabilities
	r := acp.InitializeResponse{ProtocolVersion: acp.Version, AuthMethods: []acp.Mode{}, AgentInfo: &acp.Implementation{Name: s.Name, Version: s.Version}}
	if p.ProtocolVersion > acp.Version {
		r.Info, caps = r.AgentInfo, cmp.Or(caps, p.Capabilities)
	}
	s.mu.Lock()
	s.caps = caps
	s.mu.Unlock()
	c := &r.AgentCapabilities
	c.LoadSession, c.MCP.HTTP = true, true
	c.Prompt.Image, c.Prompt.Audio, c.Prompt.EmbeddedContext = true, true, true
	c.Session.List, c.Session.Resume, c.Session.Close = &acp.Flag{}, &acp.Flag{}, &acp.Flag{}
	return r, nil
}

// session returns an open session.
func (s *Server) session(id string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open := s.sessions[id]; open != nil {
		return open, nil
	}
	return nil, notOpen(id)
}

func notOpen(id string) error {
	return jsonrpc.Errorf(acp.NotFound, "there is no open session %.100q", id)
}

// open opens a session. The history of one that is loaded is sent before the answer.
func (s *Server) open(ctx context.Context, method string, p *acp.SessionRequest) (any, error) {
	isNew := method == acp.MethodNew
	switch info, err := os.Stat(p.CWD); {
	case !filepath.IsAbs(p.CWD):
		return nil, jsonrpc.Errorf(acp.InvalidParams, "cwd: %.100q is not an absolute path", p.CWD)
	case err != nil || !info.IsDir():
		return nil, jsonrpc.Errorf(acp.InvalidParams, "cwd: %.100q is not a folder", p.CWD)
	case isNew == (p.SessionID != ""):
		return nil, jsonrpc.Errorf(acp.InvalidParams, "sessionId: session/load and session/resume need it, session/new does not take it")
	}
	_, _ = s.close(ctx, &acp.SessionID{SessionID: p.SessionID}) // if it is opened again
	s.mu.Lock()
	full, terminals := len(s.sessions) >= maxSessions, s.caps.Meta.TerminalOutput
	s.mu.Unlock()
	if full {
		return nil, jsonrpc.Errorf(jsonrpc.InvalidRequest, "%d sessions are open: session/close closes one", maxSessions)
	}
	id := cmp.Or(p.SessionID, s.NewID())
	open := &session{Client: &Client{server: s, id: id, mode: cmp.Or(s.Mode, ModeAsk), denied: map[string]bool{}}, begun: !isNew}
	var err error
	if open.Session, err = s.Open(ctx, Opening{ID: id, New: isNew, Dir: p.CWD, Servers: p.MCPServers, Client: open.Client}); err != nil {
		return nil, err
	}
	open.updates = &updates{dir: p.CWD, redact: open.Hide, terminals: terminals}
	if !isNew {
		if err := open.history(method == acp.MethodLoad); err != nil {
			open.Close()
			return nil, err
		}
	}
	s.mu.Lock()
	also := s.sessions[id] // opened at the same time
	s.sessions[id] = open
	s.mu.Unlock()
	if also != nil {
		also.end()
	}
	r := acp.SessionResponse{Modes: &acp.Modes{Current: open.mode, Available: modes[:]}}
	if isNew {
		r.SessionID = id
	}
	return acp.Then{Result: r, Do: func() {
		open.send(acp.Update{Kind: acp.CommandsUpdate, Commands: append([]acp.Command{}, open.Commands...)})
	}}, nil
}

func (s *Server) close(_ context.Context, p *acp.SessionID) (any, error) {
	s.mu.Lock()
	open := s.sessions[p.SessionID]
	delete(s.sessions, p.SessionID)
	s.mu.Unlock()
	if open == nil {
		return nil, notOpen(p.SessionID)
	}
	open.end()
	return acp.Flag{}, nil
}

func (s *Server) setMode(_ context.Context, p *acp.SetModeRequest) (any, error) {
	open, err := s.session(p.SessionID)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(modes[:], func(m acp.Mode) bool { return m.ID == p.ModeID }) {
		return nil, jsonrpc.Errorf(acp.InvalidParams, "modeId: there is no mode %.100q", p.ModeID)
	}
	open.Client.mu.Lock()
	defer open.Client.mu.Unlock()
	open.mode = p.ModeID
	return acp.Flag{}, nil
}
