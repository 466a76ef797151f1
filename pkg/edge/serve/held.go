package serve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/runner"
)

// A held run keeps its events, so that connections can leave and come back.
type held struct {
	server   *Server
	client   *client
	slug     string
	run      *runner.Channel
	end      context.CancelCauseFunc
	kill     func()        // ends what a cancelled run waits for at once
	detached time.Duration // how long it continues without a connection

	mu      sync.Mutex
	changed *sync.Cond // lines, sent, holder or forsaken
	session string     // "" before the first event
	lines   []line     // the events that are kept
	size    int        // of lines
	spill   *spill     // has the lines that are not in memory; nil if all are
	inside  int        // the size of the lines in memory
	dropped bool       // by forget: its lines no longer count
	base    int64      // the number before that of the first event
	last    int64      // the number of the last event
	sent    int64      // the last that the connection has taken
	over    bool       // the last event is in lines
	parked  bool       // the run ended with the server, and continues with the next
	ending  bool       // the client has cancelled it
	about   about
	// forsaken means that the run no longer waits for connections.
	forsaken bool
	holder   *connection // nil if there is none
	timer    *time.Timer // runs while there is none
}

// A line is an event as it is sent. If it has no text, it is in the spill, at an offset.
type line struct {
	seq  int64
	size int
	text []byte
	at   int64
}

// Parked is the reason of runs that ended only because the server did.
const Parked = "the server is ending; the session can be resumed"

func (c *client) newHeld(slug string, start *agent.Start, base int64) *held {
	h := &held{server: c.server, client: c, slug: slug, session: start.Session, base: base, last: base, sent: base, detached: c.server.opts.Detached}
	h.changed = sync.NewCond(&h.mu)
	if d := start.Lease.DetachedSeconds; d != nil {
		h.detached = time.Duration(min(max(*d, 0), maxDetached.Seconds()) * float64(time.Second))
	}
	seconds := h.detached.Seconds()
	start.Lease.DetachedSeconds = &seconds
	return h
}

// hold starts a run that connections can leave. patient says that it waits for its place
// as long as it takes.
func (c *client) hold(ctx context.Context, h *held, start agent.Start, patient bool) error {
	run, end := context.WithCancelCause(context.WithoutCancel(ctx))
	run, h.kill = process.WithKill(run)
	begun, err := c.start(startCall{ctx, run, h.slug, start, patient})
	if err != nil {
		end(nil)
		return err
	}
	h.run, h.end = begun, end
	if h.session != "" {
		c.server.found(h, h.session)
	}
	c.server.conns.Go(h.keep)
	return nil
}

// again continues the last run of a session for a client that has events of an earlier
// server. The numbers of its events are larger than all before, so that no client takes one
// for another; the first are those that the journal has of the run.
func (c *client) again(ctx context.Context, slug string, start agent.Start, patient bool) (*held, error) {
	events, err := c.server.opts.Journal(c.own(ctx), slug, start.Session)
	if err != nil {
		return nil, err
	}
	h := c.newHeld(slug, &start, time.Now().UnixMilli()*1000)
	for _, e := range events {
		h.append(e)
	}
	if start.From > h.last {
		h.release()
		return nil, fmt.Errorf("the run has no event %d yet", start.From)
	}
	if h.over {
		h.end = func(error) {}
		return h, nil
	}
	start.Args, start.Media, start.Compact, start.From = nil, nil, false, 0
	if err := c.hold(ctx, h, start, patient); err != nil {
		h.release()
		return nil, err
	}
	return h, nil
}

// Resume continues a run that an earlier server left, as soon as there is a place. The run
// waits for its client like one whose connection was lost. It is called before
// ServeListener.
func (s *Server) Resume(token, slug string, start agent.Start) error {
	i := slices.IndexFunc(s.tokens, func(c *client) bool { return c.Name == token })
	if i < 0 {
		return fmt.Errorf("there is no token %q any more", token)
	}
	ctx := context.Background()
	release, err := s.claim(ctx, start.Session) // before a client can come
	if err != nil {
		return err
	}
	s.conns.Go(func() {
		defer release()
		h, err := s.tokens[i].again(ctx, slug, start, true)
		if err != nil {
			if s.opts.Warn != nil {
				s.opts.Warn(fmt.Sprintf("warning: session %s is not continued: %v", start.Session, err))
			}
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.holder == nil {
			h.wait()
		}
	})
	return nil
}

// keep reads the events of the run until it ends.
func (h *held) keep() {
	err := guard.Run(h.server.opts.Warn, func() error {
		for e := range h.channel().Events() {
			if h.session == "" && e.Depth == 0 && e.Session != "" {
				h.server.found(h, e.Session)
			}
			h.add(e)
		}
		return nil
	})
	h.end(err)
	if err != nil {
		_, _ = h.channel().Wait()
		h.mu.Lock()
		h.append(agent.Event{Kind: agent.EventEnd, Time: time.Now(), Session: h.session, Agent: h.slug, Status: agent.StatusFailed, Error: err.Error(), Total: &agent.TotalUsage{}})
		h.changed.Broadcast()
		h.mu.Unlock()
	}
	h.mu.Lock()
	h.run = nil // it has the whole conversation
	h.mu.Unlock()
	h.server.over(h)
}

// channel returns the run, nil if it has ended.
func (h *held) channel() *runner.Channel {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.run
}

// add adds an event. It waits while too many events have not been taken.
func (h *held) add(e agent.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.size > h.server.opts.Buffer && h.last > h.sent && !h.forsaken {
		h.changed.Wait()
	}
	if e.Kind == agent.EventEnd && e.Depth == 0 && e.Status == agent.StatusInterrupted && strings.Contains(e.Error, Parked) {
		h.parked = true
		h.changed.Broadcast()
		return
	}
	h.append(e)
	for h.size > h.server.opts.Buffer && (h.forsaken || h.lines[0].seq <= h.sent) && len(h.lines) > 1 {
		h.drop(1)
	}
	h.changed.Broadcast()
}

// append adds an event to the lines. h.mu is held.
func (h *held) append(e agent.Event) {
	h.last++
	e.Seq = h.last
	text, err := channel.EncodeEvent(e)
	if err != nil { // it is too long even without its attachments
		e = agent.Event{Time: e.Time, Kind: e.Kind, Session: e.Session, Agent: e.Agent, Depth: e.Depth, Seq: e.Seq, Status: e.Status, Key: e.Key, Error: "the event is too long for the channel"}
		text, _ = channel.EncodeEvent(e)
	}
	h.store(e.Seq, text)
	h.about.note(&e)
	h.over = e.Kind == agent.EventEnd && e.Depth == 0
}

// drop drops the first n lines. h.mu is held.
func (h *held) drop(n int) {
	for _, l := range h.lines[:n] {
		h.size -= l.size
		h.count(-l.size, -len(l.text))
	}
	h.lines = slices.Delete(h.lines, 0, n)
	if h.spill != nil && h.size == h.inside {
		h.spill.size = 0
	}
}

// acked drops the events up to seq, which the client has stored.
func (h *held) acked(seq int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for n < len(h.lines) && h.lines[n].seq <= min(seq, h.sent) {
		n++
	}
	h.drop(n)
}

// cancelled notes that the client has cancelled the run, unless session is another one below
// it; the second time, its programs are killed.
func (h *held) cancelled(session string) {
	h.mu.Lock()
	whole := session == "" || session == h.session
	again := whole && h.ending
	h.ending = h.ending || whole
	h.mu.Unlock()
	if again {
		h.kill()
	}
}

// attach makes c the holder, in place of an earlier one, from the event after from.
func (h *held) attach(c *connection, from int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.last + 1
	if len(h.lines) > 0 {
		first = h.lines[0].seq
	}
	if from < h.base { // of an earlier server
		from = h.base
	}
	switch {
	case from > h.last:
		return fmt.Errorf("the run has no event %d yet", from)
	case from < first-1:
		return fmt.Errorf("the events %d to %d are no longer kept", from+1, first-1)
	}
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	h.holder, c.taken, h.sent = c, from, from
	h.changed.Broadcast()
	return nil
}

// detach ends the hold of c, if it still is the holder: the run continues for some time.
func (h *held) detach(c *connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.holder == c {
		h.wait()
	}
}

// wait starts the time limit for the next connection. h.mu is held.
func (h *held) wait() {
	h.holder = nil
	if h.server.parking.Load() {
		h.forsaken = true
		h.changed.Broadcast()
	}
	var t *time.Timer
	t = time.AfterFunc(h.detached, func() {
		h.mu.Lock()
		current := h.timer == t
		h.mu.Unlock()
		if current {
			h.server.forget(h)
			h.abandon()
			h.end(&agent.EndError{Status: agent.StatusInterrupted, Text: fmt.Sprintf("the client did not come back within %s", h.detached)})
		}
	})
	h.timer = t
}

func (h *held) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forsaken = true
	h.changed.Broadcast()
}

// park is abandon for a run without a connection.
func (h *held) park() {
	h.mu.Lock()
	holder := h.holder
	h.mu.Unlock()
	if holder == nil {
		h.abandon()
	}
}

// wake ends a wait in next.
func (h *held) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed.Broadcast()
}

// next waits for events that c has not taken. Without any, code says why the connection
// ends.
func (h *held) next(ctx context.Context, c *connection) (lines []line, code wsconn.Code) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.holder == c && ctx.Err() == nil && c.taken == h.last && !h.over && !h.parked {
		h.changed.Wait()
	}
	switch {
	case h.holder != c || ctx.Err() != nil:
		return nil, wsconn.Replaced
	case c.taken == h.last && h.over:
		return nil, wsconn.Normal
	case c.taken == h.last:
		return nil, wsconn.Restart
	}
	i, _ := slices.BinarySearchFunc(h.lines, c.taken+1, func(l line, seq int64) int { return cmp.Compare(l.seq, seq) })
	if lines = h.read(h.lines[i:]); len(lines) == 0 {
		return nil, wsconn.Refused
	}
	return lines, wsconn.Normal
}

// took notes that c has taken the events up to seq.
func (h *held) took(c *connection, seq int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.taken = seq
	if h.holder == c {
		h.sent = seq
		h.changed.Broadcast()
	}
}

// claim waits until no other call starts a run of a session. release must follow.
func (s *Server) claim(ctx context.Context, session string) (release func(), err error) {
	for {
		s.mu.Lock()
		busy := s.claims[session]
		if busy == nil {
			done := make(chan struct{})
			s.claims[session] = done
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.claims, session)
				close(done)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// found makes a run known by its session, in place of an earlier one.
func (s *Server) found(h *held, session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	key := heldKey{h.client, session}
	if was := s.held[key]; was != nil && was != h {
		s.ended = slices.DeleteFunc(s.ended, func(o *held) bool { return o == was })
		was.release()
	}
	h.session = session
	s.held[key] = h
}

// find returns the run with a session, nil if it is not in progress or not c's.
func (s *Server) find(c *client, slug, session string) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.held[heldKey{c, session}]; h != nil && h.slug == slug {
		return h
	}
	return nil
}

// over keeps a run that has ended, for a client that reconnects. If there are too many such runs
// or they are too large, it drops those that ended first.
func (s *Server) over(h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[h.key()] != h {
		return
	}
	if h.parked {
		s.remove(h)
		return
	}
	s.ended = append(s.ended, h)
	if len(s.ended) > maxEnded {
		s.remove(s.ended[0])
	}
	for h.client.kept.Load() > maxKept {
		i := slices.IndexFunc(s.ended, func(o *held) bool { return o.client == h.client })
		if i < 0 || s.ended[i] == h {
			return
		}
		s.remove(s.ended[i])
	}
}

// remove drops a run, so that no connection can return to it. s.mu is held.
func (s *Server) remove(h *held) {
	if s.held[h.key()] != h {
		return
	}
	delete(s.held, h.key())
	s.ended = slices.DeleteFunc(s.ended, func(o *held) bool { return o == h })
	h.release()
}

// finished reports whether the last event is there.
func (h *held) finished() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over
}

// forget is remove for callers without s.mu.
func (s *Server) forget(h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(h)
}
