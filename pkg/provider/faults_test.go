package provider_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider/anthropic"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
	"github.com/agents-exe/agents/pkg/provider/openai"
	"github.com/agents-exe/agents/pkg/provider/responses"
)

// A protocol is how a server of it answers. The tests of this file run for each.
type protocol struct {
	name string
	open func(modelhttp.Settings) agent.Provider
	// head is what a server sends at once, even if the model then thinks for long; start
	// begins the text, where it has a beginning; piece is a piece of it, with %s for it. stop says why the model stopped, where this is not the end, and
	// done ends the answer. halfCall begins a call, and restOfCall completes it.
	head, start, piece, stop, done string
	halfCall, restOfCall           string
	whole                          string // "Hello", not streamed
	// keyHeaders are the headers in which the key is sent, with %s for it.
	keyHeaders map[string]string
}

var protocols = []protocol{
	{
		name: "chat", open: func(s modelhttp.Settings) agent.Provider { return &openai.Provider{Settings: s} },
		head:  `{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`,
		piece: `{"choices":[{"index":0,"delta":{"content":"%s"}}]}`,
		stop:  `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, done: "[DONE]",
		halfCall:   `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"rm","arguments":"{\"path\":"}}]}}]}`,
		restOfCall: `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]}`,
		whole:      `{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]}`,
		keyHeaders: map[string]string{"Authorization": "Bearer %s"},
	},
	{
		name: "responses", open: func(s modelhttp.Settings) agent.Provider { return &responses.Provider{Settings: s} },
		head:       `{"type":"response.created","response":{"status":"in_progress","output":[]}}`,
		start:      `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"m","content":[]}}`,
		piece:      `{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"%s"}`,
		done:       `{"type":"response.completed","response":{"status":"completed"}}`,
		halfCall:   `{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"path\":"}`,
		restOfCall: `{"type":"response.function_call_arguments.delta","output_index":1,"delta":"1}"}`,
		whole:      `{"object":"response","output":[{"type":"message","content":[{"type":"output_text","text":"Hello"}]}]}`,
		keyHeaders: map[string]string{"Authorization": "Bearer %s"},
	},
	{
		name: "anthropic", open: func(s modelhttp.Settings) agent.Provider { return &anthropic.Provider{Settings: s} },
		head:  `{"type":"message_start","message":{"role":"assistant","content":[],"usage":{"input_tokens":1}}}`,
		start: `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		piece: `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}`,
		stop:  `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, done: `{"type":"message_stop"}`,
		halfCall: `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"rm","input":{}}}` + "\n\ndata: " +
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"path\":"}}`,
		restOfCall: `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"1}"}}`,
		whole:      `{"type":"message","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn"}`,
		keyHeaders: map[string]string{"X-Api-Key": "%s", "Authorization": "Bearer %s"},
	},
}

// each runs a test for each protocol.
func each(t *testing.T, test func(t *testing.T, pr protocol)) {
	for _, pr := range protocols {
		t.Run(pr.name, func(t *testing.T) { test(t, pr) })
	}
}

// text is a piece of an answer, begin the first one, end what follows the last, and answer
// all of it.
func (pr protocol) text(s string) string   { return modeltest.Events(fmt.Sprintf(pr.piece, s)) }
func (pr protocol) begin(s string) string  { return modeltest.Events(pr.head, pr.start) + pr.text(s) }
func (pr protocol) end() string            { return modeltest.Events(pr.stop, pr.done) }
func (pr protocol) answer(s string) string { return pr.begin(s) + pr.end() }

// A model is one that speaks a protocol.
type model struct {
	protocol
	modelhttp.Settings
}

func (m *model) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	return m.open(m.Settings).Generate(ctx, req, delta)
}

// against returns a model whose server is h.
func (pr protocol) against(t *testing.T, h http.HandlerFunc) *model {
	t.Helper()
	return &model{pr, modeltest.Serve(t, h)}
}

// answering returns a model whose server sends body to every request.
func (pr protocol) answering(t *testing.T, body string) *model {
	return pr.against(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, body)
	})
}

// ask makes a request and also returns the text that was shown.
func ask(t testing.TB, p agent.Provider) (resp *agent.Response, shown string, err error) {
	t.Helper()
	resp, shown, _, err = modeltest.Ask(t, p, modeltest.Hello)
	return resp, shown, err
}

const secret = "sk-very-secret-0123456789"

func key() string { return secret }

// An answer that is not complete is none, and asking again may help.
func TestBrokenAnswersAreTemporary(t *testing.T) {
	each(t, func(t *testing.T, pr protocol) {
		tests := []struct {
			name, body, want string
		}{
			{"empty body", "", "HTTP 200: the server's answer is empty"},
			{"white space", "\n\n", "HTTP 200: the server's answer is empty"},
			{"[DONE] alone", "data: [DONE]\n\n", "HTTP 200: the server's answer is empty"},
			{"page", "<!doctype html><title>Bad gateway</title><h1>Try&nbsp;later</h1>", "HTTP 200: the server answered with a page instead of an answer of the model: Bad gateway Try later"},
			{"plain text", "upstream is gone", "HTTP 200: the server's answer is not that of a model: upstream is gone"},
			{"error object", `{"error":{"message":"overloaded","type":"server_error"}}`, "overloaded"},
			{"error text", `{"error":"overloaded"}`, "overloaded"},
			{"error list", `[{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}]`, "HTTP 503: overloaded"},
			{"object error", `{"object":"error","message":"overloaded","code":500}`, "HTTP 500: overloaded"},
			{"detail", `{"detail":"overloaded"}`, "overloaded"},
			{"half JSON", pr.whole[:len(pr.whole)-3], "the server sent a piece that is not JSON"},
			{"error in a stream", pr.begin("Hel") + modeltest.Events(`{"error":{"message":"out of memory","code":502}}`), "HTTP 502: out of memory"},
			{"error event", pr.begin("Hel") + "event: error\n" + modeltest.Events(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), "Overloaded"},
			{"cut before the text", modeltest.Events(pr.head), "the answer broke off before its end"},
			{"cut after text", pr.begin("Hel"), "the answer broke off before its end"},
			{"cut within an event", pr.begin("Hel") + pr.text("lo")[:20], "the server sent a piece that is not JSON"},
			{"cut within a call", pr.begin("Hel") + modeltest.Events(pr.halfCall), "the answer broke off before its end"},
			{"cut after a whole call", pr.begin("Hel") + modeltest.Events(pr.halfCall, pr.restOfCall), "the answer broke off before its end"},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				resp, _, err := ask(t, pr.answering(t, tt.body))
				if resp != nil {
					t.Errorf("there is an answer: %+v", resp)
				}
				e := modeltest.ModelError(t, err)
				if !e.Temporary || !strings.Contains(e.Error(), tt.want) {
					t.Errorf("error = %q, temporary %v; want %q, temporary", e, e.Temporary, tt.want)
				}
			})
		}
		for name, body := range map[string]string{"streamed": pr.begin("Hel") + pr.text("lo") + pr.end(), "CRLF": strings.ReplaceAll(pr.answer("Hello"), "\n", "\r\n"), "not streamed": pr.whole} {
			if resp, shown, err := ask(t, pr.answering(t, body)); err != nil || resp.Message.Text() != "Hello" || shown != "Hello" {
				t.Errorf("%s: %+v, shown %q, %v", name, resp, shown, err)
			}
		}
	})
}

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
