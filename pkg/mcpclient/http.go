package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// overHTTP is the transport to the server's URL.
func (c *conn) overHTTP() (*transport.StreamableHTTP, error) {
	carrier := c.opts.Transport
	c.idle = func() {}
	if carrier == nil {
		own := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second}
		carrier, c.idle = own, own.CloseIdleConnections
	}
	lost := make(chan struct{})
	c.lost, c.lose = lost, sync.OnceFunc(func() { close(lost) })
	return transport.NewStreamableHTTP(c.server.URL,
		transport.WithHTTPLogger(silent()),
		//lint:ignore SA1019 older protocols tell of changes in no other way; see tap for the newest
		transport.WithContinuousListening(),
		transport.WithHTTPBasicClient(&http.Client{
			Transport:     &bounded{carrier: carrier, headers: c.server.Headers, max: c.opts.lineLimit(), now: c.now},
			CheckRedirect: sameHost,
		}))
}

// sameHost refuses redirects to another host, which would get the headers.
func sameHost(req *http.Request, via []*http.Request) error {
	if first := via[0].URL; req.URL.Host != first.Host || req.URL.Scheme != first.Scheme {
		return fmt.Errorf("the server redirects to %s://%s, which is not followed", req.URL.Scheme, req.URL.Host)
	}
	if len(via) >= 10 {
		return errors.New("the server redirects more than 10 times")
	}
	return nil
}

// bounded adds the headers to every request, which the library forgets when it
// ends a session, limits the size of what a server sends, and ends the farewell
// to it early when that is in a hurry.
type bounded struct {
	carrier http.RoundTripper
	headers map[string]string
	max     int
	now     context.Context
}

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if r.Method == http.MethodDelete {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer context.AfterFunc(b.now, cancel)()
		defer cancel() // nobody reads what it answers
	}
	r = r.Clone(ctx)
	for name, value := range b.headers {
		r.Header.Set(name, value)
	}
	resp, err := b.carrier.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	stream := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	resp.Body = &boundedBody{body: resp.Body, stream: stream, max: b.max}
	return resp, nil
}

// A boundedBody fails behind max bytes: of all, or of a line of a stream.
type boundedBody struct {
	body   io.ReadCloser
	stream bool
	max    int
	n      int
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	b.n += n
	if i := bytes.LastIndexByte(p[:n], '\n'); b.stream && i >= 0 {
		b.n = n - i - 1
	}
	if b.n > b.max+len("data: ") {
		return 0, fmt.Errorf("the server's message is longer than %d bytes", b.max)
	}
	return n, err
}

// Close implements io.Closer.
func (b *boundedBody) Close() error { return b.body.Close() }

// badHeaders is why a client must not offer a tool over HTTP with the newest
// protocol: its arguments cannot be sent as headers (SEP-2243).
func badHeaders(raw json.RawMessage) error {
	var t mcp.Tool
	if json.Unmarshal(raw, &t) != nil {
		return nil // what the library cannot read has no headers for it either
	}
	return mcp.ValidateParamHeaderAnnotations(&t)
}

// withoutBadHeaders takes the tools with bad headers out of a page: the library
// would complain of them on stderr.
func withoutBadHeaders(page json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	var tools []json.RawMessage
	if json.Unmarshal(page, &fields) != nil || json.Unmarshal(fields["tools"], &tools) != nil {
		return page
	}
	good := slices.DeleteFunc(slices.Clone(tools), func(raw json.RawMessage) bool { return badHeaders(raw) != nil })
	if len(good) == len(tools) {
		return page
	}
	var err error
	if fields["tools"], err = json.Marshal(good); err != nil {
		return page
	}
	clean, err := json.Marshal(fields)
	if err != nil {
		return page
	}
	return clean
}
