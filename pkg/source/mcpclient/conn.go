package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

// A conn is one connection to a server. It is open from newConn until the server ends
// it (lost) or this side does (closing); then watch releases what belongs to it, and
// closes gone.
type conn struct {
	server    *Server
	opts      *Options
	transport transport

	lost    chan struct{}
	lose    func() // closes lost
	closing chan struct{}
	shut    func() // closes closing
	gone    chan struct{}
	cause   error // why it is gone; set before gone is closed

	// Set by the handshake.
	caps         capabilities
	instructions string

	changed atomic.Bool // the list of tools is not what it was
	listens atomic.Bool // a subscription to such changes is open
	ready   chan struct{}
	begins  func() // closes ready: calls may begin
	work    sync.WaitGroup
	alive   context.Context // canceled with mu held when the connection ends; stops the goroutines in work
	end     context.CancelFunc

	mu          sync.Mutex
	questions   int                        // of the server, that are being answered
	ids         int                        // last one of a request or call
	version     string                     // of the protocol, once agreed on
	headerTools map[string]json.RawMessage // by name, where headersMatter
	pending     map[string]*request        // without an answer so far, by key
	calls       []*call                    // running, in the order of their start
}

// capabilities are what a server says that it has.
type capabilities struct {
	Tools     *capability `json:"tools"`
	Resources *capability `json:"resources"`
	Prompts   *capability `json:"prompts"`
}

type capability struct {
	ListChanged bool `json:"listChanged"`
}

func newConn(server *Server, opts *Options) *conn {
	c := &conn{server: server, opts: opts, pending: map[string]*request{},
		lost: make(chan struct{}), closing: make(chan struct{}), gone: make(chan struct{}), ready: make(chan struct{})}
	c.alive, c.end = context.WithCancel(context.Background())
	c.begins = sync.OnceFunc(func() { close(c.ready) })
	c.lose = sync.OnceFunc(func() { close(c.lost) })
	c.shut = sync.OnceFunc(func() { close(c.closing) })
	return c
}

// open begins with t as its transport. The end of ctx cuts the waits between closing and gone
// short.
func (c *conn) open(ctx context.Context, t transport) {
	c.transport = t
	go c.watch(ctx)
}

// watch waits for the end of the connection and releases what belongs to it.
func (c *conn) watch(ctx context.Context) {
	defer close(c.gone)
	closed := false
	select {
	case <-c.closing:
		closed = true
	case <-c.lost:
	}
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	c.work.Wait()
	c.cause = c.transport.end(ctx, closed)
}

// spawn runs f in a goroutine that watch waits for; its context ends with ctx or the
// connection.
func (c *conn) spawn(ctx context.Context, f func(context.Context)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alive.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	c.work.Go(func() {
		defer cancel()
		defer context.AfterFunc(c.alive, cancel)()
		f(ctx)
	})
}

// errForgotten: the server does not know the session any more. A request that it
// refused for that gets errRefused.
var (
	errForgotten = errors.New("the server has forgotten the session")
	errRefused   = fmt.Errorf("%w", errForgotten)
)

// An endError says that a server ended by itself.
type endError struct{ how, said string }

// Error returns "the server ended (exit status 1)", with the last that it wrote.
func (e *endError) Error() string {
	return "the server ended (" + e.how + ")" + e.said
}

func (c *conn) dead() bool {
	select {
	case <-c.lost:
		return true
	case <-c.closing:
		return true
	default:
		return false
	}
}

// protocol is the version that was agreed on, "" before.
func (c *conn) protocol() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

func (c *conn) modern() bool { return mcp.IsModernProtocol(c.protocol()) }

func (c *conn) overHTTP() bool { return c.server.URL != "" }

// headersMatter reports whether arguments of tools travel as HTTP headers too.
func (c *conn) headersMatter() bool { return c.overHTTP() && c.modern() }

func (c *conn) newRequest(k *call, method, version string, params map[string]any, answers chan<- answer) (*request, error) {
	c.mu.Lock()
	c.ids++
	id := c.ids
	c.mu.Unlock()
	if mcp.IsModernProtocol(version) {
		params = c.withMeta(params, version)
	}
	line, err := jsonrpc.Encode(jsonrpc.Request(id, params, method))
	if err != nil {
		return nil, err
	}
	q := &request{key: fmt.Sprintf("n%d", id), method: method, line: line, version: version, call: k, answers: answers}
	if c.overHTTP() && mcp.IsModernProtocol(version) {
		q.header, err = c.headers(method, version, params)
	}
	return q, err
}

// send sends a request. Its answer, or why there is none, goes to q.answers, at most
// once; the end of ctx forgets the request.
func (c *conn) send(ctx context.Context, q *request) {
	c.mu.Lock()
	c.pending[q.key] = q
	c.mu.Unlock()
	context.AfterFunc(ctx, func() { c.forget(q.key) })
	c.transport.send(ctx, q)
}

// forget takes a request out of the pending ones, and returns nil if it was not among
// them.
func (c *conn) forget(key string) *request {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.pending[key]
	delete(c.pending, key)
	return q
}

// answered hands on the answer to a pending request; false means that there is no such
// request.
func (c *conn) answered(key string, result json.RawMessage, err error) bool {
	q := c.forget(key)
	if q != nil {
		q.answers <- answer{q.method, result, err}
	}
	return q != nil
}

// waits reports whether a request has no answer so far.
func (c *conn) waits(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending[key] != nil
}

// received handles what parse returned, which came on the stream of the call k unless
// that is nil. A message that cannot be used is the answer to the request of its id,
// which would wait otherwise. The result is false for the answer to no pending request.
func (c *conn) received(ctx context.Context, k *call, m *jsonrpc.Message, err error) bool {
	switch {
	case err != nil:
		return c.answered(m.Key, nil, err)
	case m.IsAnswer():
		return c.answered(m.Key, m.Result, refusal(m))
	}
	c.incoming(ctx, k, m)
	return true
}

// request asks the server, as part of the call k unless that is nil, and returns the
// result.
func (c *conn) request(ctx context.Context, k *call, method mcp.MCPMethod, params map[string]any) (json.RawMessage, error) {
	answers := make(chan answer, 1)
	q, err := c.newRequest(k, string(method), c.protocol(), params, answers)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	c.send(ctx, q)
	for {
		select {
		case text := <-k.texts():
			k.show(text)
		case a := <-answers:
			for len(k.texts()) > 0 {
				k.show(<-k.texts())
			}
			return a.result, c.failure(ctx, a.err)
		case <-ctx.Done():
			c.cancelled(ctx, q)
			return nil, context.Cause(ctx)
		case <-c.gone:
			if len(answers) == 0 {
				return nil, c.cause
			}
		}
	}
}

// cancelled tells the server that the answer to q is not needed any more. Over HTTP, from
// 2026-07-28 on, the end of the request says it.
func (c *conn) cancelled(ctx context.Context, q *request) {
	if c.headersMatter() {
		return
	}
	id := json.RawMessage(q.key[1:])
	line, err := jsonrpc.Encode(jsonrpc.Request(nil, map[string]any{"requestId": id, "reason": context.Cause(ctx).Error()},
		string(mcp.MethodNotificationCancelled)))
	if err != nil {
		return
	}
	if !c.overHTTP() {
		_ = c.transport.post(ctx, line) // a queue takes it
		return
	}
	c.spawn(context.WithoutCancel(ctx), func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, cancelWait)
		defer cancel()
		_ = c.transport.post(ctx, line) // a server that does not take it finishes the request
	})
}

// failure is err as a person can use it: why the connection is gone, why ctx ended, or
// what went wrong.
func (c *conn) failure(ctx context.Context, err error) error {
	var refused *rpcError
	switch {
	case err == nil, errors.As(err, &refused), errors.Is(err, errForgotten):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.dead():
		select {
		case <-c.gone:
			return c.cause
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	var web *url.Error
	if errors.As(err, &web) {
		u, _ := url.Parse(c.server.URL)
		return fmt.Errorf("ask %s: %w", u.Host, web.Err) // the whole address may hold a key
	}
	return err
}

// An rpcError is an error that the server answered with.
type rpcError struct{ answered *jsonrpc.Error }

// Error returns "unknown tool (-32602)", with the details that the server gave.
func (e *rpcError) Error() string {
	text := fmt.Sprintf("%s (%d)", clip(e.answered.Message, maxErrorText), e.answered.Code)
	if e.answered.Message == "" {
		text = fmt.Sprintf("error %d", e.answered.Code)
	}
	if e.answered.Data != nil {
		if b, err := json.Marshal(e.answered.Data); err == nil {
			text += ": " + clip(string(b), maxErrorText)
		}
	}
	return text
}

const maxErrorText = 4000

// pages asks for every page of a list and returns the items under key. What there is
// of a list and an error may both come back.
func (c *conn) pages(ctx context.Context, method mcp.MCPMethod, key string, most int) (items []json.RawMessage, err error) {
	params := map[string]any{}
	seen := map[string]bool{"": true}
	size := 0
	for range MaxPages {
		raw, err := c.request(ctx, nil, method, params)
		if err != nil {
			return items, err
		}
		var page map[string]json.RawMessage
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &page); err != nil {
			return items, fmt.Errorf("the answer is not an object: %s", clip(string(raw), 100))
		}
		if err := json.Unmarshal(page[key], &list); err != nil && page[key] != nil {
			return items, fmt.Errorf("%s in the answer is not an array: %s", key, clip(string(page[key]), 100))
		}
		items = append(items, list...)
		size += len(raw)
		next, _ := jsonrpc.Text(page["nextCursor"]) // null and nonsense end the list
		switch {
		case len(items) > most:
			return items[:most], fmt.Errorf("the list is longer than %d; the rest is left out", most)
		case size > c.opts.lineLimit():
			return items, fmt.Errorf("the list is longer than %d bytes; the rest is left out", c.opts.lineLimit())
		case next == "":
			return items, nil
		case seen[next]:
			return items, fmt.Errorf("the list goes in a circle: the cursor %q came before", clip(next, 100))
		}
		seen[next] = true
		params = map[string]any{"cursor": next}
	}
	return items, fmt.Errorf("the list has more than %d pages; the rest is left out", MaxPages)
}

// notifies reports whether the server says when its tools change.
func (c *conn) notifies() bool {
	switch {
	case c.caps.Tools == nil || !c.caps.Tools.ListChanged:
		return false
	case c.modern():
		return c.listens.Load()
	default:
		return !c.overHTTP() // whether the GET stream is open is not known
	}
}

// listen opens what a server needs to send messages outside of calls. Programs need
// nothing before 2026-07-28.
func (c *conn) listen() {
	if w, overHTTP := c.transport.(*web); overHTTP && !c.modern() {
		c.spawn(context.Background(), w.listen)
		return
	}
	c.begins()
	if c.modern() && c.caps.Tools != nil && c.caps.Tools.ListChanged {
		c.listens.Store(true)
		filter := mcp.SubscriptionFilter{ToolsListChanged: true, ResourcesListChanged: c.caps.Resources != nil && c.caps.Resources.ListChanged}
		c.spawn(context.Background(), func(ctx context.Context) {
			defer c.listens.Store(false)
			_, _ = c.request(ctx, nil, mcp.MethodSubscriptionsListen, map[string]any{"notifications": filter}) // then the list is polled
		})
	}
}

// withOutput adds to err what the program has written apart from messages, unless
// err has it.
func (c *conn) withOutput(err error) error {
	var ended *endError
	s, program := c.transport.(*stdio)
	if !program || errors.As(err, &ended) {
		return err
	}
	if text := s.said(); text != "" {
		return fmt.Errorf("%w%s", err, text)
	}
	return err
}
