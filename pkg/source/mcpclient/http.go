package mcpclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/leaf/httphost"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

const (
	sessionHeader = "Mcp-Session-Id" // before 2026-07-28
	kindJSON      = "application/json"
	kindEvents    = "text/event-stream"
)

// The limits of time over HTTP.
const (
	cancelWait   = 2 * time.Second // for a cancellation
	deleteWait   = 5 * time.Second // for the end of the session
	listenWait   = time.Second     // of the first call for the stream of messages outside of calls
	retryWait    = time.Second     // before a stream is opened again, unless the server says otherwise
	minRetryWait = 10 * time.Millisecond
)

// A web is the transport to a URL, by streamable HTTP.
type web struct {
	conn   *conn
	client *http.Client
	idle   func() // ends connections that are not in use

	mu      sync.Mutex
	session string
}

// openURL opens c with the transport to its server's URL.
func (c *conn) openURL(ctx context.Context) {
	w := &web{conn: c, idle: func() {}}
	carrier := c.opts.Transport
	if carrier == nil {
		own := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second}
		carrier, w.idle = own, own.CloseIdleConnections
	}
	if c.server.Authorize != nil {
		carrier = c.server.Authorize(carrier)
	}
	w.client = &http.Client{Transport: carrier, CheckRedirect: httphost.SameHost}
	c.open(ctx, w)
}

// do makes an HTTP request with the headers that all have; body may be nil.
func (w *web) do(ctx context.Context, method string, body []byte, version string, header map[string]string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, w.conn.server.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	switch method {
	case http.MethodPost:
		r.Header.Set("Content-Type", kindJSON)
		r.Header.Set("Accept", kindJSON+", "+kindEvents)
	case http.MethodGet:
		r.Header.Set("Accept", kindEvents)
	}
	if session := w.sessionOf(version); session != "" {
		r.Header.Set(sessionHeader, session)
	}
	if version != "" {
		r.Header.Set(mcp.HeaderProtocolVersion, version)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	for name, value := range w.conn.server.Headers {
		r.Header.Set(name, value)
	}
	return w.client.Do(r)
}

// sessionOf returns the session of requests in a version of the protocol, "" if there is none.
func (w *web) sessionOf(version string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if mcp.IsModernProtocol(version) {
		return ""
	}
	return w.session
}

func (w *web) send(ctx context.Context, q *request) {
	w.conn.spawn(ctx, func(ctx context.Context) {
		result, err := w.ask(ctx, q)
		w.conn.answered(q.key, result, err)
	})
}

// ask sends a request and returns its answer, unless it was handed on already.
func (w *web) ask(ctx context.Context, q *request) (json.RawMessage, error) {
	resp, err := w.do(ctx, http.MethodPost, q.line, q.version, q.header)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if q.method == methodInitialize && resp.StatusCode < 300 {
		w.mu.Lock()
		w.session = resp.Header.Get(sessionHeader)
		w.mu.Unlock()
	}
	kind := resp.Header.Get("Content-Type")
	switch media, _, _ := mime.ParseMediaType(kind); {
	case resp.StatusCode >= 300:
		return nil, w.refused(resp, q)
	case media == kindJSON:
		body, err := w.body(resp)
		if err != nil {
			return nil, err
		}
		m, err := parse(jsonrpc.Line{Text: body}, len(body))
		if err == nil && !m.IsAnswer() {
			err = unusable("it is not an answer")
		}
		if err != nil {
			return nil, err
		}
		return m.Result, refusal(m)
	case media == kindEvents:
		return nil, w.stream(ctx, resp.Body, q)
	default:
		return nil, fmt.Errorf("unexpected content type: %s", kind)
	}
}

// body reads the whole body of a response, or its beginning beside an error.
func (w *web) body(resp *http.Response) ([]byte, error) {
	limit := w.conn.opts.lineLimit()
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	if err == nil && len(body) > limit {
		return body[:limit], unusable(tooLong(limit))
	}
	return body, err
}

// refused is why a response with the status of an error has no answer: that of the protocol, if it has
// one, or the status with the beginning of the page. 404 means that the session is
// lost, where there is one.
func (w *web) refused(resp *http.Response, q *request) error {
	if resp.StatusCode == http.StatusNotFound && q.version != "" && w.sessionOf(q.version) != "" {
		w.conn.lose()
		return errRefused
	}
	body, err := w.body(resp)
	if m, bad := parse(jsonrpc.Line{Text: body}, len(body)); err == nil && bad == nil && m.Error != nil {
		return refusal(m)
	}
	return newStatusError(resp, body)
}

// maxRefusal is how much of a page is looked at that says why a request is refused.
const maxRefusal = 2000

// A statusError says that a server has answered with the status of an error.
type statusError struct {
	status int
	said   string
}

func newStatusError(resp *http.Response, body []byte) error {
	said := strings.Join(strings.Fields(string(body[:min(len(body), maxRefusal)])), " ")
	if resp.StatusCode < 400 {
		said = httphost.Reason(resp)
	}
	return &statusError{resp.StatusCode, clip(said, maxRefusal/2)}
}

// Error returns "the server answers 403 Forbidden: you may not".
func (e *statusError) Error() string {
	text := strings.TrimSpace(fmt.Sprintf("the server answers %d %s", e.status, http.StatusText(e.status)))
	if e.said != "" {
		text += ": " + e.said
	}
	return text
}

var errCut = errors.New("the server ended the stream before its answer")

// stream hands on the answer to q from a stream. Before 2026-07-28 a stream that ends or
// breaks off before the answer continues in another one, if its events have ids.
func (w *web) stream(ctx context.Context, body io.ReadCloser, q *request) error {
	e := w.newEvents(body)
	for {
		if w.events(ctx, e, q); !w.conn.waits(q.key) {
			return nil
		}
		if e.id == "" || mcp.IsModernProtocol(q.version) || !sleep(ctx, max(cmp.Or(e.retry, retryWait), minRetryWait)) {
			return errCut
		}
		resp, err := w.do(ctx, http.MethodGet, nil, q.version, map[string]string{"Last-Event-ID": e.id})
		if err != nil {
			return errCut
		}
		defer resp.Body.Close()
		if !isStream(resp) {
			return errCut
		}
		e.from.Reset(resp.Body)
	}
}

func isStream(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return resp.StatusCode == http.StatusOK && kind == kindEvents
}

// sleep waits, and reports whether ctx has not ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// events handles the messages of a stream until it ends or q has its answer. q is nil for
// a stream without; some servers send there the answer to a request whose own stream has
// ended.
func (w *web) events(ctx context.Context, e *events, q *request) {
	var k *call
	if q != nil {
		k = q.call
	}
	for {
		l, end := e.next()
		if len(l.Text) > 0 || l.TooLong {
			m, err := parse(l, e.max)
			if !w.conn.received(ctx, k, m, err) {
				w.conn.opts.log(clip(fmt.Sprintf("stream: not the answer to a request: %v", cmp.Or(err, errors.New(string(l.Text)))), maxLogLine))
			}
		}
		if end != nil || q != nil && !w.conn.waits(q.key) {
			return
		}
	}
}

// listen receives what a server sends outside of requests, before 2026-07-28. Calls
// begin when the server has answered: many servers ask on this stream during a call, and
// drop the question if the stream is not open yet. A server that answers late costs the
// first call listenWait.
func (w *web) listen(ctx context.Context) {
	defer time.AfterFunc(listenWait, w.conn.begins).Stop()
	opened, failures := false, 0
	for {
		wait := retryWait
		resp, err := w.do(ctx, http.MethodGet, nil, w.conn.protocol(), nil)
		w.conn.begins()
		if err == nil {
			stream, status := isStream(resp), resp.StatusCode
			if stream {
				opened, failures = true, 0
				w.events(ctx, w.newEvents(resp.Body), nil)
			}
			resp.Body.Close()
			if status == http.StatusNotFound && opened {
				w.conn.lose()
			}
			if !stream && status < 500 {
				return // it has no such stream, or does not give it
			}
			if !stream {
				failures++
				wait = min(retryWait<<min(failures-1, 20), maxPause)
			}
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

func (w *web) post(ctx context.Context, line []byte) error {
	resp, err := w.do(ctx, http.MethodPost, line, w.conn.protocol(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		body, _ := w.body(resp)
		return newStatusError(resp, body)
	}
	return nil
}

func (w *web) end(ctx context.Context, closed bool) error {
	defer w.idle()
	if !closed {
		return errForgotten
	}
	if version := w.conn.protocol(); w.sessionOf(version) != "" {
		ctx, cancel := context.WithTimeout(ctx, deleteWait)
		defer cancel()
		if resp, err := w.do(ctx, http.MethodDelete, nil, version, nil); err == nil {
			resp.Body.Close()
		}
	}
	return errors.New("the connection to the server is closed")
}
