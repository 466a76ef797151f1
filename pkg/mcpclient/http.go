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

// overHTTP is the transport to the server's URL, and how the server's requests
// are answered.
func (c *conn) overHTTP() (*transport.StreamableHTTP, replier, error) {
	carrier := c.opts.Transport
	c.idle = func() {}
	if carrier == nil {
		own := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second}
		carrier, c.idle = own, own.CloseIdleConnections
	}
	lost := make(chan struct{})
	c.lost, c.lose = lost, sync.OnceFunc(func() { close(lost) })
	web := &http.Client{
		Transport:     &bounded{carrier: carrier, headers: c.server.Headers, max: c.opts.lineLimit(), log: c.opts.log, now: c.now},
		CheckRedirect: sameHost,
	}
	t, err := transport.NewStreamableHTTP(c.server.URL,
		transport.WithHTTPLogger(silent()),
		//lint:ignore SA1019 older protocols tell of changes in no other way; see tap for the newest
		transport.WithContinuousListening(),
		transport.WithHTTPBasicClient(web))
	return t, func(ctx context.Context, session, version string, answer *transport.JSONRPCResponse) {
		if err := post(ctx, web, c.server.URL, session, version, answer); err != nil && ctx.Err() == nil {
			c.opts.log(fmt.Sprintf("the server was not told the answer to what it asked: %v", c.failure(ctx, err)))
		}
	}, err
}

// A replier sends the answer to a request of the server, in a session and a
// version of the protocol that may be "".
type replier func(ctx context.Context, session, version string, answer *transport.JSONRPCResponse)

// post sends a message that wants no answer.
func post(ctx context.Context, web *http.Client, address, session, version string, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set(transport.HeaderKeySessionID, session)
	}
	if version != "" {
		r.Header.Set(transport.HeaderKeyProtocolVersion, version)
	}
	resp, err := web.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
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
// ends a session, limits the size of what a server sends, keeps what it says when
// it refuses a request, and ends the farewell to it early when that is in a hurry.
type bounded struct {
	carrier http.RoundTripper
	headers map[string]string
	max     int
	log     func(line string)
	now     context.Context
}

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	got, _ := ctx.Value(caughtKey{}).(*caught)
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
	resp.Body = &boundedBody{body: resp.Body, max: b.max}
	switch {
	case resp.StatusCode >= 400:
		b.refused(r, resp, got)
	case strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"):
		resp.Body = newEventFilter(resp.Body.(*boundedBody).body, got, b.max, b.log)
	}
	return resp, nil
}

// refused takes in an answer with the status of an error. An error of the protocol
// goes on as it is, also where the status means something else to the library: 404
// is that of an unknown method, and not of a lost session alone, from 2026-07-28
// on. Of any other body the beginning is kept for the message.
func (b *bounded) refused(r *http.Request, resp *http.Response, got *caught) {
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if isMessage(body) && err == nil {
		if resp.StatusCode == http.StatusNotFound && mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) {
			resp.StatusCode = http.StatusBadRequest
		}
	} else {
		body = []byte(clip(strings.Join(strings.Fields(string(body[:min(len(body), maxRefusal)])), " "), maxRefusal/2))
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if got != nil && r.Method == http.MethodPost {
		got.status, got.said = resp.StatusCode, string(body)
	}
}

// maxRefusal is how much is read of a page that says why a request is refused.
const maxRefusal = 2000

// A statusError says that a server has answered with the status of an error.
type statusError struct {
	status int
	said   string
}

// Error returns "the server answers 403 Forbidden: you may not".
func (e *statusError) Error() string {
	text := strings.TrimSpace(fmt.Sprintf("the server answers %d %s", e.status, http.StatusText(e.status)))
	if e.said != "" {
		text += ": " + e.said
	}
	return text
}

// A boundedBody fails behind max bytes.
type boundedBody struct {
	body io.ReadCloser
	max  int
	n    int
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if b.n += n; b.n > b.max {
		return 0, errors.New(tooLong(b.max))
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
