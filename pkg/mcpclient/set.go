package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/agent"
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

// A Toolset is the tools of one server. Its methods are safe for concurrent use.
type Toolset struct {
	server  Server
	opts    Options
	invalid error           // what is wrong with server
	life    context.Context // of what is not bound to one call
	stop    context.CancelFunc
	hurry   context.Context // its end cuts the waits for programs short
	rush    context.CancelFunc
	work    sync.WaitGroup // flights, and connections that are ending

	mu       sync.Mutex
	closed   bool
	conn     *conn     // the last one; may be dead
	started  time.Time // when conn had started
	flight   *flight   // under way, nil if none is
	tools    []agent.Tool
	listed   time.Time // when tools were asked for
	fresh    bool      // and that the server gave them
	lazy     bool      // tools are those of the cache: the server was not needed yet
	looked   bool      // into the cache
	file     cacheFile // of the server as it was started; of the flight under way
	told     string    // the instructions that came with tools
	err      error     // what is wrong with the server or its tools
	old      bool      // the server is greeted with initialize
	failures int       // in a row
	retryAt  time.Time
}

// A flight is a start of the server, or a look at its tools, that several
// callers wait for.
type flight struct{ done chan struct{} }

// Open makes a Toolset of server. It starts nothing. Whoever opens a Toolset
// closes it.
func Open(server Server, opts Options) *Toolset {
	s := &Toolset{server: server, opts: opts, invalid: server.check()}
	s.life, s.stop = context.WithCancel(context.Background())
	s.hurry, s.rush = context.WithCancel(context.Background())
	return s
}

// Start starts the server in the background, if it is not running, so that a
// later call need not wait as long, and Tools has what the server says now.
func (s *Toolset) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked = true
	s.board(true)
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
	if s.lazy || s.conn != nil && !s.conn.dead() {
		return s.told, nil
	}
	return "", s.state()
}

// Protocol returns the version of the protocol that is spoken with the server,
// or "" while there is no connection.
func (s *Toolset) Protocol() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil || s.conn.dead() {
		return ""
	}
	return s.conn.version
}

// Close ends the server and every call under way. It returns when the program,
// all that it started and all goroutines have ended. When ctx ends, the program
// is killed without further waiting. Close may be called any number of times.
func (s *Toolset) Close(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.rush)()
	s.mu.Lock()
	s.closed = true
	c := s.conn
	s.mu.Unlock()
	s.stop()
	if c != nil {
		c.shut()
	}
	s.work.Wait()
	s.rush()
	return nil
}

// connect returns a connection to the server, which it starts if need be.
func (s *Toolset) connect(ctx context.Context) (*conn, error) {
	if err := s.wait(ctx, true); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && !s.conn.dead() {
		return s.conn, nil
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

// wait waits for a flight, if one is needed. With alive, a running server is
// enough, however old its list of tools is.
func (s *Toolset) wait(ctx context.Context, alive bool) error {
	if s.invalid != nil {
		return s.named(s.invalid)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return s.named(ErrClosed)
	}
	if alive && s.conn != nil && !s.conn.dead() {
		s.mu.Unlock()
		return nil
	}
	s.recall()
	f := s.board(alive)
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return s.named(fmt.Errorf("waited for its start: %w", context.Cause(ctx)))
	}
}

// board returns the flight that is under way, or starts one if it is needed. With
// alive, the tools of the cache are not enough. s.mu is held.
func (s *Toolset) board(alive bool) *flight {
	if s.flight != nil {
		return s.flight
	}
	if s.closed || s.lazy && !alive || !s.due() {
		return nil
	}
	s.lazy = false
	f := &flight{done: make(chan struct{})}
	s.flight = f
	s.work.Go(func() {
		defer close(f.done)
		s.fly()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.flight = nil
	})
	return f
}

// due reports whether there is something to do: start the server, look at its
// tools again, or clear up behind it. s.mu is held.
func (s *Toolset) due() bool {
	now := s.opts.now()
	switch {
	case s.invalid != nil:
		return false
	case s.conn == nil:
		return s.failures < maxFailures && !now.Before(s.retryAt)
	case s.conn.dead(), s.conn.changed.Load():
		return true
	case s.fresh && s.conn.tells():
		return false
	default:
		return now.Sub(s.listed) >= s.server.pollInterval()
	}
}

// bury takes note of the end of the connection, and reports whether the server
// may be started again at once.
func (s *Toolset) bury(ctx context.Context, c *conn) bool {
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

// fly starts the server if it is not running, and asks for its tools.
func (s *Toolset) fly() {
	limit := s.server.startTimeout()
	ctx, cancel := context.WithTimeoutCause(s.life, limit, fmt.Errorf("no answer within %s", seconds(limit)))
	defer cancel()
	s.mu.Lock()
	c, old := s.conn, s.old
	s.mu.Unlock()
	if c != nil && c.dead() {
		if !s.bury(ctx, c) {
			return
		}
		c = nil
	}
	if c == nil {
		s.file = s.cache()
		var err error
		if c, err = s.dial(ctx, old); err != nil {
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
	s.tools, s.told = tools, l.instructions
}

// recall takes the tools from the cache, the first time that anything is asked
// of s. s.mu is held.
func (s *Toolset) recall() {
	if s.looked || s.flight != nil {
		return
	}
	s.looked = true
	l := s.cache().find()
	if l == nil {
		return
	}
	tools, problems := s.offer(l)
	for _, t := range tools {
		t.(*Tool).recalled = true
	}
	s.tools, s.told, s.err, s.lazy = tools, l.instructions, joinProblems(problems), true
	s.old = !mcp.IsModernProtocol(l.protocol)
}

// stale is why t, which came from the cache, must not be called now that the
// server has said what it has.
func (s *Toolset) stale(t *Tool) error {
	if !t.recalled {
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

// failed takes note of a start that failed.
func (s *Toolset) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.err = nil, err
	s.failures++
	s.retryAt = s.opts.now().Add(pause(s.failures))
}

// dial starts the server and agrees on a protocol with it.
func (s *Toolset) dial(ctx context.Context, old bool) (*conn, error) {
	c, err := s.dialOnce(ctx, old)
	if errors.Is(err, errDiedAtProbe) {
		s.opts.log("the server ended at server/discover, which it may not know; it is started again and greeted with initialize")
		s.mu.Lock()
		s.old = true
		s.mu.Unlock()
		c, err = s.dialOnce(ctx, true)
	}
	return c, err
}

func (s *Toolset) dialOnce(ctx context.Context, old bool) (*conn, error) {
	c, err := s.newConn()
	if err != nil {
		return nil, err
	}
	s.work.Go(func() { s.follow(c) })
	if err := c.handshake(ctx, old); err != nil {
		if !errors.Is(err, errDiedAtProbe) {
			err = c.withOutput(fmt.Errorf("start it: %w", err))
		}
		c.shut() // follow waits for its end
		return nil, err
	}
	c.listen()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.shut()
		return nil, ErrClosed
	}
	s.old = !mcp.IsModernProtocol(c.version)
	s.conn, s.started = c, s.opts.now()
	return c, nil
}

// newConn starts the server or prepares the connection to it.
func (s *Toolset) newConn() (*conn, error) {
	c := newConn(&s.server, &s.opts)
	var t transport.Interface
	if s.server.URL != "" {
		carrier, reply, err := c.overHTTP()
		if err != nil {
			return nil, err
		}
		c.tap = &tap{inner: carrier, http: true, life: c.life, reply: reply}
		t = httpTap{c.tap}
	} else {
		child, err := startChild(&s.server, &s.opts)
		if err != nil {
			return nil, err
		}
		c.child, c.lost = child, child.out.end
		c.tap = &tap{inner: child.transport()}
		t = c.tap
	}
	if err := c.open(t); err != nil {
		c.shut()
		<-c.gone
		return nil, err
	}
	return c, nil
}

// follow waits for the end of c, and hurries it along when Close is in a hurry.
func (s *Toolset) follow(c *conn) {
	defer context.AfterFunc(s.hurry, c.hurry)()
	<-c.gone
}

// named adds the server's name to err.
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

// withOutput adds to err what the program has written besides messages, unless
// err has it.
func (c *conn) withOutput(err error) error {
	var ended *endError
	if c.child == nil || errors.As(err, &ended) {
		return err
	}
	if text := c.child.said(); text != "" {
		return fmt.Errorf("%w%s", err, text)
	}
	return err
}

// tells reports whether the server says when its tools change.
func (c *conn) tells() bool {
	switch {
	case c.caps.Tools == nil || !c.caps.Tools.ListChanged:
		return false
	case mcp.IsModernProtocol(c.version):
		return c.listens.Load()
	default:
		return c.child != nil // over HTTP nobody can say whether it listens
	}
}

// listen asks a server of the newest protocol to tell of changes; older ones do
// so by themselves.
func (c *conn) listen() {
	if !mcp.IsModernProtocol(c.version) || c.caps.Tools == nil || !c.caps.Tools.ListChanged {
		return
	}
	c.listens.Store(true)
	c.tap.spawn(func() {
		defer c.listens.Store(false)
		_ = c.client.Listen(c.life, mcp.SubscriptionFilter{ToolsListChanged: true, ResourcesListChanged: c.caps.Resources != nil && c.caps.Resources.ListChanged})
	})
}
