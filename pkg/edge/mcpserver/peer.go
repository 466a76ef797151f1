package mcpserver

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

const (
	kindJSON   = "application/json"
	kindEvents = "text/event-stream"
)

// sessionHeader names the session of a request, before 2026-07-28.
const sessionHeader = "Mcp-Session-Id"

// errGone is why a call ends whose client closed its connection.
var errGone = errors.New("the client closed the connection before the answer")

// A peer is a session over HTTP.
type peer struct {
	*conn
	ended chan struct{} // closed at its end
	token string        // of the request that began it; others may not use it

	// Under endpoint.mu:
	used   time.Time
	busy   int           // requests and streams
	stream chan struct{} // closed when another stream takes over
}

func (e *endpoint) post(w http.ResponseWriter, r *http.Request, token string) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != kindJSON {
		refuse(w, http.StatusUnsupportedMediaType, "the content type is "+kindJSON)
		return
	}
	if !accepts(r, kindJSON) || !accepts(r, kindEvents) {
		refuse(w, http.StatusNotAcceptable, "the client has to accept "+kindJSON+" and "+kindEvents)
		return
	}
	if !enter(w, e.open, "requests") {
		return
	}
	defer func() { <-e.open }()
	body, release, status, why := e.body(w, r, token)
	defer release()
	if status == http.StatusServiceUnavailable {
		overloaded(w, why)
		return
	}
	if status != 0 {
		refuse(w, status, why)
		return
	}
	m, f := parse(body)
	switch {
	case m == nil && f == nil:
		refuse(w, http.StatusBadRequest, "there is no message")
	case m == nil:
		writeJSON(w, http.StatusBadRequest, jsonrpc.Answer(nil, nil, f))
	case f != nil:
		writeJSON(w, http.StatusBadRequest, jsonrpc.Answer(m.ID, nil, f))
	default:
		e.message(w, r, m, token)
	}
}

func overloaded(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "1")
	refuse(w, http.StatusServiceUnavailable, why)
}

// body reads the body of a request. status is 0 if that went well; release follows
// in any case when the message is no longer needed.
func (e *endpoint) body(w http.ResponseWriter, r *http.Request, token string) (body []byte, release func(), status int, why string) {
	release = func() {}
	from := io.TeeReader(http.MaxBytesReader(w, r.Body, MaxLine), &jsondoc.Meter{})
	body, err := io.ReadAll(io.LimitReader(from, largeLine))
	if err == nil && len(body) == largeLine {
		if !e.takeLarge(token) {
			return nil, release, http.StatusServiceUnavailable, "too many large requests of this token are open"
		}
		release = func() { e.releaseLarge(token) }
		var rest []byte
		rest, err = io.ReadAll(from)
		body = append(body, rest...)
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, release, http.StatusRequestEntityTooLarge, invalid("the message is longer than %d bytes", MaxLine).Message
	}
	if tooMany, ok := errors.AsType[*jsondoc.MeterError](err); ok {
		return nil, release, http.StatusRequestEntityTooLarge, tooMany.Error()
	}
	if err != nil {
		return nil, release, http.StatusBadRequest, "the body could not be read"
	}
	return body, release, 0, ""
}

// takeLarge reserves one of the places that a token has for large requests, or reports false.
func (e *endpoint) takeLarge(token string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.large[token] >= e.maxLarge {
		return false
	}
	e.large[token]++
	return true
}

func (e *endpoint) releaseLarge(token string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.large[token]--
}

// enter takes one of the places, or refuses the request.
func enter(w http.ResponseWriter, places chan struct{}, of string) bool {
	select {
	case places <- struct{}{}:
		return true
	default:
		overloaded(w, "too many "+of+" are open")
		return false
	}
}

func (e *endpoint) message(w http.ResponseWriter, r *http.Request, m *message, token string) {
	version := r.Header.Get(mcp.HeaderProtocolVersion)
	m.modern = m.modern || mcp.IsModernProtocol(version)
	switch {
	case m.modern:
		e.single(w, r, m, token)
	case m.Method == string(mcp.MethodInitialize) && m.ID != nil:
		e.initialize(w, r, m, token)
	case version != "" && !mcp.IsValidProtocolVersion(version):
		refuse(w, http.StatusBadRequest, "the protocol version "+version+" is not known here")
	default:
		c := e.session(w, r, token)
		if c == nil {
			return
		}
		defer e.release(c)
		if m.ID == nil || m.IsAnswer() {
			c.receive(m)
			w.WriteHeader(http.StatusAccepted)
			return
		}
		e.run(w, r, c.conn, m)
	}
}

// single answers a message of a protocol version that has no sessions.
func (e *endpoint) single(w http.ResponseWriter, r *http.Request, m *message, token string) {
	switch {
	case m.IsAnswer():
		writeJSON(w, http.StatusBadRequest, jsonrpc.Answer(m.ID, nil, invalid("this server sends no requests in this protocol version")))
		return
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	}
	c, err := e.server.connect(e.tasks, token)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "the request could not begin")
		return
	}
	defer c.disconnect()
	if m.listens() {
		if !enter(w, e.streams, "streams") {
			return
		}
		defer func() { <-e.streams }()
	}
	e.run(w, r, c, m)
}

// run answers a request, which ends with its HTTP connection unless the client resumes it.
func (e *endpoint) run(w http.ResponseWriter, r *http.Request, c *conn, m *message) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	out := newReply(w, c.resumes, func() { cancel(errGone) })
	defer context.AfterFunc(r.Context(), func() {
		if cause := context.Cause(r.Context()); cause != context.Canceled {
			cancel(cause) // of ServeListener
			return
		}
		out.lost(w)
	})()
	if c.resumes {
		defer c.offer(out)()
	}
	request, bad := c.enter(m, out, r.Header, cancel)
	if bad != nil {
		out.finish(jsonrpc.Answer(m.ID, nil, bad), status(m, bad.Code))
		return
	}
	if m.listens() {
		defer e.whenEnding(func() { cancel(errEnded) })()
		defer c.startForward(out)()
	}
	text, code := request.answer(ctx)
	out.finish(text, status(m, code))
}

// status is the HTTP status of an answer with a JSON-RPC error; 2026-07-28 says
// which, and older clients take any other than 200 as an error of the transport.
func status(m *message, code int) int {
	switch {
	case !m.modern:
	case code == mcp.METHOD_NOT_FOUND:
		return http.StatusNotFound
	case code == mcp.HEADER_MISMATCH, code == mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, code == mcp.UNSUPPORTED_PROTOCOL_VERSION,
		code == mcp.INVALID_REQUEST, code == mcp.INVALID_PARAMS, code == mcp.PARSE_ERROR:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

func (e *endpoint) initialize(w http.ResponseWriter, r *http.Request, m *message, token string) {
	conn, err := e.server.connect(e.tasks, token)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "the session could not begin")
		return
	}
	c := &peer{conn: conn, token: token, used: time.Now(), ended: make(chan struct{})}
	text, ok := c.initialize(r.Context(), m)
	if !ok {
		c.disconnect()
		writeJSON(w, http.StatusBadRequest, text)
		return
	}
	if !e.keep(c) {
		c.disconnect()
		overloaded(w, "too many sessions are in use")
		return
	}
	w.Header().Set(sessionHeader, c.conn.session.id)
	writeJSON(w, http.StatusOK, text)
}

// keep adds a session. If its token has too many, it ends the one of them that was not
// used for the longest time; false means that all are in use.
func (e *endpoint) keep(c *peer) bool {
	var oldest *peer // to disconnect, without mu
	defer func() {
		if oldest != nil {
			oldest.disconnect()
		}
	}()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	var idle *peer // the one of this token that was not used for the longest time
	own := 0
	for _, s := range e.sessions {
		if s.token != c.token {
			continue
		}
		own++
		if s.busy == 0 && (idle == nil || s.used.Before(idle.used)) {
			idle = s
		}
	}
	if own >= e.max {
		if idle == nil {
			return false
		}
		if e.remove(idle) {
			oldest = idle
		}
	}
	e.sessions[c.session.id] = c
	return true
}

// remove takes a session out of the endpoint, under mu. It reports whether the caller has to
// disconnect the session: of several that end one session at once, only the first does. That
// happens without mu, because it may wait for a client that does not read.
func (e *endpoint) remove(c *peer) bool {
	if e.sessions[c.session.id] != c {
		return false
	}
	delete(e.sessions, c.session.id)
	close(c.ended)
	return true
}

// drop ends the sessions that match.
func (e *endpoint) drop(match func(*peer) bool) {
	for _, c := range e.removed(match) {
		c.disconnect()
	}
}

// removed takes the sessions that match out of the endpoint.
func (e *endpoint) removed(match func(*peer) bool) (list []*peer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.sessions {
		if match(c) && e.remove(c) {
			list = append(list, c)
		}
	}
	return list
}

// sweep ends sessions that were not used for a long time, until ctx ends.
func (e *endpoint) sweep(ctx context.Context) {
	ticker := time.NewTicker(MaxIdle / 8)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			e.drop(func(c *peer) bool { return c.busy == 0 && now.Sub(c.used) >= MaxIdle })
		}
	}
}

// session finds the session of a request, which is in use until release. Without one
// the request is answered.
func (e *endpoint) session(w http.ResponseWriter, r *http.Request, token string) *peer {
	id := r.Header.Get(sessionHeader)
	if id == "" {
		refuse(w, http.StatusBadRequest, "the header "+sessionHeader+" is missing: start a session with initialize")
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.sessions[id]
	if c == nil || c.token != token {
		refuse(w, http.StatusNotFound, "there is no such session; it may have ended: start another with initialize")
		return nil
	}
	c.busy++
	c.used = time.Now()
	return c
}

func (e *endpoint) release(c *peer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.busy--
	c.used = time.Now()
}

func (e *endpoint) end(w http.ResponseWriter, r *http.Request, token string) {
	if noSessions(w, r) {
		return
	}
	c := e.session(w, r, token)
	if c == nil {
		return
	}
	e.drop(func(s *peer) bool { return s == c })
	w.WriteHeader(http.StatusNoContent)
}

// noSessions answers a request for a session in a protocol version without them.
func noSessions(w http.ResponseWriter, r *http.Request) bool {
	if !mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) {
		return false
	}
	w.Header().Set("Allow", http.MethodPost)
	refuse(w, http.StatusMethodNotAllowed, "this protocol version has only POST")
	return true
}

// offer lets the client resume out, until stop is called.
func (c *conn) offer(out *reply) (stop func()) {
	id := out.id
	c.mu.Lock()
	c.replies[id] = out
	ended := c.ended
	c.mu.Unlock()
	if ended {
		out.abandon()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.replies, id)
	}
}

// resume continues the stream of which the client got the event last.
func (c *conn) resume(w http.ResponseWriter, r *http.Request, last string) {
	id, number, _ := strings.Cut(last, "-")
	after, err := strconv.Atoi(number)
	c.mu.Lock()
	out := c.replies[id]
	c.mu.Unlock()
	if err == nil && out != nil {
		if left, ok := out.resume(w, after); ok {
			select {
			case <-left:
			case <-r.Context().Done():
			}
			out.lost(w)
			return
		}
	}
	refuse(w, http.StatusBadRequest, "there is no stream with the event "+strconv.Quote(last)+"; a stream can be resumed until its answer was written, within 30 seconds")
}

// listen streams what answers no request. A second stream of a session takes over.
func (e *endpoint) listen(w http.ResponseWriter, r *http.Request, token string) {
	if noSessions(w, r) {
		return
	}
	if !accepts(r, kindEvents) {
		refuse(w, http.StatusNotAcceptable, "the client has to accept "+kindEvents)
		return
	}
	if !enter(w, e.streams, "streams") {
		return
	}
	defer func() { <-e.streams }()
	c := e.session(w, r, token)
	if c == nil {
		return
	}
	defer e.release(c)
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		c.resume(w, r, last)
		return
	}
	mine := make(chan struct{})
	e.mu.Lock()
	if c.stream != nil {
		close(c.stream)
	}
	c.stream = mine
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if c.stream == mine {
			c.stream = nil
		}
	}()
	gone := make(chan struct{})
	out := newReply(w, false, func() { close(gone) })
	out.begin()
	defer out.finish(nil, 0)
	defer c.startForward(out)()
	select {
	case <-r.Context().Done():
	case <-e.ending:
	case <-c.ended:
	case <-mine: // another stream takes over
	case <-gone:
	}
}
