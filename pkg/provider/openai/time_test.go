package openai

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// What comes after the finish_reason of an answer is waited for.
func TestTimeAfterTheEnd(t *testing.T) {
	text := deltas(`{"content":"x"}`)
	whole := sse(`{"choices":[{"delta":{"content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`)
	pings := []modeltest.Piece{modeltest.After(0, whole)}
	for range 20 {
		pings = append(pings, modeltest.After(time.Second, "event: ping\ndata: {\"choices\":[]}\n\n"))
	}
	tests := []struct {
		name   string
		pieces []modeltest.Piece
		hangs  bool
		after  time.Duration
		want   string // the error, or ""
	}{
		{"more of the answer after its end", []modeltest.Piece{modeltest.After(0, text+stop), modeltest.After(1500*time.Millisecond, text), modeltest.After(1500*time.Millisecond, stop)}, true, 5 * time.Second, ""},
		{"events that are no part of the answer", pings, true, modelhttp.EndTimeout, ""},
		{"usage after the end", []modeltest.Piece{modeltest.After(0, text+stop), modeltest.After(time.Second, sse(`{"choices":[],"usage":{"prompt_tokens":1}}`)+"data: [DONE]\n\n")}, false, time.Second, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := &modeltest.Body{Pieces: tt.pieces, Hangs: tt.hangs}
				p := &Provider{Settings: modelhttp.Settings{BaseURL: "http://h", Client: body.Client()}}
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
