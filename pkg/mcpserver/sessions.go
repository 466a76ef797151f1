package mcpserver

import (
	"context"
	"fmt"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
)

// sessions are the conversations in memory that can be continued.
type sessions struct {
	mu   sync.Mutex
	max  int
	tick int
	byID map[string]*conversation
}

type conversation struct {
	session *agent.Session
	name    string // of the tool
	token   int    // see TokenOf
	busy    bool
	used    int // the greater, the later
}

func newSessions(max int) *sessions {
	return &sessions{max: max, byID: map[string]*conversation{}}
}

// open implements Options.Keep.
func (s *sessions) open(ctx context.Context, a Agent, id string, r *agent.Runner) (done func(), err error) {
	token := TokenOf(ctx)
	if id != "" {
		session, err := s.take(a.Name, id, token)
		if err != nil {
			return nil, err
		}
		r.From = &agent.Resume{Session: session}
	}
	return func() { s.keep(a.Name, r.Session(), token) }, nil
}

// take returns the conversation id for one run; keep gives it back.
func (s *sessions) take(name, id string, token int) (*agent.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.byID[id]
	switch {
	case !ok || c.name != name || c.token != token:
		return nil, fmt.Errorf("%s has no session %q: the last %d sessions are kept, as long as the server runs", name, id, s.max)
	case c.busy:
		return nil, fmt.Errorf("session %q is in use by another call", id)
	}
	c.busy = true
	return c.session, nil
}

// keep keeps session until too many others were used after it.
func (s *sessions) keep(name string, session *agent.Session, token int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick++
	s.byID[session.ID] = &conversation{session: session, name: name, token: token, used: s.tick}
	for len(s.byID) > s.max {
		oldest := ""
		for id, c := range s.byID {
			if !c.busy && (oldest == "" || c.used < s.byID[oldest].used) {
				oldest = id
			}
		}
		if oldest == "" {
			return // all are in use, which the limit of calls bounds
		}
		delete(s.byID, oldest)
	}
}
