package signin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/filelock"
	"github.com/agents-exe/agents/pkg/redact"
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

	mu    sync.Mutex
	nonce string // the last of the server, for DPoP
}

// RoundTrip implements http.RoundTripper. A token that the server refuses is renewed once.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	s := t.server
	base, err := url.Parse(s.URL)
	if err != nil || req.URL.Host != base.Host || req.URL.Scheme != base.Scheme || req.Header.Get("Authorization") != "" {
		return t.next.RoundTrip(req)
	}
	defer closeBody(req)
	r, err := s.read()
	if err == nil && r != nil && !r.usable(s.now()) && r.Access != "" {
		r, err = s.renew(req.Context(), nil, r)
	}
	for renewed := false; err == nil; {
		resp, failed := t.send(req, r)
		if failed != nil {
			return nil, failed
		}
		c := challenged(resp)
		if c == nil {
			return hide(resp, r), nil
		}
		drain(resp)
		if renewed {
			return nil, s.refused(c, r)
		}
		renewed = true
		r, err = s.renew(req.Context(), c, r)
	}
	return nil, err
}

// send sends req with the token of r, which may be nil. A nonce that the server wants in the
// proof is added.
func (t *transport) send(req *http.Request, r *record) (*http.Response, error) {
	for again := false; ; again = true {
		sent := req.Clone(req.Context())
		if req.GetBody != nil {
			body, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			sent.Body = body
		}
		t.mu.Lock()
		nonce := t.nonce
		t.mu.Unlock()
		if err := t.server.authorize(sent, r, nonce); err != nil {
			return nil, err
		}
		resp, err := t.next.RoundTrip(sent)
		if err != nil {
			return nil, err
		}
		fresh := resp.Header.Get("DPoP-Nonce")
		if fresh == "" || r == nil || r.Key == "" {
			return resp, nil
		}
		t.mu.Lock()
		t.nonce = fresh
		t.mu.Unlock()
		if again || resp.StatusCode != http.StatusUnauthorized || challenged(resp).problem != "use_dpop_nonce" {
			return resp, nil
		}
		drain(resp)
	}
}

// authorize adds the token of r to a request.
func (s *Server) authorize(req *http.Request, r *record, nonce string) error {
	switch {
	case r == nil || r.Access == "":
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

// renew returns a token in place of the one of r, which the server refused with c, or which has
// expired if c is nil. One process does this at a time.
func (s *Server) renew(ctx context.Context, c *Challenge, r *record) (*record, error) {
	release, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	now, err := s.read()
	switch {
	case err != nil:
		return nil, err
	case now != nil && now.usable(s.now()) && (r == nil || now.Access != r.Access):
		return now, nil // another process renewed it
	case s.Client.Grant != "":
		if now, err = s.obtain(ctx, c, now); err != nil {
			return nil, now.clean(err)
		}
		return now, s.write(now)
	case now == nil || now.Access == "":
		return nil, s.required("the server requires a sign-in")
	case c != nil && (c.problem == "insufficient_scope" || now.Refresh == ""):
		return nil, s.refused(c, now)
	case now.Refresh == "":
		return nil, s.required("the sign-in has expired")
	}
	// A refresh token may be used up as soon as it is sent.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxWait)
	defer cancel()
	err = s.token(ctx, now, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {now.Refresh}})
	var refused *refusal
	switch {
	case errors.As(err, &refused) && refused.status < 500:
		return nil, s.required(fmt.Sprintf("the sign-in is no longer valid (%s)", now.clean(err)))
	case err != nil:
		return nil, fmt.Errorf("refresh the sign-in: %w", now.clean(err))
	}
	return now, s.write(now)
}

// refused is the error for a token that the server does not accept.
func (s *Server) refused(c *Challenge, r *record) error {
	switch {
	case s.Client.Grant != "":
		return fmt.Errorf("the server refused the token of its authorization server (%s)", cmp.Or(c.problem, "no reason given"))
	case c.problem == "insufficient_scope":
		e := &Required{"the sign-in does not permit this (insufficient_scope)", s.Command}
		if len(c.scopes) > 0 {
			e.Command += " --scope '" + strings.Join(c.scopes, " ") + "'"
		}
		return e
	case r == nil || r.Access == "":
		return s.required("the server requires a sign-in")
	}
	return s.required("the server did not accept the sign-in")
}

// lock waits until this process alone may change what is kept of s.
func (s *Server) lock(ctx context.Context) (release func(), err error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock the sign-in: %w", err)
	}
	if release, err = filelock.Acquire(ctx, s.path()+".lock"); err != nil {
		return nil, fmt.Errorf("lock the sign-in: %w", err)
	}
	return release, nil
}

// hide replaces the secrets of r in the body of a response: the server may repeat them, and
// those of a renewed sign-in are known here alone.
func hide(resp *http.Response, r *record) *http.Response {
	if r != nil {
		if secrets := redact.New(r.secrets()); secrets != nil {
			resp.Body = &hidden{ReadCloser: resp.Body, stream: secrets.Stream()}
			resp.ContentLength = -1
			resp.Header.Del("Content-Length")
		}
	}
	return resp
}

// hidden is a body without secrets.
type hidden struct {
	io.ReadCloser
	stream *redact.Stream
	ready  []byte
	err    error
}

// Read implements io.Reader.
func (h *hidden) Read(b []byte) (int, error) {
	for len(h.ready) == 0 && h.err == nil {
		var n int
		chunk := make([]byte, max(len(b), 512))
		n, h.err = h.ReadCloser.Read(chunk)
		h.ready = []byte(h.stream.Next(string(chunk[:n])))
		if h.err != nil {
			h.ready = append(h.ready, h.stream.Rest()...)
		}
	}
	n := copy(b, h.ready)
	if h.ready = h.ready[n:]; len(h.ready) == 0 {
		return n, h.err
	}
	return n, nil
}

// withBody gives a request a body that can be sent again.
func withBody(req *http.Request, body []byte) *http.Request {
	req.ContentLength = int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, _ = req.GetBody()
	return req
}

// drain lets the connection of a response be used again.
func drain(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	resp.Body.Close()
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
