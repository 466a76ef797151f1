package signin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/filelock"
	"github.com/agents-exe/agents/pkg/leaf/redact"
)

// Transport returns a transport that adds the token of s to requests and renews it. Requests to
// another host than that of the URL, and requests with an Authorization header, are passed on
// unchanged.
func (s *Server) Transport(next http.RoundTripper) http.RoundTripper {
	return &transport{server: s, next: next}
}

type transport struct {
	server *Server
	next   http.RoundTripper

	nonce atomic.Value // the last of the server, for DPoP: a string
}

// RoundTrip implements http.RoundTripper. A token that the server refuses is renewed once.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	s := t.server
	base, err := url.Parse(s.URL)
	if err != nil || req.URL.Host != base.Host || req.URL.Scheme != base.Scheme || req.Header.Get("Authorization") != "" {
		return t.next.RoundTrip(req)
	}
	if req.Body != nil {
		defer req.Body.Close()
	}
	r, err := s.current(req.Context(), keyringWait)
	if err == nil && r != nil && !r.usable() {
		r, err = s.renew(req.Context(), nil, r)
	}
	for renewed, nonced := false, false; err == nil; {
		resp, failed := t.send(req, r)
		if failed != nil {
			return nil, failed
		}
		c := challenged(resp)
		if c == nil {
			return hide(resp, r), nil
		}
		resp.Body.Close()
		switch {
		case c.problem == useNonce && !nonced:
			nonced = true
		case renewed:
			return nil, s.refused(c, r)
		default:
			renewed, nonced = true, false
			r, err = s.renew(req.Context(), c, r)
		}
	}
	return nil, err
}

// send sends req with the token of r, which may be nil, and keeps the nonce of the response.
func (t *transport) send(req *http.Request, r *record) (_ *http.Response, err error) {
	sent := req.Clone(req.Context())
	if req.GetBody != nil {
		if sent.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	nonce, _ := t.nonce.Load().(string)
	if err := t.server.authorize(sent, r, nonce); err != nil {
		return nil, err
	}
	resp, err := t.next.RoundTrip(sent)
	if err == nil && resp.Header.Get(nonceHeader) != "" {
		t.nonce.Store(resp.Header.Get(nonceHeader))
	}
	return resp, err
}

// authorize adds the token of r to a request.
func (s *Server) authorize(req *http.Request, r *record, nonce string) error {
	switch {
	case r == nil:
		return nil
	case r.Key == "" || !strings.EqualFold(r.Type, "DPoP"):
		req.Header.Set("Authorization", "Bearer "+r.Access)
		return nil
	}
	proof, err := s.proof(r, req, nonce, true)
	req.Header.Set("Authorization", "DPoP "+r.Access)
	req.Header.Set("DPoP", proof)
	return err
}

// current returns the stored sign-in with its tokens, nil if there is none.
func (s *Server) current(ctx context.Context, wait time.Duration) (*record, error) {
	r, err := s.read()
	if err != nil {
		return nil, err
	}
	r, err = s.open(ctx, r, wait)
	if u := s.unsaved.Load(); u != nil && r != nil && r.Access == u.old {
		renewed := *u.record
		return &renewed, nil
	}
	return r, err
}

// renew returns a token in place of the one of r, which the server refused with c, or which has
// expired if c is nil. One process does this at a time.
func (s *Server) renew(ctx context.Context, c *challenge, r *record) (*record, error) {
	if s.Dir == "" {
		return nil, s.refused(c, r)
	}
	release, err := s.lock(ctx, "")
	if err != nil {
		return nil, err
	}
	defer release()
	now, err := s.current(ctx, keyringWait)
	switch {
	case err != nil:
		return nil, err
	case now != nil && now.usable() && (r == nil || now.Access != r.Access):
		return now, nil // another process renewed it
	case s.Client.Grant != "":
		if now, err = s.obtain(ctx, c, now); err != nil {
			return nil, now.clean(err)
		}
		return now, s.write(ctx, now, keyringWait)
	case now == nil || now.Refresh == "" || c != nil && c.problem == insufficient:
		return nil, s.refused(c, now)
	}
	// A refresh token may be used up as soon as it is sent, so this first makes sure that its
	// successor can be stored.
	if err := s.write(ctx, now, keyringWait); err != nil {
		return nil, fmt.Errorf("the sign-in is not refreshed, because it could not be stored: %w", err)
	}
	old := now.Access
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxWait)
	defer cancel()
	err = s.token(ctx, now, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {now.Refresh}})
	var refused *refusal
	switch {
	case errors.As(err, &refused) && !refused.temporary():
		return nil, &Required{s, fmt.Sprintf("the sign-in is no longer valid (%s)", now.clean(err)), c, now.Access}
	case err != nil:
		return nil, fmt.Errorf("refresh the sign-in: %w", now.clean(err))
	}
	if s.write(ctx, now, keyringWait) != nil {
		renewed := *now
		s.unsaved.Store(&unsaved{old, &renewed}) // the next renewal stores it
	}
	return now, nil
}

// refused returns the error for a request with r that the server refused with c; nil means that
// r has expired.
func (s *Server) refused(c *challenge, r *record) error {
	e := &Required{server: s, why: "the server did not accept the sign-in", challenge: c}
	if r != nil {
		e.refused = r.Access
	}
	switch {
	case s.Client.Grant != "":
		return fmt.Errorf("the server refused the token of its authorization server (%s)", cmp.Or(c.problem, "no reason given"))
	case c == nil:
		e.why = "the sign-in has expired"
	case c.problem == insufficient:
		e.why = "the sign-in does not permit this (insufficient_scope)"
	case r == nil:
		e.why = "the server requires a sign-in"
	}
	return e
}

// lock waits for a lock of s and returns its release. The lock "" is required for changes of
// the stored sign-in.
func (s *Server) lock(ctx context.Context, name string) (release func(), err error) {
	if err = os.MkdirAll(s.Dir, 0o700); err == nil {
		release, err = filelock.Acquire(ctx, s.path()+name+".lock")
	}
	if err != nil {
		return nil, fmt.Errorf("lock the sign-in: %w", err)
	}
	return release, nil
}

// hide replaces the secrets of r in the body of a response: the server may repeat them, and
// those of a renewed sign-in are known here alone.
func hide(resp *http.Response, r *record) *http.Response {
	if secrets := redact.New(r.secrets()); secrets != nil {
		resp.Body = &hidden{ReadCloser: resp.Body, stream: secrets.Stream()}
		resp.ContentLength = -1
		resp.Header.Del("Content-Length")
	}
	return resp
}

// hidden is a body without secrets.
type hidden struct {
	io.ReadCloser
	stream *redact.Stream
	ready  string
	err    error
}

// Read implements io.Reader.
func (h *hidden) Read(b []byte) (int, error) {
	for len(b) > 0 && h.ready == "" && h.err == nil {
		var n int
		n, h.err = h.ReadCloser.Read(b)
		h.ready = h.stream.Next(string(b[:n]))
		if h.err != nil {
			h.ready += h.stream.Rest()
		}
	}
	n := copy(b, h.ready)
	if h.ready = h.ready[n:]; h.ready == "" {
		return n, h.err
	}
	return n, nil
}
