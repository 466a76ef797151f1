package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// What may wait at the same time in one connection. Beyond it nothing is read.
const (
	maxOpen   = 1024    // requests
	maxLarge  = 8       // of them, larger than largeLine
	largeLine = 1 << 20 // bytes
)

// flushWait is how long a client that does not read is waited for at the end.
const flushWait = 2 * time.Second

// errEnded is why calls end with their connection.
var errEnded = fmt.Errorf("the client closed the connection: %w", context.Canceled)

// A conn is one connection.
type conn struct {
	server  *Server
	ctx     context.Context // of the whole connection
	session *session
	greeted bool // initialize was answered; for the loop of Serve alone

	lines chan []byte   // to the writer
	gone  chan struct{} // closed when nothing can be written any more
	open  chan struct{}
	large chan struct{}
	tasks sync.WaitGroup

	mu      sync.Mutex
	pending map[string]*request
	listen  json.RawMessage // id of the request that listens, nil if none does
}

// A request is one that is being answered.
type request struct {
	conn   *conn
	token  json.RawMessage // for progress; nil: none is wanted
	args   string          // of a call: the object that the client sent
	listen bool
	cancel context.CancelCauseFunc
	silent bool // cancelled by the client, who wants no answer; under conn.mu
}

// requestKey is where a handler finds its request. The library hands through
// nothing but the context.
type requestKey struct{}

// Serve answers the messages that come in, a line each, until the end of in or of
// ctx, and returns when every call has ended. At the end of in the calls that run
// have Options.Linger; then, and at the end of ctx at once, they are ended.
// All requests are answered except those that the client cancelled. Nothing but
// messages is written to out, one Write each.
//
// The error is that of a write. A Read that waits when ctx ends is left behind:
// whoever owns in closes it; so is a Write that still waits two seconds after all.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &conn{
		server: s, session: newSession(),
		lines: make(chan []byte), gone: make(chan struct{}),
		open: make(chan struct{}, maxOpen), large: make(chan struct{}, maxLarge),
		pending: map[string]*request{},
	}
	c.ctx = s.mcp.WithContext(ctx, c.session)
	if err := s.mcp.RegisterSession(c.ctx, c.session); err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() { written <- c.write(out, cancel) }()
	forwarded := make(chan struct{})
	stop := make(chan struct{})
	go func() { defer close(forwarded); c.forward(stop) }()

	c.read(in)
	c.linger(cancel)
	s.mcp.UnregisterSession(c.ctx, c.session.SessionID())
	close(stop)
	<-forwarded
	close(c.lines)
	select {
	case err := <-written:
		return err
	case <-time.After(flushWait):
		return errors.New("the client does not read its answers")
	}
}

// write writes lines until there are no more. A failure ends the connection.
func (c *conn) write(out io.Writer, cancel context.CancelCauseFunc) error {
	for l := range c.lines {
		if _, err := out.Write(l); err != nil {
			cancel(errEnded)
			close(c.gone)
			return err
		}
	}
	return nil
}

// send writes a line if that is still possible.
func (c *conn) send(text []byte) {
	select {
	case c.lines <- text:
		return
	case <-c.gone:
		return
	case <-c.ctx.Done():
	}
	timer := time.NewTimer(flushWait)
	defer timer.Stop()
	select {
	case c.lines <- text:
	case <-c.gone:
	case <-timer.C:
	}
}

// notify sends a notification, unless the connection is at its end.
func (c *conn) notify(method string, params any) {
	text, err := encode(map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "method": method, "params": params})
	if err != nil {
		return
	}
	select {
	case c.lines <- text:
	case <-c.gone:
	case <-c.ctx.Done():
	}
}

// forward sends the notifications of the library until stop is closed.
func (c *conn) forward(stop <-chan struct{}) {
	for {
		select {
		case n := <-c.session.notifications:
			c.mu.Lock()
			if c.listen != nil {
				meta := map[string]any{}
				maps.Copy(meta, n.Params.Meta)
				meta[mcp.MetaKeySubscriptionID] = c.listen
				n.Params.Meta = meta
			}
			c.mu.Unlock()
			if text, err := encode(n); err == nil {
				c.send(text)
			}
		case <-stop:
			return
		}
	}
}

// read takes in messages until the end of in or of the connection.
func (c *conn) read(in io.Reader) {
	lines := make(chan line)
	stop := make(chan struct{})
	defer close(stop)
	go readLines(in, lines, stop)
	for {
		select {
		case <-c.ctx.Done():
			return
		case l, ok := <-lines:
			if !ok {
				return
			}
			c.take(l)
		}
	}
}

// take begins to answer a line.
func (c *conn) take(l line) {
	if l.tooLong {
		c.refuse(l.id, invalid("the message is longer than %d bytes", MaxLine))
		return
	}
	m, f := parse(l.text)
	switch {
	case f != nil && m == nil:
		c.refuse(nil, f)
	case f != nil:
		c.refuse(m.id, f)
	case m == nil:
	case m.id == nil:
		c.notified(m)
	case !c.greeted && !m.modern && !first(m.method):
		c.refuse(m.id, invalid("the connection begins with initialize, not with %s", m.method))
	case m.method == string(mcp.MethodInitialize):
		c.initialize(m)
	default:
		c.begin(m, len(l.text) > largeLine)
	}
}

// first reports whether a connection may begin with a request.
func first(method string) bool {
	switch method {
	case string(mcp.MethodInitialize), string(mcp.MethodPing), string(mcp.MethodServerDiscover):
		return true
	}
	return false
}

// initialize answers at once: what follows may depend on it.
func (c *conn) initialize(m *message) {
	text, err := m.encode()
	if err != nil {
		c.refuse(m.id, invalid("%v", err))
		return
	}
	response := c.server.mcp.HandleMessage(c.ctx, text)
	if _, failed := response.(mcp.JSONRPCError); !failed {
		c.greeted = true
		c.session.greeted.Store(true)
	}
	c.send(answer(m.id, response))
}

// refuse answers with an error.
func (c *conn) refuse(id json.RawMessage, f *fault) {
	c.spawn(func() { c.send(refusal(id, f)) })
}

// spawn runs f at the same time as the rest, and waits while too much is open.
func (c *conn) spawn(f func()) {
	select {
	case c.open <- struct{}{}:
	case <-c.ctx.Done():
		return
	}
	c.tasks.Go(func() {
		defer func() { <-c.open }()
		f()
	})
}

// begin starts to answer a request.
func (c *conn) begin(m *message, large bool) {
	text, err := m.encode()
	if err != nil {
		c.refuse(m.id, invalid("%v", err))
		return
	}
	if large {
		select {
		case c.large <- struct{}{}:
		case <-c.ctx.Done():
			return
		}
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	r := &request{conn: c, token: m.token(), args: m.args, cancel: cancel,
		listen: m.method == string(mcp.MethodSubscriptionsListen)}
	f := c.enter(m, r)
	c.spawn(func() {
		defer cancel(nil)
		if large {
			defer func() { <-c.large }()
		}
		if f != nil {
			c.send(refusal(m.id, f))
			return
		}
		response := c.server.mcp.HandleMessage(context.WithValue(ctx, requestKey{}, r), text)
		if !c.leave(m, r) {
			c.send(answer(m.id, response))
		}
	})
}

// enter makes r known as the request of m's id.
func (c *conn) enter(m *message, r *request) *fault {
	if m.modern {
		c.session.modern.Store(true)
	}
	if m.method == string(mcp.MethodToolsCall) && c.server.mcp.GetTool(m.name) == nil {
		return &fault{mcp.INVALID_PARAMS, fmt.Sprintf("unknown tool: %s", m.name)}
	}
	if m.method == string(mcp.MethodPromptsGet) {
		if f := c.server.checkPrompt(m); f != nil {
			return f
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[m.key] != nil {
		return invalid("the id %s is that of a request that is not answered yet", m.id)
	}
	c.pending[m.key] = r
	if r.listen {
		c.listen = m.id
	}
	return nil
}

// leave forgets r, and reports whether nobody wants its answer.
func (c *conn) leave(m *message, r *request) (silent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, m.key)
	if r.listen {
		c.listen = nil
	}
	return r.silent
}

// notified takes in a notification. The only one that means something is
// that a request is cancelled.
func (c *conn) notified(m *message) {
	if m.method != string(mcp.MethodNotificationCancelled) {
		return
	}
	key, ok := idKey(m.params["requestId"])
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.pending[key]; r != nil {
		r.silent = true
		r.cancel(fmt.Errorf("the client cancelled the call: %w", context.Canceled))
	}
}

// linger waits for what is open, and ends it when its time is over.
func (c *conn) linger(cancel context.CancelCauseFunc) {
	c.mu.Lock()
	for _, r := range c.pending {
		if r.listen {
			r.cancel(errEnded) // there is no answer to wait for
		}
	}
	c.mu.Unlock()
	done := make(chan struct{})
	go func() { c.tasks.Wait(); close(done) }()
	timer := time.NewTimer(c.server.opts.Linger)
	defer timer.Stop()
	select {
	case <-done:
	case <-c.ctx.Done():
	case <-timer.C:
	}
	cancel(errEnded)
	<-done
}
