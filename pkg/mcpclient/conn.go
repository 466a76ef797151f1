package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/agent"
)

// A conn is one connection to a server, from its start to its end.
type conn struct {
	server *Server
	opts   *Options
	client *client.Client
	tap    *tap
	child  *child        // nil over HTTP
	idle   func()        // over HTTP: ends connections that are not in use
	lost   chan struct{} // closed when the server is gone
	lose   func()        // over HTTP: closes lost

	version      string
	caps         mcp.ServerCapabilities
	instructions string

	life    context.Context // of everything that is not a call
	stop    context.CancelFunc
	closing chan struct{}
	shut    func()          // ends the connection and all that belongs to it: closes closing
	now     context.Context // its end cuts the waits of closing short
	hurry   context.CancelFunc
	gone    chan struct{} // closed when nothing of the connection is left
	cause   error         // why it is gone; set before gone is closed

	changed atomic.Bool // the list of tools is not what it was
	listens atomic.Bool // a subscription to such changes is open

	mu    sync.Mutex
	calls map[string]*call // under way, by progress token
	order []*call          // the same in the order of their start
	token int
}

// A call is a request that is made for an invocation.
type call struct {
	token    string
	inv      *agent.Invocation // nil for a request of which no tool knows
	ctx      context.Context   // ends with the call
	asked    int               // how often the server has asked something
	progress chan string
	told     float64 // progress of late, see mayTell
	toldAt   time.Time
}

func newConn(server *Server, opts *Options) *conn {
	c := &conn{server: server, opts: opts, calls: map[string]*call{},
		closing: make(chan struct{}), gone: make(chan struct{})}
	c.life, c.stop = context.WithCancel(context.Background())
	c.now, c.hurry = context.WithCancel(context.Background())
	c.shut = sync.OnceFunc(func() { close(c.closing) })
	return c
}

// open makes the library's client over t and waits for the end of the connection
// in the background.
func (c *conn) open(t transport.Interface) error {
	c.client = client.NewClient(t, c.clientOptions()...)
	c.client.OnNotification(c.notified)
	err := c.client.Start(c.life)
	go c.watch()
	return err
}

// watch waits for the end of the connection and clears up behind it.
func (c *conn) watch() {
	defer close(c.gone)
	defer c.hurry()
	var closed bool
	select {
	case <-c.closing:
		closed = true
	case <-c.lost:
	}
	c.stop()
	// The requests under way end here, and their callers wait for gone.
	_ = c.tap.Close() // what goes wrong on the way out is of no use to anybody
	if c.child == nil {
		c.idle()
		c.cause = errors.New("the connection to the server is closed")
		if !closed {
			c.cause = errForgotten
		}
		return
	}
	exit, err := c.child.end(c.now)
	how := exit.String()
	switch {
	case closed:
		c.cause = errors.New("the server was closed")
		return
	case err != nil:
		how = err.Error()
	case exit.Cancelled:
		how = "it closed its standard output"
	}
	c.cause = &endError{how: how, said: c.child.said()}
}

// errForgotten: the server knows nothing of the session any more. A call that it
// refused for that gets errUnheard.
var (
	errForgotten = errors.New("the server has forgotten the session")
	errUnheard   = fmt.Errorf("%w", errForgotten)
)

// An endError says that a server ended by itself.
type endError struct{ how, said string }

func (e *endError) Error() string {
	return "the server ended (" + e.how + ")" + e.said
}

// dead reports whether the connection is of no use any more.
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

// notified is told of every notification, on the goroutine that reads: it must
// not wait for anything.
func (c *conn) notified(n mcp.JSONRPCNotification) {
	fields := n.Params.AdditionalFields
	switch n.Method {
	case mcp.MethodNotificationToolsListChanged, mcp.MethodNotificationResourcesListChanged:
		c.changed.Store(true)
	case "notifications/progress":
		token, _ := fields["progressToken"].(string)
		c.mu.Lock()
		k := c.calls[token]
		tell := k != nil && k.mayTell(c.opts.now())
		c.mu.Unlock()
		if !tell {
			return
		}
		select {
		case k.progress <- progressText(fields):
		default: // nobody reads that fast
		}
	case "notifications/message":
		data := fields["data"]
		text, ok := data.(string)
		if !ok {
			b, _ := json.Marshal(data)
			text = string(b)
		}
		c.opts.log(clip(fmt.Sprintf("%v: %s", fields["level"], text), maxLogLine))
	}
}

// How many progress notifications of a call are shown: so many at once, and so
// many a second. More are dropped.
const (
	progressBurst = 100
	progressRate  = 10
)

// mayTell reports whether one more progress notification may be shown now.
func (k *call) mayTell(now time.Time) bool {
	k.told = max(0, k.told-progressRate*now.Sub(k.toldAt).Seconds())
	k.toldAt = now
	if k.told > progressBurst-1 {
		return false
	}
	k.told++
	return true
}

// progressText is what a progress notification says, in one line.
func progressText(fields map[string]any) string {
	var text string
	if p, ok := fields["progress"].(float64); ok {
		text = fmt.Sprintf("%g", p)
		if total, ok := fields["total"].(float64); ok {
			text += fmt.Sprintf("/%g", total)
		}
	}
	m, _ := fields["message"].(string)
	if m = clip(strings.Join(strings.Fields(m), " "), maxLogLine); m != "" {
		if text != "" {
			return m + " (" + text + ")"
		}
		return m
	}
	return text
}

// maxProgress is how many progress notifications of a call may wait to be
// shown.
const maxProgress = progressBurst

// begin enters a call for inv.
func (c *conn) begin(ctx context.Context, inv *agent.Invocation) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token++
	k := &call{token: fmt.Sprintf("call-%d", c.token), inv: inv, ctx: ctx, progress: make(chan string, maxProgress)}
	c.calls[k.token] = k
	c.order = append(c.order, k)
	return k
}

// finish takes k out again.
func (c *conn) finish(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, k.token)
	for i, other := range c.order {
		if other == k {
			c.order = append(c.order[:i], c.order[i+1:]...)
			return
		}
	}
}

// invoke runs ask, a request for inv, and shows its progress. ask gets a context
// that catches the answer, and the _meta of the request; its own error counts
// only if the server did not answer.
func (c *conn) invoke(ctx context.Context, inv *agent.Invocation, ask func(context.Context, *mcp.Meta) error) (json.RawMessage, error) {
	k := c.begin(ctx, inv)
	defer c.finish(k)
	var got caught
	done := make(chan error, 1)
	go func() {
		ctx := context.WithValue(catch(ctx, &got), callKey{}, k)
		done <- ask(ctx, &mcp.Meta{ProgressToken: k.token})
	}()
	for {
		select {
		case text := <-k.progress:
			k.show(text)
		case err := <-done:
			for len(k.progress) > 0 {
				k.show(<-k.progress)
			}
			return c.answer(ctx, &got, err)
		}
	}
}

type callKey struct{}

// show passes progress on.
func (k *call) show(text string) {
	if k.inv != nil && text != "" {
		k.inv.Progress(text)
	}
}

// answer is what a request brought: what was caught, or why nothing was.
func (c *conn) answer(ctx context.Context, got *caught, err error) (json.RawMessage, error) {
	switch {
	case got.err != nil:
		return nil, &rpcError{got.err}
	case got.result != nil && (err == nil || !needsInput(got.result)):
		return got.result, nil
	case err == nil:
		return nil, errors.New("the server's answer is empty")
	case ctx.Err() == nil && !errors.Is(err, transport.ErrSessionTerminated) && got.refused() != nil:
		return nil, got.refused()
	}
	err = c.failure(ctx, err)
	if got.status == http.StatusNotFound && errors.Is(err, errForgotten) {
		err = errUnheard
	}
	return nil, err
}

// needsInput reports whether result asks the client for more before there is
// one. If that could not be given, the client's error says why.
func needsInput(result json.RawMessage) bool {
	var r struct {
		ResultType mcp.ResultType `json:"resultType"`
	}
	return json.Unmarshal(result, &r) == nil && r.ResultType == mcp.ResultTypeInputRequired
}

// failure is err as a person can use it: why the connection is gone, why ctx
// ended, or what went wrong on the way.
func (c *conn) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, transport.ErrSessionTerminated) && c.lose != nil {
		c.lose()
	}
	if c.dead() || errors.Is(err, transport.ErrTransportClosed) {
		select {
		case <-c.gone:
			return c.cause
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return misfit(err)
	}
	var lib *transport.Error
	if errors.As(err, &lib) {
		err = lib.Err
	}
	var web *url.Error
	if errors.As(err, &web) {
		u, _ := url.Parse(c.server.URL)
		return fmt.Errorf("ask %s: %w", u.Host, web.Err) // the whole address may hold a key
	}
	return err
}

// An rpcError is an error that the server answered with.
type rpcError struct{ *mcp.JSONRPCErrorDetails }

// Error returns "unknown tool (-32602)", with what the server said besides.
func (e *rpcError) Error() string {
	text := fmt.Sprintf("%s (%d)", clip(e.Message, maxErrorText), e.Code)
	if e.Message == "" {
		text = fmt.Sprintf("error %d", e.Code)
	}
	if e.Data != nil {
		if b, err := json.Marshal(e.Data); err == nil {
			text += ": " + clip(string(b), maxErrorText)
		}
	}
	return text
}

const maxErrorText = 4000
