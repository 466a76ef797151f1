package openai

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// roundTripper is a server without a network, so that its time is that of a
// synctest bubble.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A script is a body that sends pieces with waits before them, and then hangs
// until its request ends, or ends if hangs is not set.
type script struct {
	ctx    context.Context
	pieces []piece
	hangs  bool
	closed bool
}

type piece struct {
	wait time.Duration
	text string
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.pieces) == 0 {
		if !s.hangs {
			return 0, io.EOF
		}
		<-s.ctx.Done()
		return 0, s.ctx.Err()
	}
	select {
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	case <-time.After(s.pieces[0].wait):
	}
	n := copy(p, s.pieces[0].text)
	s.pieces = s.pieces[1:]
	return n, nil
}

func (s *script) Close() error { s.closed = true; return nil }

// What comes after the finish_reason of an answer is waited for.
func TestTimeAfterTheEnd(t *testing.T) {
	text := deltas(`{"content":"x"}`)
	tests := []struct {
		name   string
		pieces []piece
		hangs  bool
		after  time.Duration
		want   string // the error, or ""
	}{
		{"more of the answer after its end", []piece{{0, text + stop}, {1500 * time.Millisecond, text}, {1500 * time.Millisecond, stop}}, true, 5 * time.Second, ""},
		{"usage after the end", []piece{{0, text + stop}, {time.Second, sse(`{"choices":[],"usage":{"prompt_tokens":1}}`) + "data: [DONE]\n\n"}}, false, time.Second, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := &script{pieces: tt.pieces, hangs: tt.hangs}
				p := &Provider{Settings: modelhttp.Settings{BaseURL: "http://h", Client: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
					body.ctx = r.Context()
					return &http.Response{StatusCode: 200, Body: body, Request: r}, nil
				})}}}
				start := time.Now()
				_, _, err := ask(t, p)
				if took := time.Since(start); took != tt.after {
					t.Errorf("took %v, want %v", took, tt.after)
				}
				if !body.closed {
					t.Error("the response was not closed")
				}
				if tt.want == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				if e := modelError(t, err); e.Error() != tt.want || !e.Temporary {
					t.Errorf("error = %q, temporary %v; want %q", e, e.Temporary, tt.want)
				}
			})
		})
	}
}
