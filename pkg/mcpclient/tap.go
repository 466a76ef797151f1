package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// A tap stands between the library's client and its transport. It
//
//   - catches what the server answers before the client decodes it, which loses
//     parts of schemas and rounds numbers (see caught);
//   - answers the client's first request with what the probe has heard already;
//   - tells the server of cancelled requests before the call returns, and over
//     HTTP too, where the client does it for no protocol;
//   - answers what the server asks over HTTP, for which the transport has 30
//     seconds, however long a person thinks;
//   - hides from the client that a transport listens for notifications, with
//     which it would never speak the newest protocol. The transport itself stops
//     listening once that is spoken.
type tap struct {
	inner   transport.Interface
	http    bool
	life    context.Context // over HTTP: of the connection
	reply   replier         // over HTTP
	version atomic.Value    // over HTTP: the protocol that is spoken, a string
	handle  transport.RequestHandler
	pending sync.WaitGroup // requests of the server, and cancellations

	mu     sync.Mutex
	ready  map[string]*transport.JSONRPCResponse // by method, for one request each
	busy   int                                   // requests of the server that are being answered
	closed bool
}

// A caught is what a server answered to the last request that was sent with its
// context.
type caught struct {
	result json.RawMessage
	err    *mcp.JSONRPCErrorDetails
	clean  func(json.RawMessage) json.RawMessage // what the client gets; nil: the same

	// Over HTTP: the status with which the request was refused, 0 if it was
	// not, and what the server said to it; and whether the stream with the
	// answer has ended without one.
	status int
	said   string
	cut    atomic.Bool
}

// refused is why there is no answer over HTTP, nil if that is not known.
func (c *caught) refused() error {
	switch {
	case c.status != 0:
		return &statusError{c.status, c.said}
	case c.cut.Load():
		return errCut
	}
	return nil
}

var errCut = errors.New("the server ended the stream before its answer")

type caughtKey struct{}

// catch is a context whose requests leave their answer in c. A context is the
// one thing that the client hands through.
func catch(ctx context.Context, c *caught) context.Context {
	return context.WithValue(ctx, caughtKey{}, c)
}

// Start implements transport.Interface.
func (t *tap) Start(ctx context.Context) error { return t.inner.Start(ctx) }

// SendRequest implements transport.Interface.
func (t *tap) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	if r := t.take(request.Method); r != nil {
		return &transport.JSONRPCResponse{JSONRPC: r.JSONRPC, ID: request.ID, Result: r.Result, Error: r.Error}, nil
	}
	response, err := t.ask(ctx, request)
	if err != nil {
		if ctx.Err() != nil {
			t.cancelled(ctx, request)
		}
		return nil, err
	}
	if c, ok := ctx.Value(caughtKey{}).(*caught); ok {
		c.result, c.err = response.Result, response.Error
		if c.result == nil && c.err == nil && c.status != 0 {
			return nil, c.refused()
		}
		if c.clean != nil && response.Error == nil {
			response.Result = c.clean(response.Result)
		}
	}
	return response, nil
}

// ask sends request to the server. Of server/discover only an answer counts that
// names a version that is spoken here; the client would take any for one, and
// there are servers that answer to every unknown request with an empty result.
// A server that refuses the newest version and names it as supported is asked
// again, once: the client would take it for an old one.
func (t *tap) ask(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	response, err := t.inner.SendRequest(ctx, request)
	if request.Method == methodDiscover && contradicts(response) {
		response, err = t.inner.SendRequest(ctx, request)
	}
	switch {
	case err != nil:
		return nil, err
	case response == nil:
		return nil, errors.New("the server sent no answer")
	case request.Method == methodDiscover && response.Error == nil && !discovered(response.Result):
		return transport.NewJSONRPCErrorResponse(request.ID, mcp.METHOD_NOT_FOUND, "no version in the answer to server/discover is known", nil), nil
	default:
		return response, nil
	}
}

// contradicts reports whether a server refuses the newest version, the one that
// is asked for, and names it as one that it supports.
func contradicts(r *transport.JSONRPCResponse) bool {
	var unsupported mcp.UnsupportedProtocolVersionError
	return r != nil && r.Error != nil && errors.As(r.Error.AsError(), &unsupported) &&
		slices.Contains(unsupported.Supported, mcp.LATEST_PROTOCOL_VERSION)
}

func discovered(result json.RawMessage) bool {
	var said mcp.DiscoverResult
	return json.Unmarshal(result, &said) == nil &&
		mcp.IsModernProtocol(mcp.NegotiateMutuallySupportedVersion(said.SupportedVersions))
}

// take returns the answer that is ready for method, once.
func (t *tap) take(method string) *transport.JSONRPCResponse {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.ready[method]
	delete(t.ready, method)
	return r
}

// prepare makes r the answer to the next request of method.
func (t *tap) prepare(method string, r *transport.JSONRPCResponse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ready == nil {
		t.ready = map[string]*transport.JSONRPCResponse{}
	}
	t.ready[method] = r
}

// cancelWait limits how long a cancellation over HTTP may take.
const cancelWait = 2 * time.Second

// cancelled tells the server that nobody waits for request any more.
func (t *tap) cancelled(ctx context.Context, request transport.JSONRPCRequest) {
	switch request.Method {
	case string(mcp.MethodInitialize), string(mcp.MethodServerDiscover):
		return // must not be cancelled
	}
	n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
		Method: methodCancelled,
		Params: mcp.NotificationParams{AdditionalFields: map[string]any{
			"requestId": request.ID, "reason": context.Cause(ctx).Error()}},
	}}
	ctx = context.WithoutCancel(ctx)
	if !t.http {
		_ = t.inner.SendNotification(ctx, n) // a queue takes it
		return
	}
	if request.Header.Get(mcp.HeaderMethod) != "" {
		return // with the newest protocol, the end of the request says it
	}
	t.spawn(func() {
		ctx, cancel := context.WithTimeout(ctx, cancelWait)
		defer cancel()
		_ = t.inner.SendNotification(ctx, n)
	})
}

const methodCancelled = string(mcp.MethodNotificationCancelled)

// SendNotification implements transport.Interface. The client's own
// cancellations are dropped, see cancelled.
func (t *tap) SendNotification(ctx context.Context, n mcp.JSONRPCNotification) error {
	if n.Method == methodCancelled {
		return nil
	}
	return t.inner.SendNotification(ctx, n)
}

// SetNotificationHandler implements transport.Interface.
func (t *tap) SetNotificationHandler(handler func(mcp.JSONRPCNotification)) {
	t.inner.SetNotificationHandler(handler)
}

// SetRequestHandler implements transport.BidirectionalInterface.
func (t *tap) SetRequestHandler(handler transport.RequestHandler) {
	t.handle = handler
	b, ok := t.inner.(transport.BidirectionalInterface)
	switch {
	case ok && t.http:
		b.SetRequestHandler(t.requestOverHTTP)
	case ok:
		b.SetRequestHandler(t.request)
	}
}

// requestOverHTTP answers a request of the server as long as anybody wants it:
// until the end of the stream that it came with, or that of the connection. That
// the transport's time for it is over does not count. The answer is sent here,
// and the transport gets none.
func (t *tap) requestOverHTTP(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(t.life, cancel)()
	defer context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel()
		}
	})()
	response, err := t.request(lasting, r)
	if err != nil {
		response = transport.NewJSONRPCErrorResponse(r.ID, mcp.INTERNAL_ERROR, err.Error(), nil)
	}
	version, _ := t.version.Load().(string)
	t.reply(lasting, t.inner.GetSessionId(), version, response)
	return nil, nil
}

// request answers a request of the server. The transport calls it in a
// goroutine of its own.
func (t *tap) request(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	switch r.Method {
	case string(mcp.MethodPing), string(mcp.MethodListRoots),
		string(mcp.MethodElicitationCreate), string(mcp.MethodSamplingCreateMessage):
	default:
		return transport.NewJSONRPCErrorResponse(r.ID, mcp.METHOD_NOT_FOUND, fmt.Sprintf("method not found: %s", r.Method), nil), nil
	}
	t.mu.Lock()
	if t.closed || t.busy == maxRequests {
		t.mu.Unlock()
		return nil, fmt.Errorf("not answered: the client is closing or answers %d requests already", maxRequests)
	}
	t.busy++
	t.pending.Add(1)
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		t.busy--
		t.mu.Unlock()
		t.pending.Done()
	}()
	return t.handle(ctx, r)
}

// maxRequests is how many requests of a server are answered at the same time.
const maxRequests = 16

// spawn runs f in a goroutine that Close waits for.
func (t *tap) spawn(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.pending.Go(f)
	}
}

// Close implements transport.Interface. It waits for the requests of the server
// that are being answered, so their context must have ended.
func (t *tap) Close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.pending.Wait()
	return t.inner.Close()
}

// GetSessionId implements transport.Interface.
func (t *tap) GetSessionId() string { return t.inner.GetSessionId() }

// An httpTap is a tap of a transport over HTTP: the client treats these
// differently.
type httpTap struct{ *tap }

// SetProtocolVersion implements transport.HTTPConnection.
func (t httpTap) SetProtocolVersion(version string) {
	t.version.Store(version)
	t.inner.(transport.HTTPConnection).SetProtocolVersion(version)
}
