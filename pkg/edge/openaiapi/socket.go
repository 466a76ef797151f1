package openaiapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
)

// maxQueued is how many requests a client may send while another one is answered.
const maxQueued = 4

// A socket is a WebSocket connection of a client that sends requests for responses. They are
// answered one after the other, with the events of a stream.
type socket struct {
	conn   *wsconn.Conn
	end    context.CancelCauseFunc // ends it when no request is being answered
	closed bool                    // under Handler.mu
}

// A socketEnd is why the server closes a connection.
type socketEnd struct {
	*apiError
	code wsconn.Code
}

// serveSocket is GET /responses of a client that asks for a WebSocket.
func (h *Handler) serveSocket(w http.ResponseWriter, r *http.Request) {
	if origin := r.Header.Get("Origin"); origin != "" && !h.Checked {
		if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
			writeError(w, invalid("", "", "pages from %.200q may not call this server", origin).as(http.StatusForbidden))
			return
		}
	}
	idle, end := context.WithCancelCause(r.Context())
	defer end(nil)
	s := &socket{end: end}
	if err := h.openSocket(s); err != nil {
		writeError(w, err)
		return
	}
	defer h.closeSocket(s)
	var err error
	if s.conn, err = wsconn.Accept(w, r, wsconn.Options{}); err != nil {
		return // it is answered
	}
	r = r.Clone(r.Context())
	r.Header.Del("Idempotency-Key") // it would be that of every request
	h.converse(r, s, idle)
}

func (h *Handler) openSocket(s *socket) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return stopping()
	}
	if h.sockets == nil {
		h.sockets = map[*socket]bool{}
	}
	h.sockets[s] = true
	h.serving.Add(1)
	return nil
}

// closeSocket forgets s, and what only its client could continue.
func (h *Handler) closeSocket(s *socket) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.closed = true
	delete(h.sockets, s)
	h.evict(s)
	h.serving.Done()
}

// evict removes the response that only s has. h.mu is held.
func (h *Handler) evict(s *socket) {
	if i := slices.IndexFunc(h.store, func(r stored) bool { return r.socket == s }); i >= 0 {
		h.remove(i)
	}
}

// converse answers requests until the connection ends. When idle is canceled, it completes the
// response in progress and then closes the connection.
func (h *Handler) converse(r *http.Request, s *socket, idle context.Context) {
	var serving sync.WaitGroup
	defer serving.Wait()
	defer s.conn.Abort()
	ctx, lost := context.WithCancelCause(r.Context())
	defer lost(nil)
	idle, done := context.WithTimeoutCause(idle, cmp.Or(h.SocketTime, DefaultSocketTime), &socketEnd{
		invalid("", "websocket_connection_limit_reached", "the connection has been open for too long; open another one"), wsconn.Normal})
	defer done()
	queue := make(chan []byte, maxQueued)
	serving.Go(func() { s.conn.KeepAlive(ctx) })
	serving.Go(func() {
		// r's context: the end of ctx would close the connection before the error is sent.
		err := h.receive(r.Context(), s, queue)
		s.end(err)
		lost(err)
	})
	for idle.Err() == nil {
		select {
		case text := <-queue:
			h.respond(r.WithContext(ctx), s, s.stream(r.Context()), text)
		case <-idle.Done():
		}
	}
	if why, ok := errors.AsType[*socketEnd](context.Cause(idle)); ok {
		s.stream(r.Context()).refuse(why.apiError)
		_ = s.conn.End(why.code, why.Text)
	}
}

// receive passes requests to queue until the connection ends, or must be ended.
func (h *Handler) receive(ctx context.Context, s *socket, queue chan<- []byte) error {
	limit := cmp.Or(h.MaxBody, DefaultMaxBody)
	for {
		request, err := s.conn.Text(ctx, limit)
		switch {
		case errors.Is(err, wsconn.ErrTooLong):
			return &socketEnd{tooLarge(limit), wsconn.TooLong}
		case errors.Is(err, wsconn.ErrBinary):
			return &socketEnd{invalid("", "unsupported_media_type", "%v", err), wsconn.Binary}
		case err != nil:
			return err
		}
		select {
		case queue <- request:
		default:
			return &socketEnd{(&apiError{Type: "rate_limit_error", Code: text("rate_limit_exceeded"),
				Text: fmt.Sprintf("more than %d requests are waiting on this connection", maxQueued)}).as(http.StatusTooManyRequests), wsconn.TryLater}
		}
	}
}

// stream returns the events of one response.
func (s *socket) stream(ctx context.Context) *stream {
	return &stream{on: true, frame: func(text []byte) error { return s.conn.Send(ctx, text) }}
}

// respond answers one request.
func (h *Handler) respond(r *http.Request, s *socket, out *stream, text []byte) {
	req := newRequest()
	err := jsondoc.Measure(text)
	if err == nil {
		err = json.Unmarshal(text, req)
	}
	if err = decodeError(err, 0); err == nil && req.Type != "response.create" {
		err = invalid("type", "invalid_value", "type: %.50q is not supported; want response.create", req.Type)
	}
	req.api, req.socket, req.Stream = responsesAPI, s, true
	h.reply(r, req, sha256.Sum256(text), err, out)
	if out.failed && req.Previous != "" {
		h.mu.Lock()
		defer h.mu.Unlock()
		if i, err := h.stored(req.Previous, "", s); err == nil && h.store[i].socket == s {
			h.remove(i)
		}
	}
}
