package chat

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/acpserver"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/jsonrpc"
	"github.com/agents-exe/agents/pkg/mcpclient"
	"github.com/agents-exe/agents/pkg/session"
)

// The modes of a conversation with an editor.
const (
	modeAsk      = "ask"
	modeAllow    = "allow"
	modeReadOnly = "read-only"
)

// An editor is the part of a chat that only a conversation with an editor has.
type editor struct {
	name    string // of the conversation: the id of its session, which does not exist yet or does
	dir     string // its working folder
	servers map[string]json.RawMessage
	watch   func(agent.Event)
	client  *acpserver.Client
	answer  func(context.Context, agent.Event) (json.RawMessage, error) // of the run in progress
	// panicked reports a panic, which ends a run but not the editor's conversations.
	panicked func(text string)

	mu     sync.Mutex
	mode   string          // "" elsewhere
	denied map[string]bool // tools that the person never allows, with their sources
}

// An editorHost opens the conversations of an editor.
type editorHost struct {
	p *program.Env
	o Options
}

// Editor serves conversations over the Agent Client Protocol on standard input and output.
func Editor(ctx context.Context, p *program.Env, o Options) error {
	if p.InTerm {
		p.Note("acp is for editors: the messages of `agents help acp` are read from standard input; Ctrl-D ends it")
	}
	s := &acpserver.Server{Host: &editorHost{p, o}, Name: "agents", Version: p.Version, Panicked: func(text string) { p.Warn(text) }}
	in, out := io.Pipe()
	go func() {
		_, err := io.Copy(out, p.In)
		out.CloseWithError(err)
	}()
	defer context.AfterFunc(ctx, func() { out.Close() })()
	return s.Serve(ctx, in, p.Out)
}

// List implements acpserver.Host.
func (h *editorHost) List(_ context.Context, dir string) ([]acp.SessionInfo, error) {
	c, err := load.Config(h.p)
	if err != nil || h.o.Keep.None {
		return nil, err
	}
	const most = 100
	filter := session.Filter{Limit: most, Want: func(i *session.Info) bool { return i.Err == nil && i.Parent == "" && i.Dir != "" }}
	if dir != "" {
		if filter.Dir, err = filepath.EvalSymlinks(dir); err != nil {
			return nil, err
		}
	}
	list, err := session.List(filter, load.Paths(load.SessionDirs(h.p, c, h.o.Keep.Dir))...)
	var infos []acp.SessionInfo
	for _, i := range list {
		infos = append(infos, acp.SessionInfo{SessionID: i.ID, CWD: cmp.Or(dir, i.Dir), Title: i.Prompt, UpdatedAt: i.Changed.Format(time.RFC3339)})
	}
	return infos, err
}

// Open implements acpserver.Host.
func (h *editorHost) Open(ctx context.Context, o acpserver.Opening) (acpserver.Session, error) {
	c := &conversation{&chat{p: h.p, Options: h.o, out: h.p.Err}}
	c.editor = editor{name: o.ID, dir: o.Dir, client: o.Client, servers: mcpServers(o.Servers), mode: modeAsk, denied: map[string]bool{}}
	if h.o.Rights.Yes {
		c.mode, c.Rights.Yes = modeAllow, false
	}
	c.person = ask.Through(ask.Remote{Approve: c.approve, Elicit: c.elicit})
	c.panicked = func(text string) { h.p.Warn(c.logs.Hide(text)) }
	c.Keep.Began = o.Dir
	if o.ID != "" {
		if c.Keep.None || !session.ValidID(o.ID) {
			return nil, jsonrpc.Errorf(acp.NotFound, "there is no session %.100q", o.ID)
		}
		c.Keep.Session = o.ID
	}
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	if c.name == "" {
		c.name = session.NewID()
	} else if c.id() != c.name {
		c.close()
		return nil, jsonrpc.Errorf(acp.NotFound, "there is no session %.100q", c.name)
	}
	return c, nil
}

// mcpServers are the servers of an editor as an mcpServers object has them.
func mcpServers(list []acp.MCPServer) map[string]json.RawMessage {
	pairs := func(list []acp.Pair) map[string]string {
		values := map[string]string{}
		for _, p := range list {
			values[p.Name] = p.Value
		}
		return values
	}
	servers := map[string]json.RawMessage{}
	for _, s := range list {
		if s.Type != "" {
			servers[s.Name] = acp.Raw(map[string]any{"type": s.Type, "url": s.URL, "headers": pairs(s.Headers)})
		} else {
			servers[s.Name] = acp.Raw(map[string]any{"command": s.Command, "args": append([]string{}, s.Args...), "env": pairs(s.Env)})
		}
	}
	return servers
}

// prepare makes a run one of an editor's conversation.
func (e *editor) prepare(r *run, approver *ask.Approver, o *host.Options) {
	if e.mode == "" {
		return
	}
	approver.Folder, _ = filepath.EvalSymlinks(e.dir) // without it no folder is offered
	r.host.Policy, r.host.Panicked = e.policy, e.panicked
	if r.kept != nil && r.kept.New() {
		o.ID = e.name
	}
}

// current is the mode.
func (e *editor) current() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mode
}

// policy refuses calls in the mode "read-only". An agent in another process may do what it
// does without asking.
func (e *editor) policy(_ context.Context, inv *agent.Invocation) agent.Verdict {
	own := inv.Spec.Agent != "" && inv.Spec.Channel == 0 && inv.Spec.Effects == ""
	if e.current() == modeReadOnly && inv.Spec.Effects != agent.EffectsNone && !own {
		return agent.Verdict{Decision: agent.Deny, Reason: "the person has chosen the mode read-only, and this tool may change something"}
	}
	return agent.Verdict{Decision: agent.Allow}
}

// approve asks the person at the editor about a call.
func (e *editor) approve(ctx context.Context, q agent.Event, _ string, scopes []string) (scope, reason string, err error) {
	tool := q.Tool + "\x00" + q.Source
	e.mu.Lock()
	mode, denied := e.mode, e.denied[tool]
	e.mu.Unlock()
	switch {
	case denied:
		return "no", "the person never allows this tool in this conversation", nil
	case mode == modeAllow && q.Reviewer != "human":
		return "yes", "", nil
	}
	var options []acp.Option
	for _, o := range [...]acp.Option{{ID: "yes", Name: "Allow", Kind: acp.AllowOnce}, {ID: "session", Name: "Always allow " + q.Tool + " in this session", Kind: acp.AllowAlways},
		{ID: "folder", Name: "Always allow " + q.Tool + " in this folder", Kind: acp.AllowAlways}, {ID: "no", Name: "Reject", Kind: acp.RejectOnce}, {ID: "never", Name: "Always reject " + q.Tool + " in this session", Kind: acp.RejectAlways}} {
		if o.ID == "never" || slices.Contains(scopes, o.ID) {
			options = append(options, o)
		}
	}
	chosen, err := e.client.Permission(ctx, q, options)
	switch {
	case err != nil:
		return "no", "", err
	case chosen == "never":
		e.mu.Lock()
		defer e.mu.Unlock()
		e.denied[tool] = true
		return "no", "", nil
	case !slices.ContainsFunc(options, func(o acp.Option) bool { return o.ID == chosen }):
		return "no", "", fmt.Errorf("%w: the editor answered with the option %.50q, which was not offered", agent.ErrNobody, chosen)
	}
	return chosen, "", nil
}

// elicit asks the person at the editor to fill in a form.
func (e *editor) elicit(ctx context.Context, q mcpclient.Elicitation) (mcpclient.Answer, error) {
	r := acp.ElicitRequest{Mode: "form", Message: q.Server + ": " + q.Message, Schema: q.Schema, URL: q.URL}
	if q.URL != "" {
		r.Mode, r.ElicitationID = "url", session.NewID()
	}
	answer, err := e.client.Elicit(ctx, r)
	if err != nil {
		return mcpclient.Answer{Action: mcpclient.Decline}, ctx.Err()
	}
	return mcpclient.Answer{Action: mcpclient.Action(answer.Action), Content: answer.Content}, nil
}

// A conversation is one with an editor. It implements acpserver.Session.
type conversation struct{ *chat }

func (c *conversation) ID() string { return c.name }

func (c *conversation) Past() iter.Seq2[agent.Event, error] {
	if c.path == "" {
		return func(func(agent.Event, error) bool) {}
	}
	return session.Events(c.path)
}

func (c *conversation) Start(ctx context.Context, m agent.Message, watch func(agent.Event)) (*agent.Channel, func() (*agent.Outcome, error), error) {
	c.watch = watch
	r, err := c.start(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	c.answer = r.answer
	return r.Channel, func() (*agent.Outcome, error) { return c.finish(r) }, nil
}

func (c *conversation) Answer(ctx context.Context, q agent.Event) (json.RawMessage, error) {
	return c.answer(ctx, q)
}

// Commands are those of the chat that do not need a terminal.
func (c *conversation) Commands() []acp.Command {
	var list []acp.Command
	for _, v := range verbs() {
		switch v.name {
		case "agents", "tools", "model", "cost", "budget", "compact":
			command := acp.Command{Name: v.name, Description: v.usage}
			if v.args != "" {
				command.Input = map[string]string{"hint": v.args}
			}
			list = append(list, command)
		}
	}
	return list
}

func (c *conversation) Command(ctx context.Context, name, args string) (string, error) {
	var text bytes.Buffer
	before := c.out
	c.out = &text
	defer func() { c.out = before }()
	err := (&terminal{chat: c.chat, show: &show{w: &text}}).command(ctx, name, args)
	return "```\n" + strings.TrimRight(text.String(), "\n") + "\n```\n", err
}

func (c *conversation) Modes() acp.Modes {
	return acp.Modes{Current: c.current(), Available: []acp.Mode{
		{ID: modeAsk, Name: "Ask", Description: "ask before calls, as the agent's rules and its approval say"},
		{ID: modeAllow, Name: "Allow", Description: "allow calls that would be asked about, except where only a person may answer"},
		{ID: modeReadOnly, Name: "Read only", Description: "refuse every call that may change something"},
	}}
}

func (c *conversation) SetMode(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mode = id
}

func (c *conversation) Redact(text string) string { return c.logs.Hide(text) }

func (c *conversation) Close() { c.close() }
