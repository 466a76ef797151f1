package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
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
	// send writes a message, unless the client cannot read it any more.
	send(text []byte)
	// notify is send for what may be left out at the end of a connection.
	notify(text []byte)
}

// A conn is one client: a connection of standard streams, or over HTTP a session,
// or a single request of a protocol version that has no sessions.
type conn struct {
	server  *Server
	session *session
	tasks   *tasks
	owner   string // of the tasks that begin here

	mu      sync.Mutex
	ended   bool
	pending map[string]*request
	listen  json.RawMessage // id of the request that listens, nil if none does
	asked   map[string]chan<- *message
	asks    int               // requests to the client so far
	resumes bool              // the client can resume streams
	replies map[string]*reply // that it can resume, by their ids
}

// A request is one that is being answered.
type request struct {
	conn    *conn
	out     outlet
	message *message
	token   json.RawMessage // for progress; nil: the client asked for none
	cancel  context.CancelCauseFunc
	silent  bool           // cancelled by the client, which expects no answer; under conn.mu
	fault   *jsonrpc.Error // answered in place of what the library says
	task    *task          // that the call became, or belongs to
}

// requestKey is the key of a request in its context, which is all that the library passes
// to a handler.
type requestKey struct{}

func requestFrom(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// connect makes a conn whose tasks belong to owner. The caller must call disconnect.
func (s *Server) connect(tasks *tasks, owner string) (*conn, error) {
	c := &conn{server: s, session: newSession(), tasks: tasks, owner: owner, pending: map[string]*request{}, asked: map[string]chan<- *message{}, replies: map[string]*reply{}}
	c.session.digest = func(uri string) [sha256.Size]byte { return s.digest(context.Background(), uri) }
	if err := s.mcp.RegisterSession(context.Background(), c.session); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
	return c, nil
}

// disconnect ends the requests of c that are being answered, and those to come.
func (c *conn) disconnect() {
	c.mu.Lock()
	c.ended = true
	for _, r := range c.pending {
		r.cancel(errEnded)
	}
	replies := slices.Collect(maps.Values(c.replies))
	c.mu.Unlock()
	for _, r := range replies {
		r.abandon()
	}
	s := c.server
	s.mcp.UnregisterSession(context.Background(), c.session.SessionID())
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// startForward sends the notifications of the library to out, until stop has returned.
func (c *conn) startForward(out outlet) (stop func()) {
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case n := <-c.session.notifications:
				if text, ok := c.tag(n); ok {
					out.send(text)
				}
			case <-stopping:
				return
			}
		}
	}()
	return func() { close(stopping); <-stopped }
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
	text, err := jsonrpc.Encode(n)
	return text, err == nil
}

// initialize answers the request that begins a session, and reports whether it did.
func (c *conn) initialize(ctx context.Context, m *message) (answered []byte, ok bool) {
	text, err := m.encode()
	if err != nil {
		return jsonrpc.Answer(m.ID, nil, invalid("%v", err)), false
	}
	response := c.server.mcp.HandleMessage(c.server.mcp.WithContext(ctx, c.session), text)
	if r, done := response.(mcp.JSONRPCResponse); done {
		c.session.greeted.Store(true)
		ok = true
		result, _ := r.Result.(mcp.InitializeResult)
		c.resumes = result.ProtocolVersion >= mcp.ProtocolVersion20251125
	}
	return answer(m.ID, response), ok
}

// enter makes m known as a request that is being answered, whose further messages
// go to out and which cancel ends. header is nil on standard streams.
func (c *conn) enter(m *message, out outlet, header http.Header, cancel context.CancelCauseFunc) (*request, *jsonrpc.Error) {
	r := &request{conn: c, out: out, message: m, token: m.token(), cancel: cancel}
	if m.modern {
		c.session.modern.Store(true)
	}
	if f := c.server.check(m, header); f != nil {
		return r, f
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[m.Key] != nil {
		return r, invalid("the id %s is that of a request that is not answered yet", m.ID)
	}
	c.pending[m.Key] = r
	if c.ended {
		cancel(errEnded)
	}
	if m.listens() {
		c.listen = m.ID
	}
	return r, nil
}

func (s *Server) check(m *message, header http.Header) *jsonrpc.Error {
	if header != nil && m.modern {
		if f := s.checkHeader(m, header); f != nil {
			return f
		}
	}
	switch m.Method {
	case string(mcp.MethodSubscriptionsListen):
		if m.wantsTasks() && !m.takesTasks() {
			return errTasks()
		}
	case string(mcp.MethodToolsCall):
		if s.mcp.GetTool(m.name) == nil {
			return invalidParams("unknown tool: %s", m.name)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.current.long[m.name] && !m.takesTasks() {
			return errTasks()
		}
	case string(mcp.MethodPromptsGet):
		return s.checkPrompt(m)
	}
	return nil
}

// answer answers the request r, which enter made, with ctx as its life. code is that
// of an error, 0 if there is none; without a text the client expects no answer.
func (r *request) answer(ctx context.Context) (text []byte, code int) {
	failed := guard.Run(r.conn.server.opts.Panicked, func() error { text, code = r.handle(ctx); return nil })
	if failed == nil {
		return text, code
	}
	if r.conn.leave(r) {
		return nil, 0
	}
	return jsonrpc.Answer(r.message.ID, nil, &jsonrpc.Error{Code: mcp.INTERNAL_ERROR, Message: failed.Error()}), mcp.INTERNAL_ERROR
}

func (r *request) handle(ctx context.Context) (text []byte, code int) {
	m, c := r.message, r.conn
	if m.isTask() {
		result, f := c.answerTask(m)
		if c.leave(r) {
			return nil, 0
		}
		if f != nil {
			return jsonrpc.Answer(m.ID, nil, f), f.Code
		}
		return jsonrpc.Answer(m.ID, c.server.result("complete", result), nil), 0
	}
	encoded, err := m.encode()
	if err != nil {
		c.leave(r)
		return jsonrpc.Answer(m.ID, nil, invalid("%v", err)), mcp.INVALID_REQUEST
	}
	ctx = c.server.mcp.WithContext(context.WithValue(ctx, requestKey{}, r), c.session)
	response := c.server.mcp.HandleMessage(ctx, encoded)
	if c.leave(r) {
		return nil, 0
	}
	if r.task != nil {
		return jsonrpc.Answer(m.ID, c.server.result("task", r.task.fields(false)), nil), 0
	}
	if r.fault != nil {
		return jsonrpc.Answer(m.ID, nil, r.fault), r.fault.Code
	}
	if failed, ok := response.(mcp.JSONRPCError); ok {
		code = failed.Error.Code
		uri, _ := jsonrpc.Text(m.params["uri"])
		if m.Method == string(mcp.MethodResourcesRead) && uri != "" && (code == mcp.RESOURCE_NOT_FOUND || code == mcp.INVALID_PARAMS) {
			f := noResource(m, uri)
			return jsonrpc.Answer(m.ID, nil, f), f.Code
		}
	}
	return answer(m.ID, response), code
}

// leave removes r, and reports whether the client expects no answer.
func (c *conn) leave(r *request) (silent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, r.message.Key)
	if r.message.listens() {
		c.listen = nil
	}
	return r.silent
}

// stopListening ends the requests that listen, which have no answer to wait for.
func (c *conn) stopListening() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.pending {
		if r.message.listens() {
			r.cancel(errEnded)
		}
	}
}

// receive handles a message that expects no answer: a cancellation, or the answer to a
// request of ours. Others are ignored.
func (c *conn) receive(m *message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.IsAnswer() {
		if answered := c.asked[m.Key]; answered != nil {
			delete(c.asked, m.Key)
			answered <- m // has room for one
		}
		return
	}
	key, ok := jsonrpc.Key(m.params["requestId"])
	if m.Method != string(mcp.MethodNotificationCancelled) || !ok {
		return
	}
	if r := c.pending[key]; r != nil {
		r.silent = true
		r.cancel(fmt.Errorf("the client cancelled the call: %w", context.Canceled))
	}
}

// ask sends the client a request of our own while it answers r, and decodes
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
	text, err := jsonrpc.Encode(jsonrpc.Request(id, params, string(method)))
	if err != nil {
		return err
	}
	r.out.send(text)
	select {
	case m := <-answered:
		if m.Error != nil {
			return fmt.Errorf("%s: the client answered: %s", method, m.Error.Message)
		}
		return jsonrpc.Unmarshal(m.Result, result)
	case <-ctx.Done():
		if text, err := jsonrpc.Encode(jsonrpc.Request(nil, map[string]any{"requestId": id}, string(mcp.MethodNotificationCancelled))); err == nil {
			r.out.notify(text)
		}
		return context.Cause(ctx)
	}
}
