package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/process"
)

// How a server that fails is started again. After the nth failure in a row the
// next start waits for firstPause times 2 to the power of n-1, at most maxPause;
// only the end of a server that had started well is followed by a start at once.
// After maxFailures there is no further start. A server that has run for
// wellAfter has no failures any more.
const (
	firstPause  = 5 * time.Second
	maxPause    = 5 * time.Minute
	maxFailures = 8
	wellAfter   = time.Minute
)

// ErrClosed: the Toolset was closed.
var ErrClosed = errors.New("it was closed")

// The states of a Toolset, all under Toolset.mu:
//
//	closed       closed is set; nothing is started any more
//	cached       cached is set: the tools are those of the cache, and the server
//	             was not needed yet; a call starts it
//	connected    conn is open; the tools are listed again when the server says that
//	             they have changed, or from time to time
//	lost         conn is dead; the next use takes its end into account and starts the
//	             server again
//	disconnected conn is nil; the next use starts the server, but not before retryAt,
//	             nor after maxFailures
//
// A refresh leads from one to another: it starts the server unless it is running, and
// asks for its tools. There is at most one; callers wait for it together.

// A Toolset is the tools of one server. Its methods are safe for concurrent use.
type Toolset struct {
	server  Server
	opts    Options
	invalid error       // what is wrong with server
	pinned  process.Pin // its programs at Open; nil if they may change
	work    sync.WaitGroup
	killed  context.Context // ends with the context of Close: programs are then killed without waiting
	kill    context.CancelFunc

	mu           sync.Mutex
	closed       bool
	conn         *conn     // the last one; may be dead
	started      time.Time // when conn had started
	refresh      *refresh  // nil if none is in progress
	tools        []agent.Tool
	instructions string // that came with tools
	listed       time.Time
	fresh        bool      // the server gave tools when they were last asked for
	cached       bool      // tools are those of the cache
	cacheRead    bool      // or there is nothing in it
	file         cacheFile // of the server as it was started; of the refresh
	err          error     // what is wrong with the server or its tools
	legacy       bool      // initialize is sent first
	failures     int       // in a row
	retryAt      time.Time
}

// A refresh is under way until done is closed.
type refresh struct {
	done   chan struct{}
	cancel context.CancelFunc
}

// Open makes a Toolset of server. It starts nothing. Callers close the Toolset.
func Open(server Server, opts Options) *Toolset {
	s := &Toolset{server: server, opts: opts, invalid: server.check()}
	s.killed, s.kill = context.WithCancel(context.Background())
	if opts.Pinned {
		s.pinned = process.NewPin(s.server.Programs())
	}
	return s
}

// Start starts the server in the background, if it is not running, so that a
// later call need not wait as long, and Tools has what the server says now.
func (s *Toolset) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cacheRead = true
	s.startRefresh(true)
}

// Tools implements agent.Toolset. It starts the server if need be, and waits for
// it no longer than its StartTimeout; with the tools in the cache, that is put
// off until something is asked of the server. A server that has failed is tried
// again after a pause; meanwhile the error says why, and comes with the tools
// that the server had.
func (s *Toolset) Tools(ctx context.Context) ([]agent.Tool, error) {
	if err := s.wait(ctx, false); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tools), s.state()
}

// Instructions returns what the server says about its use, for the system
// prompt. Like Tools it starts the server if need be.
func (s *Toolset) Instructions(ctx context.Context) (string, error) {
	if err := s.wait(ctx, false); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cached || s.live() != nil {
		return s.instructions, nil
	}
	return "", s.state()
}

// Protocol returns the version of the protocol that is spoken with the server,
// or "" while there is no connection.
func (s *Toolset) Protocol() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.live(); c != nil {
		return c.protocol()
	}
	return ""
}

// live is the connection, nil if there is none that is of use. s.mu is held.
func (s *Toolset) live() *conn {
	if s.conn == nil || s.conn.dead() {
		return nil
	}
	return s.conn
}

// Close ends the server and every running call. It returns when the program,
// all that it started and all goroutines have ended. When ctx ends, the program
// is killed without further waiting. Close may be called any number of times.
func (s *Toolset) Close(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.kill)()
	s.mu.Lock()
	s.closed = true
	if s.refresh != nil {
		s.refresh.cancel()
	}
	if s.conn != nil {
		s.conn.shut()
	}
	s.mu.Unlock()
	s.work.Wait()
	return nil
}

// connect returns a connection to the server, which it starts if need be.
func (s *Toolset) connect(ctx context.Context) (*conn, error) {
	if err := s.wait(ctx, true); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.live(); c != nil {
		return c, nil
	}
	if err := s.state(); err != nil {
		return nil, err
	}
	return nil, s.named(errors.New("it has just ended"))
}

// state is what is wrong with the server or its tools. Its text stays the same
// as long as that does. s.mu is held.
func (s *Toolset) state() error {
	switch {
	case s.closed:
		return s.named(ErrClosed)
	case s.err != nil && s.conn == nil && s.failures >= maxFailures:
		return s.named(fmt.Errorf("it has failed %d times and is not started again: %w", s.failures, s.err))
	default:
		return s.named(s.err)
	}
}

// wait waits for a refresh, if one is needed. With running, a server that runs is
// enough, however old its list of tools is, and the tools of the cache are not.
func (s *Toolset) wait(ctx context.Context, running bool) error {
	if s.invalid != nil {
		return s.named(s.invalid)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return s.named(ErrClosed)
	}
	if running && s.live() != nil {
		s.mu.Unlock()
		return nil
	}
	s.readCache()
	r := s.startRefresh(running)
	s.mu.Unlock()
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return s.named(fmt.Errorf("waited for its start: %w", context.Cause(ctx)))
	}
}

// startRefresh joins the refresh in progress, or starts one if it is needed. s.mu is
// held.
func (s *Toolset) startRefresh(running bool) *refresh {
	if s.refresh != nil {
		return s.refresh
	}
	if s.closed || s.cached && !running || !s.due() {
		return nil
	}
	s.cached = false
	limit := s.server.startTimeout()
	ctx, cancel := context.WithTimeoutCause(context.Background(), limit, fmt.Errorf("no answer within %s", seconds(limit)))
	r := &refresh{make(chan struct{}), cancel}
	s.refresh = r
	s.work.Go(func() {
		defer close(r.done)
		defer cancel()
		s.doRefresh(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refresh = nil
	})
	return r
}

// due reports whether there is something to do: start the server, look at its
// tools again, or release a lost connection. s.mu is held.
func (s *Toolset) due() bool {
	now := s.opts.now()
	switch {
	case s.invalid != nil:
		return false
	case s.conn == nil:
		return s.failures < maxFailures && !now.Before(s.retryAt)
	case s.conn.dead(), s.conn.changed.Load():
		return true
	case s.fresh && s.conn.notifies():
		return false
	default:
		return now.Sub(s.listed) >= s.server.pollInterval()
	}
}

// disconnect records the end of the connection, and reports whether the server
// may be started again at once.
func (s *Toolset) disconnect(ctx context.Context, c *conn) bool {
	var ended bool
	select {
	case <-c.gone:
		ended = true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ended {
		s.err = errors.New("the server takes long to end")
		return false
	}
	now := s.opts.now()
	s.conn, s.err = nil, c.cause
	if now.Sub(s.started) >= wellAfter {
		s.failures = 0
	}
	s.failures++
	s.retryAt = now
	if s.failures > 1 {
		s.retryAt = now.Add(pause(s.failures - 1))
	}
	return s.due()
}

// pause is the time between the nth failure in a row and the next start.
func pause(n int) time.Duration {
	return min(firstPause<<min(n-1, 20), maxPause)
}

// doRefresh starts the server if it is not running, and asks for its tools.
func (s *Toolset) doRefresh(ctx context.Context) {
	s.mu.Lock()
	c := s.conn
	s.mu.Unlock()
	if c != nil && c.dead() {
		if !s.disconnect(ctx, c) {
			return
		}
		c = nil
	}
	if c == nil {
		s.file = s.cache()
		var err error
		if c, err = s.dial(ctx); err != nil {
			s.failed(err)
			return
		}
	}
	c.changed.Store(false)
	l, err := c.list(ctx)
	if l == nil {
		err = c.withOutput(err)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.listed, s.fresh, s.err = s.opts.now(), false, err
		return
	}
	s.clean(l)
	if err == nil {
		s.file.keep(l)
	}
	tools, problems := s.offer(l)
	if err != nil {
		problems = slices.Insert(problems, 0, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed, s.fresh, s.err = s.opts.now(), true, joinProblems(problems)
	s.tools, s.instructions = tools, l.instructions
}

// readCache takes the tools from the cache, the first time that anything is asked of s.
// s.mu is held.
func (s *Toolset) readCache() {
	if s.cacheRead || s.refresh != nil {
		return
	}
	s.cacheRead = true
	l := s.cache().find()
	if l == nil {
		return
	}
	s.clean(l) // there may be other secrets than when it was kept
	tools, problems := s.offer(l)
	for _, t := range tools {
		t.(*Tool).cached = true
	}
	s.tools, s.instructions, s.err, s.cached = tools, l.instructions, joinProblems(problems), true
	s.legacy = !mcp.IsModernProtocol(l.protocol)
}

// stale is why t, which came from the cache, must not be called after the server has
// listed its tools.
func (s *Toolset) stale(t *Tool) error {
	if !t.cached {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.fresh {
		return nil
	}
	for _, now := range s.tools {
		if spec := now.Spec(); spec.Name == t.spec.Name {
			if string(spec.Schema) == string(t.spec.Schema) {
				return nil
			}
			return s.named(fmt.Errorf("the arguments of its tool %s have changed; look at it again", t.name))
		}
	}
	return s.named(fmt.Errorf("it has no tool %s any more", t.name))
}

func (s *Toolset) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.err = nil, err
	s.failures++
	s.retryAt = s.opts.now().Add(pause(s.failures))
}

// dial starts the server and agrees on a protocol with it.
func (s *Toolset) dial(ctx context.Context) (*conn, error) {
	c, err := s.dialOnce(ctx)
	if errors.Is(err, errEndedAtDiscover) {
		s.opts.log("the server ended at server/discover, which it may not know; it is started again with initialize")
		s.mu.Lock()
		s.legacy = true
		s.mu.Unlock()
		c, err = s.dialOnce(ctx)
	}
	return c, err
}

func (s *Toolset) dialOnce(ctx context.Context) (*conn, error) {
	if err := s.pinned.Unchanged(s.server.Programs()); err != nil {
		return nil, fmt.Errorf("start it: %w", err)
	}
	c := newConn(&s.server, &s.opts)
	if s.server.URL != "" {
		c.openURL(s.killed)
	} else if err := c.startProgram(s.killed); err != nil {
		return nil, err
	}
	s.work.Go(func() { <-c.gone }) // Close waits for it
	s.mu.Lock()
	legacy := s.legacy
	s.mu.Unlock()
	if err := c.handshake(ctx, legacy); err != nil {
		if !errors.Is(err, errEndedAtDiscover) {
			err = c.withOutput(fmt.Errorf("start it: %w", err))
		}
		c.shut()
		return nil, err
	}
	c.listen()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.shut()
		return nil, ErrClosed
	}
	s.legacy = !c.modern()
	s.conn, s.started = c, s.opts.now()
	return c, nil
}

func (s *Toolset) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("MCP server %s: %w", s.server.Name, err)
}

// explain makes the error of a call one that a model can use.
func (s *Toolset) explain(err error) error {
	var ended *endError
	if errors.As(err, &ended) {
		return s.named(fmt.Errorf("during this call, which is not repeated, %w", err))
	}
	return s.named(err)
}

// refused is what the sandbox of the program has seen and refused since it was last asked.
func (s *Toolset) refused() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return ""
	}
	if program, ok := s.conn.transport.(*stdio); ok {
		return program.proc.Refused()
	}
	return ""
}
