package provider_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// A timed is a body that sends pieces with waits before them, and then hangs
// until its request ends, or ends if hangs is not set.
type timed struct {
	ctx    context.Context
	pieces []piece
	hangs  bool
	closed bool
}

type piece struct {
	wait time.Duration
	text string
}

func (s *timed) Read(p []byte) (int, error) {
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

func (s *timed) Close() error { s.closed = true; return nil }

// A timing is how long an answer takes.
type timing struct {
	name   string
	pieces []piece
	hangs  bool
	after  time.Duration
	want   string // the error, or ""
}

func TestTime(t *testing.T) {
	each(t, testTime)
}

func testTime(t *testing.T, pr protocol) {
	text, end := pr.text("x"), pr.end()
	begin := pr.begin("x")
	tests := []timing{
		{"silence within an answer", []piece{{0, begin}}, true, time.Minute, "h sent nothing for 1m0s in the middle of its answer (the limit between two pieces)"},
		{"slow but steady", []piece{{50 * time.Second, begin}, {50 * time.Second, text}, {50 * time.Second, end}}, false, 150 * time.Second, ""},
		{"comments restart the idle limit", []piece{{0, begin}, {50 * time.Second, ": wait\n\n"}, {50 * time.Second, end}}, false, 100 * time.Second, ""},
		{"a long thought before the first word", []piece{{0, events(pr.head)}, {9 * time.Minute, begin + end}}, false, 9 * time.Minute, ""},
		{"no answer at all", nil, true, 10 * time.Minute, "h did not finish its answer within 10m0s (the limit of one request)"},
		{"an endless answer", append([]piece{{0, begin}}, slowly(20, 50*time.Second, text)...), true, 10 * time.Minute, "h did not finish its answer within 10m0s (the limit of one request)"},
		{"done, but the connection stays open", []piece{{0, begin + end}}, true, 50 * time.Millisecond, ""},
	}
	if pr.stop != "" {
		stop, done := events(pr.stop), events(pr.done)
		tests = append(tests, []timing{
			{"complete, but the connection stays open", []piece{{0, begin + stop}}, true, modelhttp.DefaultEndTimeout, ""},
			{"complete, and then comments", append([]piece{{0, begin + stop}}, slowly(20, time.Second, ": ping\n\n")...), true, modelhttp.DefaultEndTimeout, ""},
			{"the end after a second", []piece{{0, begin + stop}, {time.Second, done}}, false, time.Second, ""},
		}...)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := &timed{pieces: tt.pieces, hangs: tt.hangs}
				p := &model{pr, modelhttp.Settings{BaseURL: "http://h", Client: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
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

func slowly(n int, wait time.Duration, text string) []piece {
	pieces := make([]piece, n)
	for i := range pieces {
		pieces[i] = piece{wait, text}
	}
	return pieces
}

// The next turn uses the same connection.
func TestConnectionsAreReused(t *testing.T) {
	each(t, testReuse)
}

func testReuse(t *testing.T, pr protocol) {
	seen := map[string]bool{}
	p := pr.against(t, func(w http.ResponseWriter, r *http.Request) {
		seen[r.RemoteAddr] = true
		io.WriteString(w, pr.begin("x")+events(pr.stop))
		w.(http.Flusher).Flush()
		io.WriteString(w, events(pr.done))
	})
	for range 5 {
		if _, _, err := ask(t, p); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 1 {
		t.Errorf("%d connections for 5 requests", len(seen))
	}
}
