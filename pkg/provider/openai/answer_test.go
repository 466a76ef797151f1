package openai

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

const stop = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"

// sse writes each chunk as an event.
func sse(chunks ...string) string {
	var b strings.Builder
	for _, c := range chunks {
		b.WriteString("data: " + c + "\n\n")
	}
	return b.String()
}

// deltas writes each delta as the event of a chunk.
func deltas(deltas ...string) string {
	var b strings.Builder
	for _, d := range deltas {
		b.WriteString(`data: {"choices":[{"index":0,"delta":` + d + `}]}` + "\n\n")
	}
	return b.String()
}

func callOf(id, name, args string) agent.ToolCall {
	return agent.ToolCall{ID: id, Name: name, Args: args}
}

// Every form of an answer gives the same result.
func TestAnswersOfAllFormsAreUnderstood(t *testing.T) {
	const done = "data: [DONE]\n\n"
	tests := []struct {
		name      string
		body      string
		text      string
		reasoning string
		calls     []agent.ToolCall
		finish    agent.Finish // "" means stop
	}{
		{name: "stream", body: deltas(`{"role":"assistant","content":""}`, `{"content":"Hel"}`, `{"content":"lo"}`) + stop + done, text: "Hello"},
		{name: "no stream", body: `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}]}`, text: "Hello"},
		{name: "no stream, white space and a byte order mark before", body: "\uFEFF \n" + `{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]}`, text: "Hello"},
		{name: "no stream, no finish_reason", body: `{"choices":[{"message":{"content":"Hello"}}]}`, text: "Hello"},
		{name: "no stream, object as arguments", body: `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"grep","arguments":{"n":9007199254740993, "q":"x"}}}]},"finish_reason":"tool_calls"}]}`,
			calls: []agent.ToolCall{callOf("a", "grep", `{"n":9007199254740993, "q":"x"}`)}},
		{name: "no [DONE]", body: deltas(`{"content":"Hello"}`) + stop, text: "Hello"},
		{name: "no empty line at the end", body: deltas(`{"content":"Hello"}`) + `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}`, text: "Hello"},
		{name: "no finish_reason but [DONE]", body: deltas(`{"content":"Hello"}`) + done, text: "Hello"},
		{name: "finish_reason empty until the end", body: sse(`{"choices":[{"delta":{"content":"Hello"},"finish_reason":""}]}`) + done, text: "Hello"},
		{name: "finish_reason stop with calls", body: deltas(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"grep","arguments":"{}"}}]}`) + stop,
			calls: []agent.ToolCall{callOf("a", "grep", "{}")}},
		{name: "finish_reason end_turn", body: sse(`{"choices":[{"delta":{"content":"x"},"finish_reason":"end_turn"}]}`), text: "x"},
		{name: "finish_reason eos", body: sse(`{"choices":[{"delta":{"content":"x"},"finish_reason":"eos"}]}`), text: "x"},
		{name: "finish_reason length", body: sse(`{"choices":[{"delta":{"content":"x"},"finish_reason":"length"}]}`), text: "x", finish: agent.FinishLength},
		{name: "finish_reason MAX_TOKENS", body: sse(`{"choices":[{"delta":{"content":"x"},"finish_reason":"MAX_TOKENS"}]}`), text: "x", finish: agent.FinishLength},
		{name: "finish_reason content_filter", body: sse(`{"choices":[{"delta":{"content":"x"},"finish_reason":"content_filter"}]}`), text: "x", finish: agent.FinishContentFilter},
		{name: "a call cut by length keeps its cut arguments", body: deltas(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"grep","arguments":"{\"q\":"}}]}`) + sse(`{"choices":[{"delta":{},"finish_reason":"length"}]}`),
			calls: []agent.ToolCall{callOf("a", "grep", `{"q":`)}, finish: agent.FinishLength},
		{name: "CRLF, comments, other fields, no space", body: ": hello\r\n\r\nevent: ping\r\ndata: {}\r\n\r\nid: 7\r\nretry: 10\r\ndata:{\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\r\n\r\n: OPENROUTER PROCESSING\r\n\r\n" + stop, text: "Hello"},
		{name: "an event over two data lines", body: "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"Hello\"}}]}\n\n" + stop, text: "Hello"},
		{name: "no empty lines between events", body: strings.ReplaceAll(deltas(`{"content":"Hel"}`, `{"content":"lo"}`)+stop+done, "\n\n", "\n"), text: "Hello"},
		{name: "error null, ids that change", body: sse(`{"id":"","error":null,"choices":[{"delta":{"content":"Hel"}}]}`, `{"id":"b","error":null,"choices":[{"delta":{"content":"lo"}}]}`) + stop, text: "Hello"},
		{name: "data that is no JSON object", body: "data: ping\n\n" + deltas(`{"content":"Hello"}`) + "data: \n\n" + stop, text: "Hello"},
		{name: "half characters as bytes", body: deltas("{\"content\":\"Gr\xc3\"}", "{\"content\":\"\xbc\xc3\x9fe \xf0\x9f\"}", "{\"content\":\"\x98\x80\"}") + stop, text: "Grüße 😀"},
		{name: "half characters as escapes", body: deltas(`{"content":"a\ud83d"}`, `{"content":"\ude00b"}`) + stop, text: "a😀b"},
		{name: "a character that is never whole", body: deltas(`{"content":"a\ud83d"}`, `{"content":"b"}`, "{\"content\":\"\xc3\"}") + stop, text: "a\uFFFDb\uFFFD"},
		{name: "escapes", body: deltas(`{"content":"\"\\\/\b\f\n\r\t\u00e9"}`) + stop, text: "\"\\/\b\f\n\r\té"},
		{name: "content as a list of parts", body: deltas(`{"content":[{"type":"text","text":"Hel"},{"type":"text","text":"lo"},{"type":"x"},null]}`) + stop, text: "Hello"},
		{name: "thinking as parts (Mistral)", body: deltas(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`, `{"content":"Hello"}`) + stop, text: "Hello", reasoning: "hm"},
		{name: "reasoning_content", body: deltas(`{"reasoning_content":"h"}`, `{"reasoning_content":"m","content":null}`, `{"content":"Hello"}`) + stop, text: "Hello", reasoning: "hm"},
		{name: "reasoning", body: deltas(`{"reasoning":"h"}`, `{"reasoning":"m"}`, `{"content":"Hello"}`) + stop, text: "Hello", reasoning: "hm"},
		{name: "reasoning twice", body: deltas(`{"reasoning":"hm","reasoning_content":"hm"}`, `{"content":"Hello"}`) + stop, text: "Hello", reasoning: "hm"},
		{name: "reasoning in details alone", body: deltas(`{"reasoning_details":[{"type":"reasoning.text","text":"h"}]}`, `{"reasoning_details":[{"type":"reasoning.text","text":"m"}]}`, `{"content":"Hello"}`) + stop, text: "Hello", reasoning: "hm"},
		{name: "refusal", body: deltas(`{"content":null,"refusal":"I won't."}`) + stop, text: "I won't."},
		{name: "the whole message again at the end", body: deltas(`{"content":"Hello"}`) + sse(`{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]}`), text: "Hello"},
		{name: "a second choice is not ours", body: sse(`{"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"Hello"}}]}`) + stop, text: "Hello"},
		{name: "wrong types do no harm", body: sse(`{"id":7,"model":[],"created":"x","choices":[{"index":"0","delta":{"content":"Hello","role":3,"tool_calls":null},"logprobs":5}],"usage":"none"}`) + stop, text: "Hello"},
		{name: "calls in pieces", body: deltas(
			`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"grep","arguments":""}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"{\"q\":"}}]}`,
			`{"tool_calls":[{"index":1,"id":"b","function":{"name":"ls"}},{"index":0,"function":{"arguments":"1}"}}]}`,
			`{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}`) + stop,
			calls: []agent.ToolCall{callOf("a", "grep", `{"q":1}`), callOf("b", "ls", "{}")}},
		{name: "parallel calls all index 0", body: deltas(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"t","arguments":"{}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"u","arguments":"{}"}}]}`) + stop,
			calls: []agent.ToolCall{callOf("a", "t", "{}"), callOf("b", "u", "{}")}},
		{name: "parallel calls all index 0 of one tool without arguments", body: deltas(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"t","arguments":""}}]}`,
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"t","arguments":""}}]}`) + stop,
			calls: []agent.ToolCall{callOf("a", "t", ""), callOf("b", "t", "")}},
		{name: "parallel calls all index 0 without ids", body: deltas(
			`{"tool_calls":[{"index":0,"function":{"name":"t","arguments":"{\"a\":1}"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"name":"t","arguments":"{\"a\":2}"}}]}`) + stop,
			calls: []agent.ToolCall{callOf("", "t", `{"a":1}`), callOf("", "t", `{"a":2}`)}},
		{name: "parallel calls without index", body: deltas(
			`{"tool_calls":[{"id":"a","function":{"name":"t","arguments":"{}"}},{"id":"b","function":{"name":"t","arguments":"{}"}}]}`) + stop,
			calls: []agent.ToolCall{callOf("a", "t", "{}"), callOf("b", "t", "{}")}},
		{name: "parallel calls without index and ids", body: deltas(
			`{"tool_calls":[{"function":{"name":"t","arguments":""}},{"function":{"name":"t","arguments":""}}]}`) + stop,
			calls: []agent.ToolCall{callOf("", "t", ""), callOf("", "t", "")}},
		{name: "parallel calls with one id", body: deltas(
			`{"tool_calls":[{"index":0,"id":"c","function":{"name":"t","arguments":"{}"}},{"index":1,"id":"c","function":{"name":"t","arguments":"{}"}}]}`) + stop,
			calls: []agent.ToolCall{callOf("c", "t", "{}"), callOf("c", "t", "{}")}},
		{name: "pieces without index", body: deltas(
			`{"tool_calls":[{"id":"a","function":{"name":"t","arguments":"{\"a\""}}]}`,
			`{"tool_calls":[{"function":{"arguments":":1}"}}]}`) + stop,
			calls: []agent.ToolCall{callOf("a", "t", `{"a":1}`)}},
		{name: "another id in every piece", body: deltas(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"t","arguments":"{\"a\""}}]}`,
			`{"tool_calls":[{"index":0,"id":"zz","function":{"arguments":":1}"}}]}`) + stop,
			calls: []agent.ToolCall{callOf("a", "t", `{"a":1}`)}},
		{name: "id and name in every piece", body: deltas(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"t","arguments":"{\"a\""}}]}`,
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"t","arguments":":1}"}}]}`) + stop,
			calls: []agent.ToolCall{callOf("a", "t", `{"a":1}`)}},
		{name: "a name in two pieces", body: deltas(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"read_"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"name":"file"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}`) + stop,
			calls: []agent.ToolCall{callOf("a", "read_file", "{}")}},
		{name: "an object before the arguments", body: deltas(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"t","arguments":"{}"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}`) + stop,
			calls: []agent.ToolCall{callOf("a", "t", `{"a":1}`)}},
		{name: "repeated arguments", body: deltas(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"t","arguments":"{\"a\":1}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"t","arguments":"{\"a\":1}"}}]}`) + stop,
			calls: []agent.ToolCall{callOf("a", "t", `{"a":1}`)}},
		{name: "arguments as an object in a stream, one call that is no list", body: deltas(`{"tool_calls":{"id":"a","function":{"name":"t","arguments":{"a":"ü"}}}}`) + stop,
			calls: []agent.ToolCall{callOf("a", "t", `{"a":"ü"}`)}},
		{name: "name and arguments without function", body: deltas(`{"tool_calls":[{"id":"a","name":"t","arguments":"{}"}]}`) + stop,
			calls: []agent.ToolCall{callOf("a", "t", "{}")}},
		{name: "function_call", body: deltas(`{"function_call":{"name":"t","arguments":"{\"a\""}}`, `{"function_call":{"arguments":":1}"}}`) + sse(`{"choices":[{"delta":{},"finish_reason":"function_call"}]}`),
			calls: []agent.ToolCall{callOf("", "t", `{"a":1}`)}},
		{name: "no arguments at all", body: deltas(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"t","arguments":null}}]}`) + done,
			calls: []agent.ToolCall{callOf("a", "t", "")}},
		{name: "half characters in arguments", body: deltas("{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"t\",\"arguments\":\"{\\\"a\\\":\\\"\xc3\"}}]}", "{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\xbc\\\"}\"}}]}") + stop,
			calls: []agent.ToolCall{callOf("a", "t", `{"a":"ü"}`)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, shown, err := ask(t, answering(t, "text/event-stream", tt.body))
			if err != nil {
				t.Fatalf("Generate: %v", err)
			}
			reasoning := ""
			for _, p := range resp.Message.Parts {
				if p.Kind == agent.PartReasoning {
					reasoning += p.Text
				}
			}
			if got := resp.Message.Text(); got != tt.text || shown != tt.text || reasoning != tt.reasoning {
				t.Errorf("text = %q, shown %q, reasoning %q; want %q and %q", got, shown, reasoning, tt.text, tt.reasoning)
			}
			if diff := cmp.Diff(tt.calls, resp.Message.Calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			want := tt.finish
			if want == "" {
				want = agent.FinishStop
			}
			if resp.Finish != want || resp.Message.Role != agent.RoleAssistant {
				t.Errorf("finish = %q, role %q; want %q", resp.Finish, resp.Message.Role, want)
			}
		})
	}
}

// A piece is shown when it arrives, with either line ending.
func TestPiecesAreShownAsTheyArrive(t *testing.T) {
	for _, end := range []string{"\n", "\r\n"} {
		shown := ""
		a := &answer{emit: func(d agent.Delta) { shown += d.Text }}
		first := strings.NewReader(strings.ReplaceAll(deltas(`{"content":"Hel"}`), "\n", end))
		second := readerFunc(func(p []byte) (int, error) {
			if shown == "" {
				t.Errorf("%q: the second piece is asked for before the first is shown", end)
			}
			return copy(p, deltas(`{"content":"lo"}`)+stop), io.EOF
		})
		if _, err := modelhttp.Read(io.MultiReader(first, second), a, func() {}); err != nil || shown != "Hello" {
			t.Errorf("%q: %q, %v", end, shown, err)
		}
	}
}

// Many servers send a wrong content type.
func TestTheContentTypeIsIgnored(t *testing.T) {
	for _, contentType := range []string{"text/event-stream", "application/json", "text/plain", "nonsense", ""} {
		for _, body := range []string{deltas(`{"content":"Hello"}`) + stop, `{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]}`} {
			resp, _, err := ask(t, answering(t, contentType, body))
			if err != nil || resp.Message.Text() != "Hello" {
				t.Errorf("%s as %q: %v, %v", body, contentType, resp, err)
			}
		}
	}
}

func TestInvalidAnswersAreTemporaryErrors(t *testing.T) {
	cut := `{"tool_calls":[{"index":0,"id":"a","function":{"name":"rm","arguments":"{\"path\":\"/"}}]}`
	whole := `{"tool_calls":[{"index":0,"id":"a","function":{"name":"rm","arguments":"{}"}}]}`
	tests := []struct {
		name, body, want string
	}{
		{"error object", `{"error":{"message":"overloaded","type":"server_error"}}`, "overloaded"},
		{"error list (Gemini)", `[{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}]`, "HTTP 503: overloaded"},
		{"object error (vLLM)", `{"object":"error","message":"overloaded","code":500}`, "HTTP 500: overloaded"},
		{"detail", `{"detail":"overloaded"}`, "overloaded"},
		{"empty choices", `{"choices":[]}`, `HTTP 200: the server's answer has no choices: {"choices":[]}`},
		{"no choices", `{}`, `HTTP 200: the server's answer has no choices: {}`},
		{"empty choices in a stream", sse(`{"choices":[]}`) + "data: [DONE]\n\n", "the server's answer has no choices"},
		{"half JSON", `{"choices":[{"message":{"content":"Hel`, "the server sent a piece that is not JSON"},
		{"error in a stream", deltas(`{"content":"Hel"}`) + sse(`{"error":{"message":"out of memory","code":502},"choices":[{"delta":{},"finish_reason":"error"}]}`), "HTTP 502: out of memory"},
		{"error event", deltas(`{"content":"Hel"}`) + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n", "Overloaded"},
		{"finish_reason error", sse(`{"choices":[{"delta":{"content":"x"},"finish_reason":"error"}]}`), "the server gave up in the middle of the answer (finish_reason error)"},
		{"stream cut within a call", deltas(cut), "the answer broke off before its end"},
		{"stream cut after a whole call", deltas(whole), "the answer broke off before its end"},
		{"[DONE] after half a call", deltas(cut) + "data: [DONE]\n\n", "the answer broke off before its end"},
		{"no stream, half a call", `{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"rm","arguments":"{\"a\""}}]}}]}`, "the answer broke off before its end"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, _, err := ask(t, answering(t, "text/event-stream", tt.body))
			if resp != nil {
				t.Errorf("there is an answer: %+v", resp)
			}
			e := modeltest.ModelError(t, err)
			if !e.Temporary || !strings.HasPrefix(e.Error(), tt.want) {
				t.Errorf("error = %q, temporary %v; want %q, temporary", e, e.Temporary, tt.want)
			}
		})
	}
}

// An error object whose code is an HTTP status is temporary if the status is.
func TestErrorCodesDecideWhatIsTemporary(t *testing.T) {
	_, _, err := ask(t, answering(t, "application/json", `{"error":{"code":402,"message":"no credits","metadata":{"raw":"{\"x\":1}"}}}`))
	if e := modeltest.ModelError(t, err); e.Temporary || e.Error() != `HTTP 402: no credits: {"x":1}` {
		t.Errorf("error = %q, temporary %v", e, e.Temporary)
	}
	_, _, err = ask(t, answering(t, "application/json", `{"error":{"code":"insufficient_quota","message":"pay"}}`))
	if e := modeltest.ModelError(t, err); e.Temporary || e.Code != "insufficient_quota" {
		t.Errorf("error = %q, temporary %v", e, e.Temporary)
	}
}

func TestUsageIsRead(t *testing.T) {
	tests := []struct {
		name, body string
		want       agent.Usage
	}{
		{"none", deltas(`{"content":"x"}`) + stop, agent.Usage{Requests: 1, InputTokens: 6, OutputTokens: 4, Estimated: 1}},
		{"at the end", deltas(`{"content":"x"}`) + stop + sse(`{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130,"prompt_tokens_details":{"cached_tokens":64},"completion_tokens_details":{"reasoning_tokens":20}}}`),
			agent.Usage{Requests: 1, InputTokens: 100, CachedTokens: 64, OutputTokens: 30, ReasoningTokens: 20}},
		{"in every chunk", sse(`{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":5,"completion_tokens":1}}`, `{"choices":[{"delta":{"content":"y"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`, `{"choices":[],"usage":null}`),
			agent.Usage{Requests: 1, InputTokens: 5, OutputTokens: 2}},
		{"no stream", `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":"7","completion_tokens":2.0,"prompt_tokens_details":null}}`,
			agent.Usage{Requests: 1, InputTokens: 7, OutputTokens: 2}},
		{"Groq", stop + sse(`{"choices":[],"x_groq":{"id":"req_1","usage":{"prompt_tokens":10,"completion_tokens":2}}}`),
			agent.Usage{Requests: 1, InputTokens: 10, OutputTokens: 2}},
		{"DeepSeek", stop + sse(`{"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":2}}`),
			agent.Usage{Requests: 1, InputTokens: 10, CachedTokens: 8, OutputTokens: 2}},
		{"Kimi", sse(`{"choices":[{"delta":{"content":"x"},"finish_reason":"stop","usage":{"prompt_tokens":10,"completion_tokens":2,"cached_tokens":4}}]}`),
			agent.Usage{Requests: 1, InputTokens: 10, CachedTokens: 4, OutputTokens: 2}},
		{"xAI counts reasoning in the total alone", stop + sse(`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":42,"completion_tokens_details":{"reasoning_tokens":30}}}`),
			agent.Usage{Requests: 1, InputTokens: 10, OutputTokens: 32, ReasoningTokens: 30}},
		{"OpenRouter names the cost", stop + sse(`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"cost":0.0015}}`),
			agent.Usage{Requests: 1, InputTokens: 10, OutputTokens: 2, Cost: agent.Dollar / 10000 * 15, Priced: 1}},
		{"a cost that no request has", stop + sse(`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"cost":1e308}}`),
			agent.Usage{Requests: 1, InputTokens: 10, OutputTokens: 2}},
		{"nonsense", stop + sse(`{"choices":[],"usage":{"prompt_tokens":-3,"completion_tokens":1e300,"cost":-1,"cached_tokens":"x"}}`),
			agent.Usage{Requests: 1, InputTokens: 6, OutputTokens: 1<<31 - 1, Estimated: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, _, err := ask(t, answering(t, "text/event-stream", tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, resp.Usage); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheModelOfTheServerIsNamed(t *testing.T) {
	resp, _, err := ask(t, answering(t, "", sse(`{"model":"gpt-x-2026","choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}`)))
	if err != nil || resp.Model != "gpt-x-2026" {
		t.Errorf("model = %v, %v", resp, err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

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
