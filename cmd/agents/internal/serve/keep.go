package serve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agents-exe/agents/cmd/agents/internal/keep"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/mcpserver"
	"github.com/agents-exe/agents/pkg/session"
)

// keeper returns how the runs of an MCP server are kept on disk, nil if they are not.
func (s *service) keeper() (func(mcpserver.Agent, string, *agent.Runner) (func(), error), error) {
	if s.flags.Keep.None {
		return nil, nil
	}
	dirs := sessions.Dirs(s.p, s.trees[0].Config, s.flags.Keep.Dir)
	first, err := keep.NewSession(s.p, dirs[0], s.flags.Keep.Dir != "" || s.trees[0].Config.File.SessionDir != "")
	if first == nil {
		return nil, err
	}
	return func(a mcpserver.Agent, id string, r *agent.Runner) (func(), error) {
		k := &keep.Session{Journal: session.Create(dirs[0].Path, sessions.NewOptions())}
		if id != "" {
			var err error
			if k, err = s.earlier(sessions.Paths(dirs), a, id); err != nil {
				return nil, err
			}
		}
		if err := k.Attach(s.p, r); err != nil {
			k.Close()
			return nil, err
		}
		return k.Close, nil
	}, nil
}

// earlier opens the session that a client names. It wants the full id, which cannot be
// guessed, and does not reveal which others exist.
func (s *service) earlier(dirs []string, a mcpserver.Agent, id string) (*keep.Session, error) {
	unknown := fmt.Errorf("%s has no session %q", a.Name, id)
	if !session.ValidID(id) {
		return nil, unknown
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, id)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		j, past, err := session.Open(path, session.Options{})
		if _, busy := errors.AsType[*session.InUseError](err); busy {
			return nil, fmt.Errorf("session %q is in use by another call", id)
		}
		if err != nil {
			return nil, err
		}
		if past.Session.ID != id || past.Session.Agent != a.Agent.Slug || past.Session.Source != a.Agent.Source {
			j.Close()
			return nil, unknown
		}
		return &keep.Session{Journal: j, Past: past}, nil
	}
	return nil, unknown
}
