package openai

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
)

// What servers send with status 200 when the model failed.
func TestErrorsInAStream(t *testing.T) {
	const tooLong = "the request exceeds the available context size. try increasing the context size or enable context shift"
	tests := []struct {
		name, body, want   string
		temporary, tooLong bool
	}{
		{"llama.cpp before 2025-09", `error: {"code":400,"message":"` + tooLong + `","type":"invalid_request_error"}` + "\n\ndata: [DONE]\n\n",
			"HTTP 400: " + tooLong, false, true},
		{"llama.cpp in the middle of an answer", deltas(`{"content":"Hel"}`) + `error: {"code":500,"message":"Context size has been exceeded.","type":"server_error"}` + "\n\n",
			"HTTP 500: Context size has been exceeded.", false, true},
		{"GPUStack", `error: {"error":{"message":"no instance is ready","type":"ServiceUnavailable","code":503}}` + "\n\n",
			"HTTP 503: no instance is ready", true, false},
		{"an error field with plain text", "error: upstream is gone\n\n", "upstream is gone", true, false},
		{"Lemonade", ": ping\n\n" + `{"error":{"code":400,"message":"request (19185 tokens) exceeds the available context size (16384 tokens), try increasing it","n_ctx":16384,"type":"exceed_context_size_error"}}`,
			"HTTP 400: request (19185 tokens) exceeds the available context size (16384 tokens), try increasing it", false, true},
		{"Lemonade in the middle of an answer", deltas(`{"content":"Hel"}`) + `{"error":{"code":500,"message":"out of memory"}}` + "\n",
			"HTTP 500: out of memory", true, false},
		{"JSON before the events", `{"error":{"code":500,"message":"out of memory"}}` + "\n\ndata: [DONE]\n\n", "HTTP 500: out of memory", true, false},
		{"a code in the type alone", sse(`{"error":{"code":400,"message":"does not fit","type":"exceed_context_size_error"}}`), "HTTP 400: does not fit", false, true},
		{"Groq", "event: error\n" + sse(`{"error":{"message":"Failed to call a function.","type":"invalid_request_error","code":"tool_use_failed"}}`),
			"tool_use_failed: Failed to call a function.", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, _, err := ask(t, answering(t, "text/event-stream", tt.body))
			if resp != nil {
				t.Errorf("there is an answer: %+v", resp)
			}
			e := modeltest.ModelError(t, err)
			if !strings.HasSuffix(tt.want, e.Message) || e.Temporary != tt.temporary || e.TooLong != tt.tooLong {
				t.Errorf("error = %q (temporary %v, too long %v), want %q (%v, %v)", e, e.Temporary, e.TooLong, tt.want, tt.temporary, tt.tooLong)
			}
		})
	}
}

// Groq refuses calls that its models write wrongly. The model sees once what it
// wrote; the conversation of the caller does not change.
func TestTheModelSeesARefusedCall(t *testing.T) {
	refusal := `{"error":{"message":"Failed to call a function.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=ping{\"host\"","status_code":400}}`
	for _, how := range []string{"stream", "status"} {
		t.Run(how, func(t *testing.T) {
			var bodies []string
			refusals := 1
			p := against(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				bodies = append(bodies, string(body))
				switch {
				case len(bodies) > refusals:
					io.WriteString(w, deltas(`{"content":"pong"}`)+stop)
				case how == "status":
					w.WriteHeader(400)
					io.WriteString(w, refusal)
				default:
					io.WriteString(w, "event: error\n"+sse(refusal))
				}
			})
			var retries []agent.Delta
			resp, err := p.Generate(t.Context(), modeltest.Hello, func(d agent.Delta) {
				if d.Kind == agent.DeltaRetry {
					retries = append(retries, d)
				}
			})
			if err != nil || resp.Message.Text() != "pong" || len(retries) != 1 || len(bodies) != 2 {
				t.Fatalf("Generate = %v, %v after %d requests and %d notices", resp, err, len(bodies), len(retries))
			}
			first := strings.TrimSuffix(bodies[0], "]}")
			if added, ok := strings.CutPrefix(bodies[1], first); !ok || !strings.Contains(added, `{"role":"assistant","content":"<function=ping{\"host\""}`) || !strings.Contains(added, "Failed to call a function.") {
				t.Errorf("second request:\n%s\nafter the first:\n%s", bodies[1], bodies[0])
			}
			if len(modeltest.Hello.Messages) != 1 {
				t.Errorf("the caller's request has %d messages now", len(modeltest.Hello.Messages))
			}
			bodies, refusals = nil, 9
			_, err = p.Generate(t.Context(), modeltest.Hello, nil)
			if e := modeltest.ModelError(t, err); e.Temporary || e.Status != 400 || e.Code != "tool_use_failed" || len(bodies) != 2 {
				t.Errorf("error = %q, temporary %v, after %d requests; want a permanent one after 2", e, e.Temporary, len(bodies))
			}
		})
	}
}

// An answer with a beginning and an end and nothing between them is not a
// broken stream: the same request would be answered so again.
func TestAnEmptyAnswerIsNotRepeated(t *testing.T) {
	_, _, err := ask(t, answering(t, "", deltas(`{"role":"assistant","content":""}`)+"data: [DONE]\n\n"))
	if e := modeltest.ModelError(t, err); e.Temporary || e.Error() != "the model's answer is empty" {
		t.Errorf("error = %q, temporary %v", e, e.Temporary)
	}
}

// A model can write names and ids of any length.
func TestNamesAndIDsAreBounded(t *testing.T) {
	long := strings.Repeat("n", 1000)
	piece := `{"tool_calls":[{"index":0,"id":"` + long + `","function":{"name":"` + long + `","arguments":"{}"}},{"index":1,"id":"a","function":{"name":"` + strings.Repeat("x", 64) + `"}},{"index":2,"id":"` + long + `","function":{"name":"t"}}]}`
	resp, _, err := ask(t, answering(t, "", deltas(piece)+stop))
	if err != nil {
		t.Fatal(err)
	}
	calls := resp.Message.Calls
	if len(calls) != 3 || len(calls[0].Name) > 256 || len(calls[0].ID) > 256 || calls[1].ID != "a" || calls[1].Name != strings.Repeat("x", 64) {
		t.Errorf("calls = %+v", calls)
	}
	if calls[0].ID != calls[2].ID {
		t.Errorf("one id became two: %q and %q", calls[0].ID, calls[2].ID)
	}
}

// Names of members in another case are other names.
func TestNamesOfMembersAreExact(t *testing.T) {
	resp, _, err := ask(t, answering(t, "", deltas(`{"content":"Hello","Content":"x","tool_calls":[{"id":"a","function":{"name":"t","Name":"u","arguments":"{}","ARGUMENTS":"{\"a\":1}"}}]}`)+
		sse(`{"choices":[{"delta":{},"finish_reason":"stop","Finish_Reason":"length"}],"Error":"x","usage":{"prompt_tokens":1,"Prompt_Tokens":9,"completion_tokens":2},"Usage":{}}`)))
	if err != nil {
		t.Fatal(err)
	}
	want := &agent.Response{Finish: agent.FinishStop, Usage: agent.Usage{Requests: 1, InputTokens: 1, OutputTokens: 2},
		Message: agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("Hello")}, Calls: []agent.ToolCall{callOf("a", "t", "{}")}}}
	if diff := cmp.Diff(want, resp); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}
