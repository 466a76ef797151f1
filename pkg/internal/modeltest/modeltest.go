// Package modeltest has model servers for the tests of providers.
package modeltest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// Serve starts a server until the end of the test and returns the settings of a model there.
func Serve(t testing.TB, h http.HandlerFunc) modelhttp.Settings {
	t.Helper()
	server := httptest.NewServer(h)
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
	})
	return modelhttp.Settings{BaseURL: server.URL, Model: "m", Client: &http.Client{Transport: transport}}
}

// Answer is Serve with a server that sends one body after the other, and the last one to all
// further requests. It also returns the bodies of the requests.
func Answer(t testing.TB, bodies ...string) (modelhttp.Settings, *[]string) {
	var requests []string
	return Serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		io.WriteString(w, bodies[min(len(requests), len(bodies)-1)])
		requests = append(requests, string(body))
	}), &requests
}

// A RoundTripper answers requests without a network, so that it works in a synctest bubble.
type RoundTripper func(*http.Request) (*http.Response, error)

func (f RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A Body is that of a response: it sends pieces with waits before them and then ends, or,
// if Hangs is set, waits for the end of its request.
type Body struct {
	Pieces []Piece
	Hangs  bool
	Closed bool
	ctx    context.Context
}

// A Piece is sent after a wait; After returns one.
type Piece struct {
	wait time.Duration
	text string
}

// After returns a piece.
func After(wait time.Duration, text string) Piece { return Piece{wait, text} }

// Client returns a client that gets the body as the answer to its request.
func (b *Body) Client() *http.Client {
	return &http.Client{Transport: RoundTripper(func(r *http.Request) (*http.Response, error) {
		b.ctx = r.Context()
		return &http.Response{StatusCode: 200, Body: b, Request: r}, nil
	})}
}

func (b *Body) Read(p []byte) (int, error) {
	if len(b.Pieces) == 0 {
		if !b.Hangs {
			return 0, io.EOF
		}
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	select {
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	case <-time.After(b.Pieces[0].wait):
	}
	n := copy(p, b.Pieces[0].text)
	b.Pieces = b.Pieces[1:]
	return n, nil
}

func (b *Body) Close() error { b.Closed = true; return nil }

// Hello is a request.
var Hello = &agent.Request{Messages: []agent.Message{agent.UserText("hello")}}

// Ask makes a request and also returns the text and the reasoning that were shown.
func Ask(t testing.TB, p agent.Provider, req *agent.Request) (resp *agent.Response, text, thought string, err error) {
	t.Helper()
	var texts, thoughts strings.Builder
	resp, err = p.Generate(context.Background(), req, func(d agent.Delta) {
		switch d.Kind {
		case agent.DeltaText:
			texts.WriteString(d.Text)
		case agent.DeltaReasoning:
			thoughts.WriteString(d.Text)
		case agent.DeltaRetry:
			texts.Reset()
			thoughts.Reset()
		}
	})
	return resp, texts.String(), thoughts.String(), err
}

// ModelError returns err as a *agent.ModelError; it must be one.
func ModelError(t testing.TB, err error) *agent.ModelError {
	t.Helper()
	e, ok := errors.AsType[*agent.ModelError](err)
	if !ok {
		t.Fatalf("error = %v (%T), want a *agent.ModelError", err, err)
	}
	return e
}

// Events writes each value that is not empty as a server-sent event.
func Events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		if d != "" {
			b.WriteString("data: " + d + "\n\n")
		}
	}
	return b.String()
}
