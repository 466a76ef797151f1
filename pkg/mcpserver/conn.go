package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

// What may wait at the same time: of one connection of standard streams, or of all
// clients over HTTP.
const (
	maxOpen   = 1024    // requests
	maxLarge  = 8       // of them, larger than largeLine
	largeLine = 1 << 20 // bytes
)

// errEnded is why calls end with their connection.
var errEnded = fmt.Errorf("the client closed the connection: %w", context.Canceled)

// An outlet is where messages go to a client. Its methods may be called at the same
// time. A message is one line of JSON with its newline.
type outlet interface {
	// send writes a message, unless nobody will ever read it.
	send(text []byte)
	// notify is send for what may be left out at the end of a connection.
	notify(text []byte)
}

// A conn is one client: a connection of standard streams, or over HTTP a session,
// or a single request of a protocol version that has no sessions.
type conn struct {
	server  *Server
	ctx     context.Context // of the whole connection
	session *session

	mu      sync.Mutex
	pending map[string]*request
	listen  json.RawMessage // id of the request that listens, nil if none does
	asked   map[string]chan<- *message
	asks    int // requests to the client so far
}

// A request is one that is being answered.
type request struct {
	conn    *conn
	out     outlet
	message *message
	token   json.RawMessage // for progress; nil: none is wanted
	cancel  context.CancelCauseFunc
	silent  bool   // cancelled by the client, who wants no answer; under conn.mu
	fault   *fault // answered in place of what the library says
}

// requestKey is where a handler finds its request. The library hands through
// nothing but the context.
type requestKey struct{}

func requestFrom(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// connect makes a conn that lives as long as ctx. disconnect must follow.
func (s *Server) connect(ctx context.Context) (*conn, error) {
	c := &conn{server: s, session: newSession(), pending: map[string]*request{}, asked: map[string]chan<- *message{}}
	c.ctx = s.mcp.WithContext(ctx, c.session)
	c.session.digest = func(uri string) [sha256.Size]byte { return s.digest(c.ctx, uri) }
	if err := s.mcp.RegisterSession(c.ctx, c.session); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
	return c, nil
}

func (c *conn) disconnect() {
	s := c.server
	s.mcp.UnregisterSession(c.ctx, c.session.SessionID())
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// forward sends the notifications of the library to out until stop is closed.
func (c *conn) forward(out outlet, stop <-chan struct{}) {
	for {
		select {
		case n := <-c.session.notifications:
			if text, ok := c.tag(n); ok {
				out.send(text)
			}
		case <-stop:
			return
		}
	}
}

// tag writes a notification with the id of the request that listens for it.
func (c *conn) tag(n mcp.JSONRPCNotification) ([]byte, bool) {
	c.mu.Lock()
	if c.listen != nil {
		meta := map[string]any{}
		maps.Copy(meta, n.Params.Meta)
		meta[mcp.MetaKeySubscriptionID] = c.listen
		n.Params.Meta = meta
	}
	c.mu.Unlock()
	text, err := encode(n)
	return text, err == nil
}

// initialize answers the request that begins a session, and reports whether it did.
func (c *conn) initialize(m *message) (answered []byte, ok bool) {
	text, err := m.encode()
	if err != nil {
		return refusal(m.id, invalid("%v", err)), false
	}
	response := c.server.mcp.HandleMessage(c.ctx, text)
	if _, failed := response.(mcp.JSONRPCError); !failed {
		c.session.greeted.Store(true)
		ok = true
	}
	return answer(m.id, response), ok
}

// enter makes m known as a request that is being answered, whose further messages
// go to out and which cancel ends. header is nil on standard streams.
func (c *conn) enter(m *message, out outlet, header http.Header, cancel context.CancelCauseFunc) (*request, *fault) {
	r := &request{conn: c, out: out, message: m, token: m.token(), cancel: cancel}
	if m.modern {
		c.session.modern.Store(true)
	}
	if f := c.server.check(m, header); f != nil {
		return r, f
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[m.key] != nil {
		return r, invalid("the id %s is that of a request that is not answered yet", m.id)
	}
	c.pending[m.key] = r
	if m.listens() {
		c.listen = m.id
	}
	return r, nil
}

// check finds what is wrong with a request before it is handed to the library.
func (s *Server) check(m *message, header http.Header) *fault {
	if header != nil && m.modern {
		if f := s.checkHeader(m, header); f != nil {
			return f
		}
	}
	switch m.method {
	case string(mcp.MethodToolsCall):
		if s.mcp.GetTool(m.name) == nil {
			return &fault{Code: mcp.INVALID_PARAMS, Message: "unknown tool: " + m.name}
		}
	case string(mcp.MethodPromptsGet):
		return s.checkPrompt(m)
	}
	return nil
}

// answer answers the request r, which enter made, with ctx as its life. code is that
// of an error, 0 if there is none; without a text the client wants no answer.
func (r *request) answer(ctx context.Context) (text []byte, code int) {
	m, c := r.message, r.conn
	encoded, err := m.encode()
	if err != nil {
		c.leave(r)
		return refusal(m.id, invalid("%v", err)), mcp.INVALID_REQUEST
	}
	response := c.server.mcp.HandleMessage(context.WithValue(ctx, requestKey{}, r), encoded)
	if c.leave(r) {
		return nil, 0
	}
	if r.fault != nil {
		return refusal(m.id, r.fault), r.fault.Code
	}
	if failed, ok := response.(mcp.JSONRPCError); ok {
		code = failed.Error.Code
		uri, _ := decodeText(m.params["uri"])
		if m.method == string(mcp.MethodResourcesRead) && uri != "" && (code == mcp.RESOURCE_NOT_FOUND || code == mcp.INVALID_PARAMS) {
			f := noResource(m, uri)
			return refusal(m.id, f), f.Code
		}
	}
	return answer(m.id, response), code
}

// leave forgets r, and reports whether nobody wants its answer.
func (c *conn) leave(r *request) (silent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, r.message.key)
	if r.message.listens() {
		c.listen = nil
	}
	return r.silent
}

// stopListening ends the requests that listen: there is no answer to wait for.
func (c *conn) stopListening() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.pending {
		if r.message.listens() {
			r.cancel(errEnded)
		}
	}
}

// told takes in a message that wants no answer: that a request is cancelled, or the
// answer to a request of ours. All else means nothing.
func (c *conn) told(m *message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.answers() {
		if answered := c.asked[m.key]; answered != nil {
			delete(c.asked, m.key)
			answered <- m // has room for one
		}
		return
	}
	key, ok := idKey(m.params["requestId"])
	if m.method != string(mcp.MethodNotificationCancelled) || !ok {
		return
	}
	if r := c.pending[key]; r != nil {
		r.silent = true
		r.cancel(fmt.Errorf("the client cancelled the call: %w", context.Canceled))
	}
}

// ask sends the client a request of our own on the way of r's answer, and decodes
// what it answers into result.
func (r *request) ask(ctx context.Context, method mcp.MCPMethod, params, result any) error {
	c := r.conn
	answered := make(chan *message, 1)
	c.mu.Lock()
	c.asks++
	id := fmt.Sprintf("server-%d", c.asks)
	key := "s" + id
	c.asked[key] = answered
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asked, key)
	}()
	request := map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "id": id, "method": method}
	if params != nil {
		request["params"] = params
	}
	text, err := encode(request)
	if err != nil {
		return err
	}
	r.out.send(text)
	select {
	case m := <-answered:
		if m.failure != nil {
			return fmt.Errorf("%s: the client answered: %s", method, m.failure.Message)
		}
		return json.Unmarshal(m.result, result)
	case <-ctx.Done():
		if text, err := encode(notification(string(mcp.MethodNotificationCancelled), map[string]any{"requestId": id})); err == nil {
			r.out.notify(text)
		}
		return context.Cause(ctx)
	}
}

// notification is a message that wants no answer.
func notification(method string, params any) map[string]any {
	return map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "method": method, "params": params}
}
