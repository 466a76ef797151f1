package provider_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// A timing is how long an answer takes.
type timing struct {
	name   string
	pieces []modeltest.Piece
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
		{"silence within an answer", []modeltest.Piece{modeltest.After(0, begin)}, true, time.Minute, "h sent nothing for 1m0s in the middle of its answer (the limit between two pieces)"},
		{"slow but steady", []modeltest.Piece{modeltest.After(50*time.Second, begin), modeltest.After(50*time.Second, text), modeltest.After(50*time.Second, end)}, false, 150 * time.Second, ""},
		{"comments restart the idle limit", []modeltest.Piece{modeltest.After(0, begin), modeltest.After(50*time.Second, ": wait\n\n"), modeltest.After(50*time.Second, end)}, false, 100 * time.Second, ""},
		{"a long thought before the first word", []modeltest.Piece{modeltest.After(0, modeltest.Events(pr.head)), modeltest.After(9*time.Minute, begin+end)}, false, 9 * time.Minute, ""},
		{"no answer at all", nil, true, 10 * time.Minute, "h did not finish its answer within 10m0s (the limit of one request)"},
		{"an endless answer", append([]modeltest.Piece{modeltest.After(0, begin)}, slowly(20, 50*time.Second, text)...), true, 10 * time.Minute, "h did not finish its answer within 10m0s (the limit of one request)"},
		{"done, but the connection stays open", []modeltest.Piece{modeltest.After(0, begin+end)}, true, 50 * time.Millisecond, ""},
	}
	if pr.stop != "" {
		stop, done := modeltest.Events(pr.stop), modeltest.Events(pr.done)
		tests = append(tests, []timing{
			{"complete, but the connection stays open", []modeltest.Piece{modeltest.After(0, begin+stop)}, true, modelhttp.EndTimeout, ""},
			{"complete, and then comments", append([]modeltest.Piece{modeltest.After(0, begin+stop)}, slowly(20, time.Second, ": ping\n\n")...), true, modelhttp.EndTimeout, ""},
			{"the end after a second", []modeltest.Piece{modeltest.After(0, begin+stop), modeltest.After(time.Second, done)}, false, time.Second, ""},
		}...)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := &modeltest.Body{Pieces: tt.pieces, Hangs: tt.hangs}
				p := &model{pr, modelhttp.Settings{BaseURL: "http://h", Client: body.Client()}}
				start := time.Now()
				_, _, err := ask(t, p)
				if took := time.Since(start); took != tt.after {
					t.Errorf("took %v, want %v", took, tt.after)
				}
				if !body.Closed {
					t.Error("the response was not closed")
				}
				if tt.want == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				if e := modeltest.ModelError(t, err); e.Error() != tt.want || !e.Temporary {
					t.Errorf("error = %q, temporary %v; want %q", e, e.Temporary, tt.want)
				}
			})
		})
	}
}

func slowly(n int, wait time.Duration, text string) []modeltest.Piece {
	pieces := make([]modeltest.Piece, n)
	for i := range pieces {
		pieces[i] = modeltest.After(wait, text)
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
		io.WriteString(w, pr.begin("x")+modeltest.Events(pr.stop))
		w.(http.Flusher).Flush()
		io.WriteString(w, modeltest.Events(pr.done))
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
