package modelhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// unanswered is an answer of which nothing arrives.
type unanswered struct{}

func (unanswered) Add([]byte) error                   { return nil }
func (unanswered) End()                               {}
func (unanswered) State() modelhttp.State             { return modelhttp.State{} }
func (unanswered) Response() (*agent.Response, error) { return nil, errors.New("no answer") }
func (unanswered) Usage() agent.Usage                 { return agent.Usage{} }

// requestsOf sends a request that is cancelled, and returns how many are counted.
func requestsOf(t *testing.T, ctx context.Context, url string, transport http.RoundTripper, body []byte) int {
	t.Helper()
	x, err := modelhttp.Open(&modelhttp.Settings{BaseURL: url, Client: &http.Client{Transport: transport}}, "", "chat/completions")
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.Run(ctx, &agent.Request{}, body, unanswered{})
	var failed *agent.ModelError
	if !errors.As(err, &failed) || !errors.Is(err, context.Canceled) {
		t.Fatalf("Run: %v", err)
	}
	return failed.Usage.Requests
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A request that is cancelled counts if the server may have all of it, even before the last of
// its writes has returned, and not before.
func TestCancelledRequestsThatTheServerHas(t *testing.T) {
	var one, two http.Protocols
	one.SetHTTP1(true)
	two.SetUnencryptedHTTP2(true)
	for name, protocols := range map[string]*http.Protocols{"HTTP/1": &one, "HTTP/2": &two} {
		for _, tt := range []struct {
			when string
			size int
			want int
		}{
			{"in the middle of the body", 4 << 20, 0},
			{"with the last byte", 100, 1},
			{"with the last byte", 64 << 10, 1},
			{"at the head of the answer", 100, 1},
			{"at the head of the answer", 64 << 10, 1},
		} {
			if protocols == &two && tt.when == "at the head of the answer" {
				continue // net/http would wait for the write to acknowledge settings
			}
			t.Run(name+" "+tt.when, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					if tt.when == "at the head of the answer" {
						_ = http.NewResponseController(w).Flush()
					}
					<-r.Context().Done()
				}))
				server.Config.Protocols = protocols
				server.Start()
				returned := make(chan struct{})
				transport := &http.Transport{Protocols: protocols, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
					return &heldConn{Conn: c, when: tt.when, cancel: cancel, returned: returned, closed: make(chan struct{})}, err
				}}
				t.Cleanup(func() {
					transport.CloseIdleConnections()
					server.Close()
				})
				answered := roundTripper(func(r *http.Request) (*http.Response, error) {
					resp, err := transport.RoundTrip(r)
					cancel()
					return resp, err
				})
				body := append(bytes.Repeat(filler, tt.size/len(filler)), end...)
				got := requestsOf(t, ctx, server.URL, answered, body)
				close(returned)
				if got != tt.want {
					t.Errorf("%d bytes: %d requests are counted, want %d", tt.size, got, tt.want)
				}
			})
		}
	}
}

// Of these the bodies of requests are made.
var filler, end = []byte("fillfillfillfill"), []byte(`"end"`)

// A heldConn cancels the request before or after one of its writes, which does not return until
// the request has.
type heldConn struct {
	net.Conn
	when     string
	cancel   func()
	returned <-chan struct{}
	once     sync.Once
	closed   chan struct{}
}

func (c *heldConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func (c *heldConn) Write(p []byte) (int, error) {
	last := bytes.HasSuffix(p, end)
	switch {
	case c.when == "in the middle of the body" && bytes.Contains(p, filler):
		if last {
			return 0, errors.New("the whole body is in one write")
		}
		c.cancel()
		c.wait()
		return 0, net.ErrClosed
	case last:
		n, err := c.Conn.Write(p)
		if c.when == "with the last byte" {
			c.cancel()
		}
		c.wait()
		return n, err
	}
	return c.Conn.Write(p)
}

func (c *heldConn) wait() {
	select {
	case <-c.returned:
	case <-c.closed:
	}
}

// A body that is sent again, on another connection, counts like the first.
func TestCancelledRequestThatIsSentAgain(t *testing.T) {
	for want, read := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		again := roundTripper(func(r *http.Request) (*http.Response, error) {
			r.Body.Close()
			body, err := r.GetBody()
			if err != nil {
				t.Fatal(err)
			}
			if read {
				_, _ = io.Copy(io.Discard, body)
			}
			cancel()
			return nil, errors.Join(body.Close(), ctx.Err())
		})
		if got := requestsOf(t, ctx, "http://server.example", again, []byte("{}")); got != want {
			t.Errorf("read: %v: %d requests are counted, want %d", read, got, want)
		}
	}
}
