// Package acpserver serves an agent to editors and other clients of the Agent Client
// Protocol (package acp).
//
// A [Server] does not depend on agent files or on sessions on disk: a [Host] opens a
// [Session], which starts runs as channels. The events of a run become updates of the
// protocol; questions about calls become permission requests. A sub-agent's calls are shown
// with its name before them.
//
//	s := &acpserver.Server{Host: host, Name: "agents", Version: version}
//	err := s.Serve(ctx, os.Stdin, os.Stdout)
package acpserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/jsonrpc"
)

// A Host opens sessions. Its methods are called concurrently.
type Host interface {
	// Open opens a session.
	Open(ctx context.Context, o Opening) (Session, error)
	// List returns the sessions that began in dir, or all if dir is empty, the most recent
	// first.
	List(ctx context.Context, dir string) ([]acp.SessionInfo, error)
}

// An Opening says which session to open.
type Opening struct {
	ID      string // of an earlier session; "" for a new one
	Dir     string // the absolute working folder
	Servers []acp.MCPServer
	Client  *Client
}

// A Session is a conversation with an agent. Prompt is not called while a run is in
// progress; the other methods may be called at any time.
type Session interface {
	ID() string
	// Past yields the events of the conversation so far.
	Past() iter.Seq2[agent.Event, error]
	// Start begins a run with a message. It must call watch with each event before acting
	// on the event. The caller calls finish after it has read all events of the channel.
	Start(ctx context.Context, m agent.Message, watch func(agent.Event)) (c *agent.Channel, finish func() (*agent.Outcome, error), err error)
	// Answer answers a question of a run as agent.Runner.Person does.
	Answer(ctx context.Context, q agent.Event) (json.RawMessage, error)
	// Commands returns the slash commands. Command runs one as a turn and returns the text
	// to show.
	Commands() []acp.Command
	Command(ctx context.Context, name, args string) (string, error)
	// Modes returns the modes of the session; SetMode selects one of them.
	Modes() acp.Modes
	SetMode(id string)
	// Redact removes secrets from a text.
	Redact(text string) string
	Close()
}

// A Server serves one client.
type Server struct {
	Host          Host
	Name, Version string
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
	s.conn = acp.NewConn(in, out)
	s.conn.Request, s.conn.Notify = s.request, s.notify
	err := s.conn.Serve(ctx)
	for _, open := range s.sessions {
		open.Close()
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
	err := agent.Guard(s.Panicked, func() error { answer = s.method(method, params); return nil })
	if answer == nil && err == nil {
		return nil
	}
	return func(ctx context.Context) (result any, failed error) {
		if err != nil {
			return nil, err
		}
		failed = agent.Guard(s.Panicked, func() (err error) { result, err = answer(ctx); return err })
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
			list, err := s.Host.List(ctx, p.CWD)
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
	s.mu.Lock()
	s.caps = p.ClientCapabilities
	s.mu.Unlock()
	r := acp.InitializeResponse{ProtocolVersion: acp.Version, AuthMethods: []acp.Mode{}, AgentInfo: &acp.Implementation{Name: s.Name, Version: s.Version}}
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
	return nil, jsonrpc.Errorf(acp.NotFound, "there is no open session %.100q", id)
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// open opens a session. The history of one that is loaded is sent before the answer.
func (s *Server) open(ctx context.Context, method string, p *acp.SessionRequest) (any, error) {
	isNew := method == acp.MethodNew
	switch {
	case !filepath.IsAbs(p.CWD):
		return nil, jsonrpc.Errorf(acp.InvalidParams, "cwd: %.100q is not an absolute path", p.CWD)
	case !isFolder(p.CWD):
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
	client := &Client{server: s}
	opened, err := s.Host.Open(ctx, Opening{ID: p.SessionID, Dir: p.CWD, Servers: p.MCPServers, Client: client})
	if err != nil {
		return nil, err
	}
	client.session = opened.ID()
	open := &session{Session: opened, server: s}
	open.updates = &updates{dir: p.CWD, redact: opened.Redact, terminals: terminals}
	if !isNew {
		if err := open.history(method == acp.MethodLoad); err != nil {
			opened.Close()
			return nil, err
		}
	}
	s.mu.Lock()
	s.sessions[opened.ID()] = open
	s.mu.Unlock()
	r := acp.SessionResponse{}
	if isNew {
		r.SessionID = opened.ID()
	}
	modes := opened.Modes()
	r.Modes = &modes
	return acp.Then{Result: r, Do: func() {
		open.send(acp.Update{Kind: acp.CommandsUpdate, Commands: opened.Commands()})
	}}, nil
}

func (s *Server) close(_ context.Context, p *acp.SessionID) (any, error) {
	open, err := s.session(p.SessionID)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	delete(s.sessions, p.SessionID)
	s.mu.Unlock()
	open.end()
	return acp.Flag{}, nil
}

func (s *Server) setMode(_ context.Context, p *acp.SetModeRequest) (any, error) {
	open, err := s.session(p.SessionID)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(open.Modes().Available, func(m acp.Mode) bool { return m.ID == p.ModeID }) {
		return nil, jsonrpc.Errorf(acp.InvalidParams, "modeId: there is no mode %.100q", p.ModeID)
	}
	open.SetMode(p.ModeID)
	return acp.Flag{}, nil
}

// A Client puts the questions of a session to the person at the client.
type Client struct {
	server  *Server
	session string
}

// Permission asks the person to choose one of options for the call that the question q is
// about. It returns the id of the option. The error is agent.ErrNobody if the client
// chooses none.
func (c *Client) Permission(ctx context.Context, q agent.Event, options []acp.Option) (string, error) {
	var r acp.PermissionResponse
	call := acp.CallUpdate{Call: acp.Call{ID: q.Key, Title: title(&q), Status: acp.Pending, RawInput: rawArgs(q.Args)}}
	err := c.server.conn.Call(ctx, acp.MethodPermission, acp.PermissionRequest{SessionID: c.session, ToolCall: call, Options: options}, &r)
	switch {
	case err != nil:
		return "", err
	case r.Outcome.Outcome != "selected":
		return "", agent.ErrNobody
	}
	return r.Outcome.OptionID, nil
}

// Elicit asks the person to fill in a form or to open a URL. The error is agent.ErrNobody if
// the client does not support that.
func (c *Client) Elicit(ctx context.Context, r acp.ElicitRequest) (acp.ElicitResponse, error) {
	var answer acp.ElicitResponse
	c.server.mu.Lock()
	can := c.server.caps.Elicitation
	c.server.mu.Unlock()
	if can == nil || r.URL == "" && can.Form == nil || r.URL != "" && can.URL == nil {
		return answer, agent.ErrNobody
	}
	r.SessionID = c.session
	err := c.server.conn.Call(ctx, acp.MethodElicit, r, &answer)
	if err == nil && answer.Action == "" {
		err = errors.New("the answer has no action")
	}
	return answer, err
}
