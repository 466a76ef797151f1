package mcpclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

const methodDiscover = string(mcp.MethodServerDiscover)
const methodInitialize = string(mcp.MethodInitialize)

// errDiedAtProbe: the program ended before it had answered anything, perhaps at
// a request that it does not know.
var errDiedAtProbe = errors.New("the server ended at server/discover")

// handshake agrees on a protocol with the server. With old, a server on standard
// input and output is not asked server/discover first.
func (c *conn) handshake(ctx context.Context, old bool) error {
	version := c.server.Protocol
	switch {
	case version != "" || c.child == nil:
	case old:
		version = mcp.LATEST_LEGACY_PROTOCOL_VERSION
	default:
		var err error
		if version, err = c.probe(ctx); err != nil {
			return err
		}
	}
	result, err := c.initialize(ctx, version)
	var refused *rpcError
	if c.server.Protocol == "" && old && errors.As(err, &refused) {
		result, err = c.initialize(ctx, mcp.LATEST_PROTOCOL_VERSION) // it was no old one after all
	}
	if err != nil {
		return err
	}
	c.version, c.caps = c.client.ProtocolVersion(), result.Capabilities
	c.instructions = result.Instructions
	return nil
}

// initialize lets the client agree on version or an older one.
func (c *conn) initialize(ctx context.Context, version string) (*mcp.InitializeResult, error) {
	request := mcp.InitializeRequest{}
	request.Params.ProtocolVersion = version
	request.Params.ClientInfo = c.clientInfo()
	request.Params.Capabilities = c.capabilities()
	var got caught
	result, err := c.client.Initialize(catch(ctx, &got), request)
	switch {
	case err == nil:
		return result, nil
	case got.err != nil:
		return nil, fmt.Errorf("initialize: %w", &rpcError{got.err})
	case mcp.IsUnsupportedProtocolVersion(err):
		return nil, fmt.Errorf("initialize: %w; known are %v", err, mcp.ValidProtocolVersions)
	case errors.Is(err, transport.ErrLegacySSEServer) && got.status != http.StatusUnauthorized && got.status != http.StatusForbidden:
		return nil, fmt.Errorf("initialize: %w; the address may be wrong, or that of a server that speaks only the old HTTP with SSE", cmp.Or(got.refused(), err))
	case ctx.Err() == nil && !errors.Is(err, transport.ErrSessionTerminated) && got.refused() != nil:
		return nil, fmt.Errorf("initialize: %w", got.refused())
	default:
		return nil, c.failure(ctx, err)
	}
}

func (c *conn) clientInfo() mcp.Implementation {
	return mcp.Implementation{Name: cmp.Or(c.opts.ClientName, "agents"), Version: cmp.Or(c.opts.ClientVersion, "0")}
}

// A heard is the answer to one request of the probe.
type heard struct {
	method   string
	response *transport.JSONRPCResponse
	err      error
}

// probe finds out which protocol the server speaks, as the package comment has
// it, and returns the version to begin with. What the server has said on the way
// is prepared for the client, so that nothing is asked twice.
func (c *conn) probe(ctx context.Context) (version string, err error) {
	var asked sync.WaitGroup
	defer asked.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan heard, 2)
	ask := func(method string, params any) {
		request := transport.JSONRPCRequest{JSONRPC: mcp.JSONRPC_VERSION,
			ID: mcp.NewRequestId("probe-" + method), Method: method, Params: params}
		asked.Go(func() {
			r, err := c.tap.ask(ctx, request)
			answers <- heard{method, r, err}
		})
	}
	ask(methodDiscover, c.discoverParams())
	timer := time.NewTimer(cmp.Or(c.opts.probeWait, ProbeWait))
	defer timer.Stop()
	pending := 1
	for pending > 0 {
		select {
		case <-timer.C:
			pending++
			ask(methodInitialize, c.initializeParams())
		case a := <-answers:
			if a.err != nil {
				return "", c.silent(ctx, a.err)
			}
			if a.method == methodInitialize && a.response.Error == nil && pending > 1 {
				a = c.earlier(answers, a)
			}
			if version := c.weigh(a); version != "" {
				return version, nil
			}
			pending--
		}
	}
	// A server that has refused both is refused again by the client's own try,
	// which says why.
	return mcp.LATEST_LEGACY_PROTOCOL_VERSION, nil
}

// silent is why the server has not answered the probe.
func (c *conn) silent(ctx context.Context, err error) error {
	err = c.failure(ctx, err)
	if ctx.Err() == nil && c.dead() {
		return errDiedAtProbe
	}
	return err
}

// earlierWait is how long an answer that came before another may take to get
// here from the goroutine that had asked.
const earlierWait = 50 * time.Millisecond

// earlier is the answer to server/discover if that came before a, the answer to
// initialize, and is useful; otherwise a.
func (c *conn) earlier(answers <-chan heard, a heard) heard {
	timer := time.NewTimer(earlierWait)
	defer timer.Stop()
	select {
	case first := <-answers:
		if first.err == nil && first.response.Error == nil {
			return first
		}
	case <-timer.C:
	}
	return a
}

// weigh returns the version that an answer of the probe speaks for, or "".
func (c *conn) weigh(a heard) string {
	if a.response.Error == nil {
		c.tap.prepare(a.method, a.response)
		if a.method == methodDiscover {
			return mcp.LATEST_PROTOCOL_VERSION
		}
		return mcp.LATEST_LEGACY_PROTOCOL_VERSION
	}
	var unsupported mcp.UnsupportedProtocolVersionError
	if a.method == methodDiscover && errors.As(a.response.Error.AsError(), &unsupported) &&
		mcp.IsModernProtocol(mcp.NegotiateMutuallySupportedVersion(unsupported.Supported)) {
		return mcp.LATEST_PROTOCOL_VERSION // the client asks again, for that one
	}
	return ""
}

// discoverParams and initializeParams are what the client itself would send.
func (c *conn) discoverParams() any {
	return map[string]any{"_meta": map[string]any{
		mcp.MetaKeyProtocolVersion:    mcp.LATEST_PROTOCOL_VERSION,
		mcp.MetaKeyClientInfo:         c.clientInfo(),
		mcp.MetaKeyClientCapabilities: c.capabilities(),
	}}
}

func (c *conn) initializeParams() any {
	return map[string]any{
		"protocolVersion": mcp.LATEST_LEGACY_PROTOCOL_VERSION,
		"clientInfo":      c.clientInfo(),
		"capabilities":    c.capabilities(),
	}
}
