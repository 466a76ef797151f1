package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/checkpoint"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/session"
)

// A Session stores one run, which may continue earlier ones.
type Session interface {
	// Attach makes a Runner, which has not been used yet, continue the session and write to it.
	Attach(r *runner.Runner) error
	// Close is called when the run has ended, with its conversation, or with nil if nothing ran.
	Close(conversation *agent.Session) error
}

// A live run is one that has not ended, or whose session is still open.
type live struct {
	session string
	ended   bool          // the last event was seen; under Host.mu
	closed  chan struct{} // closed when the session is
}

// open opens the session of a run; it returns nil if the run is not stored. If an earlier run of
// the session has just ended, it waits until that run has closed the session.
func (h *Host) open(ctx context.Context, a Agent, start agent.Start) (Session, error) {
	if h.Sessions == nil || start.Journal {
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
	return h.Sessions(ctx, a, start.Session)
}

// note records the session of a run, and whether the run has ended.
func (h *Host) note(run *live, e *agent.Event) {
	if e.Depth > 0 || run.session != "" && e.Kind != agent.EventEnd {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	run.ended = e.Kind == agent.EventEnd
	if run.session == "" && e.Session != "" {
		run.session = e.Session
		if h.live == nil {
			h.live = map[string]*live{}
		}
		h.live[e.Session] = run
	}
}

// Running returns the number of runs that have begun and not ended.
func (h *Host) Running() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, run := range h.live {
		if !run.ended {
			n++
		}
	}
	return n
}

// end closes the session of a run that has ended.
func (h *Host) end(c *runner.Channel, run *live, s Session, o Options) {
	<-c.Done()
	var err error
	if s != nil {
		err = s.Close(c.Session())
	}
	if err != nil && h.Warn != nil {
		h.Warn(fmt.Sprintf("session %s: %v", run.session, err))
	}
	if o.Closed != nil {
		o.Closed()
	}
	h.mu.Lock()
	if h.live[run.session] == run {
		delete(h.live, run.session)
	}
	if err != nil && len(h.closed) < 100 { // nobody may ask
		h.closed = append(h.closed, fmt.Errorf("%w: %w", agent.ErrJournal, err))
	}
	h.mu.Unlock()
	close(run.closed)
}

// A Kept is a Session on disk.
type Kept struct {
	*session.Journal
	// Past is what the run continues; nil for a new session.
	Past *session.Past
	// Wrap, if it is not nil, returns the journal that the run writes to.
	Wrap func(agent.Journal) agent.Journal
	// Warn gets warnings about processes that the earlier run left; nil ignores them.
	Warn func(text string)
	// Any permits every agent to continue the session, because it does not name a real one.
	Any bool

	keeper *checkpoint.Keeper // nil if no checkpoints are made
}

// An OtherAgentError reports that Agent cannot continue a session, because it belongs to agent
// Of.
type OtherAgentError struct{ Session, Of, Agent string }

func (e *OtherAgentError) Error() string {
	return fmt.Sprintf("session %s is of agent %s, not of %s", e.Session, e.Of, e.Agent)
}

// Attach implements Session.
func (k *Kept) Attach(r *runner.Runner) error {
	r.Journal = k.Journal
	if k.Wrap != nil {
		r.Journal = k.Wrap(k.Journal)
	}
	r.NewID = k.NewID
	unseen := r.Unseen
	r.Unseen = func() []string {
		if k.Path() == "" { // nothing was written yet
			return unseen()
		}
		return slices.Concat(unseen(), session.FilesOf(k.Path()))
	}
	if folder := r.Agent.Checkpoints; folder != "" {
		if k.keeper == nil {
			k.keeper = &checkpoint.Keeper{Folder: folder, Place: func() checkpoint.Place { return session.CheckpointsOf(k.Path(), k.ID()) }}
		}
		r.Checkpoint = k.keeper.Before
	}
	if k.Past == nil {
		return nil
	}
	if was := k.Past.Session.Agent; !k.Any && was != "" && was != r.Agent.Slug {
		return &OtherAgentError{k.ID(), was, r.Agent.Slug}
	}
	resume(r, &k.Past.Resume)
	k.endLeft()
	return nil
}

// resume makes r continue from past, below the same caller as before.
func resume(r *runner.Runner, past *runner.Resume) {
	if from := r.From; from != nil {
		past.Depth, past.Traceparent = from.Depth, from.Traceparent
	}
	r.From = past
}

// Close implements Session.
func (k *Kept) Close(*agent.Session) error {
	if k.keeper == nil {
		return k.Journal.Close()
	}
	return errors.Join(k.keeper.Close(), k.Journal.Close())
}

// endLeft ends processes that calls of the earlier run left running. If the process of that
// run is alive, this session is a copy, and the processes still belong to the original.
func (k *Kept) endLeft() {
	warn := k.Warn
	if warn == nil {
		warn = func(string) {}
	}
	if pid := k.Past.OwnerPID; pid != 0 {
		if len(k.Past.Started) > 0 {
			warn(fmt.Sprintf("this is a copy of a session that process %d still runs: the processes of its calls are not ended", pid))
		}
		return
	}
	ended, alive := 0, 0
	for _, key := range k.Past.Started {
		e, a := process.EndLeft(key)
		ended, alive = ended+e, alive+a
	}
	if ended+alive > 0 {
		warn(fmt.Sprintf("%d processes that the earlier run left running were ended, %d could not be ended", ended, alive))
	}
}

// A Memory keeps the latest conversations until the program ends.
type Memory struct {
	// Max is how many it keeps. The least recently used one is dropped.
	Max int
	// Owner returns the client of a request; nil means that all requests are of one client.
	Owner func(ctx context.Context) string

	mu   sync.Mutex
	tick int
	byID map[string]*remembered
}

type remembered struct {
	resume runner.Resume
	agent  string // its name
	owner  string
	busy   bool
	used   int // the greater, the later
}

// Open is a function for Host.Sessions.
func (m *Memory) Open(ctx context.Context, a Agent, id string) (Session, error) {
	s := &memorySession{memory: m, agent: a.Name}
	if m.Owner != nil {
		s.owner = m.Owner(ctx)
	}
	if id == "" {
		return s, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.byID[id]
	switch {
	case !ok || c.agent != a.Name || c.owner != s.owner:
		return nil, fmt.Errorf("%s has no session %q: the last %d sessions are kept, as long as the program runs", a.Name, id, m.Max)
	case c.busy:
		return nil, fmt.Errorf("session %q is in use by another call", id)
	}
	c.busy, s.from = true, c
	return s, nil
}

// keep stores a conversation, and drops the least recently used ones beyond Max.
func (m *Memory) keep(id string, c *remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byID == nil {
		m.byID = map[string]*remembered{}
	}
	m.tick++
	c.used, c.busy = m.tick, false
	m.byID[id] = c
	for len(m.byID) > m.Max {
		oldest := ""
		for id, c := range m.byID {
			if !c.busy && (oldest == "" || c.used < m.byID[oldest].used) {
				oldest = id
			}
		}
		if oldest == "" {
			return // all are in use
		}
		delete(m.byID, oldest)
	}
}

type memorySession struct {
	memory *Memory
	agent  string
	owner  string
	from   *remembered // nil for a new conversation
}

func (s *memorySession) Attach(r *runner.Runner) error {
	if s.from != nil {
		resume(r, &s.from.resume)
	}
	return nil
}

func (s *memorySession) Close(conversation *agent.Session) error {
	switch {
	case conversation != nil && conversation.ID != "":
		s.memory.keep(conversation.ID, &remembered{agent: s.agent, owner: s.owner, resume: runner.Resume{Session: conversation, Context: conversation.Context}})
	case s.from != nil: // nothing ran
		s.memory.keep(s.from.resume.Session.ID, s.from)
	}
	return nil
}
