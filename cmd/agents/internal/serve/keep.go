package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/keep"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/session"
)

// keeper returns the function that opens the sessions of runs on disk for clients
// (session.Options.Client); nil if none are stored.
func (s *service) keeper(client func(context.Context) string) (func(context.Context, host.Agent, string) (host.Session, error), error) {
	if s.flags.Keep.None {
		return nil, nil
	}
	places := load.SessionDirs(s.p, s.trees[0].Config, s.flags.Keep.Dir)
	s.dirs = load.Paths(places)
	first, err := keep.NewSession(s.p, places[0], s.flags.Keep.Dir != "" || s.trees[0].Config.File.SessionDir != "")
	if first == nil {
		return nil, err
	}
	return func(ctx context.Context, a host.Agent, id string) (host.Session, error) {
		if id != "" {
			return s.earlier(a, id, client(ctx))
		}
		o := sessions.NewOptions()
		o.Client = client(ctx)
		return keep.New(s.p, session.Create(places[0].Path, o)), nil
	}, nil
}

// earlier opens the session that a client names. It wants the full id, which cannot be
// guessed, and does not reveal which others exist.
func (s *service) earlier(a host.Agent, id, client string) (host.Session, error) {
	unknown := fmt.Errorf("%s has no session %q", a.Name, id)
	path := s.sessionOf(id, client)
	if path == "" {
		return nil, unknown
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
	return keep.Earlier(s.p, j, past), nil
}

// agentOf makes the agent of a session the only one that is served.
func (s *service) agentOf(name string) error {
	s.p.Global.AgentFiles, s.p.Global.Agent = nil, ""
	path, err := (&sessions.Store{Env: s.p, Dir: s.flags.Keep.Dir}).Find(name)
	if err != nil {
		return err
	}
	first, err := sessions.First(session.Events(path))
	if err != nil {
		return err
	}
	file, suggested, err := keep.AgentOf(s.p, path, first.Source)
	if err == nil && file == "" {
		err = failure.NothingRan(fmt.Errorf("session %s names no agent file that you trust", name), "name "+cmp.Or(suggested, "its file")+" with --agent-file")
	}
	s.of.File, s.of.Agent = file, first.Agent
	return err
}

// sessionOf is folderOf for a client. It also returns "" if the session belongs to another
// client or was begun locally. Local use may continue every session.
func (s *service) sessionOf(id, client string) string {
	path := folderOf(s.dirs, id)
	if of, err := session.ClientOf(path); client != "" && (err != nil || of != client) {
		return ""
	}
	return path
}

// folderOf returns the folder of a session in dirs, "" if there is none. The id comes from
// a client: it is never a path.
func folderOf(dirs []string, id string) string {
	for _, dir := range dirs {
		path := filepath.Join(dir, id)
		if info, err := os.Stat(path); session.ValidID(id) && err == nil && info.IsDir() {
			return path
		}
	}
	return ""
}
