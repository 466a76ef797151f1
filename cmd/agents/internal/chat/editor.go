package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/runs"
	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/acpserver"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/terminal/input"
)

// An editor has several conversations.
type editor struct {
	p *program.Env
	f runs.Flags
}

// Editor serves conversations over the Agent Client Protocol on standard input and output.
func Editor(ctx context.Context, p *program.Env, f runs.Flags) error {
	if p.InTerm {
		p.Note("acp is for editors: the messages of `agents help acp` are read from standard input; Ctrl-D ends it")
	}
	e := &editor{p, f}
	s := &acpserver.Server{Open: e.open, List: e.list, Name: "agents", Version: p.Version, NewID: session.NewID, Panicked: func(text string) { p.Warn(text) }}
	if f.Rights.Yes {
		s.Mode, e.f.Rights.Yes = acpserver.ModeAllow, false
	}
	in, out := io.Pipe()
	go func() {
		_, err := io.Copy(out, p.In)
		out.CloseWithError(err)
	}()
	defer context.AfterFunc(ctx, func() { out.Close() })()
	return s.Serve(ctx, in, p.Out)
}

// list is for acpserver.Server.List.
func (e *editor) list(_ context.Context, dir string) ([]acp.SessionInfo, error) {
	c, err := load.Config(e.p)
	if err != nil || e.f.Keep.None {
		return nil, err
	}
	const most = 100
	filter := session.Filter{Limit: most, Want: func(i *session.Info) bool { return i.Err == nil && i.Parent == "" && i.Dir != "" }}
	if dir != "" {
		if filter.Dir, err = filepath.EvalSymlinks(dir); err != nil {
			return nil, err
		}
	}
	list, err := session.List(filter, load.Paths(load.SessionDirs(e.p, c, e.f.Keep.Dir))...)
	var infos []acp.SessionInfo
	for _, i := range list {
		infos = append(infos, acp.SessionInfo{SessionID: i.ID, CWD: cmp.Or(dir, i.Dir), Title: i.Prompt, UpdatedAt: i.Changed.Format(time.RFC3339)})
	}
	return infos, err
}

// open is for acpserver.Server.Open.
func (e *editor) open(ctx context.Context, o acpserver.Opening) (*acpserver.Session, error) {
	c := &chat{p: e.p, Flags: e.f, out: e.p.Err, person: ask.Through(o.Client.Approve), editor: &o}
	c.Keep.Began = o.Dir
	unknown := jsonrpc.Errorf(acp.NotFound, "there is no session %.100q", o.ID)
	if !o.New {
		if c.Keep.None || !session.ValidID(o.ID) {
			return nil, unknown
		}
		c.Keep.Session = o.ID
	}
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	conversation := &acpserver.Session{Wait: func() error { return c.settle(c.running) }, Commands: slashCommands(), Close: c.close,
		Command: c.command,
		Hide:    func(text string) string { return c.logs.Hide(text) },
		Answer:  func(ctx context.Context, q agent.Event) (json.RawMessage, error) { return c.running.answer(ctx, q) },
		Start: func(ctx context.Context, s agent.Start, watch func(agent.Event)) (*runner.Channel, error) {
			options := host.Options{Observe: watch}
			if s.Session == "" {
				options.ID = o.ID
			}
			r, err := c.start(ctx, *s.Message, options)
			if err != nil {
				return nil, err
			}
			return r.Channel, nil
		}}
	if !o.New {
		if c.id() != o.ID {
			c.close()
			return nil, unknown
		}
		conversation.Past = session.Events(c.path)
	}
	return conversation, nil
}

// slashCommands are the commands that need neither a terminal nor another session.
func slashCommands() (list []acp.Command) {
	for _, c := range input.Commands() {
		if c.Editor {
			command := acp.Command{Name: c.Name, Description: c.About}
			if c.Args != "" {
				command.Input = map[string]string{"hint": c.Args}
			}
			list = append(list, command)
		}
	}
	return list
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
