package admission_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/admission"
)

// A client that sends a byte now and then does not keep a connection, whatever the handler
// does with the body.
func TestABodyThatTricklesIsClosed(t *testing.T) {
	for name, handle := range map[string]http.HandlerFunc{
		"read": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			w.WriteHeader(http.StatusBadRequest)
		},
		"read in part":   func(w http.ResponseWriter, r *http.Request) { _, _ = r.Body.Read(make([]byte, 1)) },
		"not read":       func(http.ResponseWriter, *http.Request) {},
		"answered first": func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "ok") },
		"too large": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(http.MaxBytesReader(w, r.Body, 3))
		},
	} {
		for _, header := range []string{"Content-Length: 1000000", "Content-Length: 1000", "Transfer-Encoding: chunked"} {
			t.Run(name+" "+header, func(t *testing.T) {
				t.Parallel()
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					admission.LimitBody(w, r, 50*time.Millisecond)
					handle(w, r)
				}))
				t.Cleanup(s.Close)
				c, err := net.Dial("tcp", s.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", header)
				closed := make(chan struct{})
				go func() { defer close(closed); _, _ = io.Copy(io.Discard, c) }()
				for late := time.After(20 * time.Second); ; {
					select {
					case <-closed:
						return
					case <-late:
						t.Fatal("the connection is still open")
					case <-time.After(5 * time.Millisecond):
						_, _ = io.WriteString(c, "1\r\nx\r\n") // both a chunk and a part of a body
					}
				}
			})
		}
	}
}

// A request whose body was read has no time limit.
func TestABodyThatEndsHasNoTimeLimit(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admission.LimitBody(w, r, time.Millisecond)
		_, _ = io.ReadAll(r.Body)
		select {
		case <-r.Context().Done():
			t.Error("the request ended with the time limit of its body")
		case <-time.After(30 * time.Millisecond):
		}
	}))
	defer s.Close()
	res, err := http.Post(s.URL, "text/plain", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
}
