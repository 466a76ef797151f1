package anthropic

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

const signature = `"EsQDCkYICBgCKkB7x+FTcKs+la0OlmRVB4Qz/bTERKj+h7xpp9uxwdet=="`

func extra(s string) []byte { return []byte(s) }

// thoughtful is the answer of thinking-and-parallel-calls.sse, and of not-streamed.json.
func thoughtful() *agent.Response {
	return &agent.Response{
		Message: agent.Message{Role: agent.RoleAssistant,
			Parts: []agent.Part{
				{Kind: agent.PartReasoning, Text: `The user asks for two cities. <both> & "at once"`, Extra: extra(`{"signature":` + signature + `,"host":"127.0.0.1"}`)},
				{Kind: agent.PartReasoning, Extra: extra(`{"block":{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/LafPsn4a=="},"host":"127.0.0.1"}`)},
				agent.Text("I look at both."),
			},
			Calls: []agent.ToolCall{
				{ID: "toolu_01A", Name: "weather", Args: `{"city": "Paris"}`},
				{ID: "toolu_01B", Name: "weather", Args: `{"city": "Rome"}`},
				{ID: "toolu_01C", Name: "now", Args: `{}`},
			}},
		Finish: agent.FinishStop, Model: "claude-opus-5-20260724",
		Usage: agent.Usage{Requests: 1, InputTokens: 2305, CachedTokens: 2000, CacheWriteTokens: 300, CacheHourTokens: 100, OutputTokens: 119, ReasoningTokens: 67},
	}
}

func TestAnswers(t *testing.T) {
	usage := func(in, out int) agent.Usage { return agent.Usage{Requests: 1, InputTokens: in, OutputTokens: out} }
	said := func(parts ...agent.Part) agent.Message { return agent.Message{Role: agent.RoleAssistant, Parts: parts} }
	cut := said(agent.Text("I write the file."))
	cut.Calls = []agent.ToolCall{{ID: "toolu_01A", Name: "make_file", Args: "{\"name\": \"taxes.txt\", \"lines\": [\n\"A"}}
	for _, test := range []struct {
		file string
		want *agent.Response
	}{
		{"text.sse", &agent.Response{Message: said(agent.Text("Grüß dich 😀")), Finish: agent.FinishStop, Model: "claude-opus-4-8", Usage: usage(11, 6)}},
		{"thinking-and-parallel-calls.sse", thoughtful()},
		{"not-streamed.json", thoughtful()},
		{"cut-call.sse", &agent.Response{Message: cut, Finish: agent.FinishLength, Model: "claude-sonnet-4-5", Usage: usage(11, 124)}},
		{"cut-thought.sse", &agent.Response{Message: said(agent.Part{Kind: agent.PartReasoning, Text: "First I"}), Finish: agent.FinishLength, Model: "claude-sonnet-4-5", Usage: usage(11, 124)}},
		{"refusal.sse", &agent.Response{Message: said(agent.Text("The request was declined because of the usage policy.")), Finish: agent.FinishContentFilter, Model: "claude-opus-4-8", Usage: usage(11, 1)}},
	} {
		p, _ := answering(t, recorded(t, test.file))
		resp, text, thought, err := modeltest.Ask(t, p, modeltest.Hello)
		if err != nil {
			t.Fatalf("%s: %v", test.file, err)
		}
		if diff := cmp.Diff(test.want, resp); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.file, diff)
		}
		wantThought := ""
		for _, part := range resp.Message.Parts {
			if part.Kind == agent.PartReasoning {
				wantThought += part.Text
			}
		}
		if resp.Finish != agent.FinishContentFilter && (text != resp.Message.Text() || thought != wantThought) {
			t.Errorf("%s: shown were %q and the thought %q", test.file, text, thought)
		}
	}
}

// What came before a second message_start is void: none of its calls runs.
func TestAMessageThatBeginsAgainIsVoid(t *testing.T) {
	start := func(input string) string {
		return `{"type":"message_start","message":{"id":"m","model":"claude","content":[],"usage":{"input_tokens":` + input + `,"output_tokens":1}}}`
	}
	call := `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_ID","name":"pay","input":{}}}`
	args := `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"usd\":5}"}}`
	text := `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Half"}}`
	stop := `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":7}}`
	for name, before := range map[string][]string{
		"nothing": {}, "a text": {text}, "a call": {call, args}, "half a call": {call}, "a text and a call": {text, call, args}, "a whole message": {call, args, stop}, "an end": {stop},
	} {
		events := append([]string{start("10")}, before...)
		events = append(events, start("20"), strings.ReplaceAll(call, "ID", "2"))
		p, _ := answering(t, modeltest.Events(events...))
		if _, _, _, err := modeltest.Ask(t, p, modeltest.Hello); !modeltest.ModelError(t, err).Temporary {
			t.Errorf("%s: the second message breaks off: %v", name, err)
		}
		events = append(events, args, stop, `{"type":"message_stop"}`)
		p, _ = answering(t, strings.ReplaceAll(modeltest.Events(events...), "ID", "1"))
		resp, shown, _, err := modeltest.Ask(t, p, modeltest.Hello)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := []agent.ToolCall{{ID: "toolu_2", Name: "pay", Args: `{"usd":5}`}}
		if diff := cmp.Diff(want, resp.Message.Calls); diff != "" || len(resp.Message.Parts) != 0 || shown != "" {
			t.Errorf("%s: parts %v, shown %q, calls (-want +got):\n%s", name, resp.Message.Parts, shown, diff)
		}
		input := 30 // what the first message consumed is paid for
		if name == "nothing" || name == "an end" {
			input = 20
		}
		if u := resp.Usage; u.InputTokens != input || u.Requests != 1 {
			t.Errorf("%s: usage %+v", name, u)
		}
	}
}

// A call of code at the server is no answer, and never runs.
func TestContentOfMessageStart(t *testing.T) {
	const call = `{"type":"tool_use","id":"toolu_1","name":"pay","input":{"usd":5},"caller":{"type":"code_execution_20250825","tool_id":"srvtoolu_1"}}`
	start := func(content string) string { return `{"type":"message_start","message":{"content":[` + content + `]}}` }
	text := `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hi"}}`
	repeated := `{"type":"content_block_start","index":0,"content_block":` + call + `}`
	end := []string{`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`}
	for _, tt := range []struct {
		name   string
		events []string
		text   string // "" is a failure
		calls  int
	}{
		{"a call", []string{start(call)}, "", 0},
		{"a call after a text", []string{start(`{"type":"text","text":"I pay."},` + call)}, "", 0},
		{"a call, and then a text", []string{start(call), text}, "", 0},
		{"a call that is repeated", []string{start(call), repeated, strings.Replace(text, `"index":0`, `"index":1`, 1)}, "Hi", 1},
		{"a text", []string{start(`{"type":"text","text":"Hi"}`)}, "Hi", 0},
		{"a text that is repeated", []string{start(`{"type":"text","text":"Hi"}`), text}, "Hi", 0},
	} {
		p, _ := answering(t, modeltest.Events(append(tt.events, end...)...))
		resp, shown, _, err := modeltest.Ask(t, p, modeltest.Hello)
		if tt.text == "" {
			if e := modeltest.ModelError(t, err); e.Temporary || !strings.Contains(e.Message, "the tool pay") {
				t.Errorf("%s: %v", tt.name, e)
			}
			continue
		}
		if err != nil || resp.Message.Text() != tt.text || shown != tt.text || len(resp.Message.Calls) != tt.calls {
			t.Errorf("%s: %+v, shown %q, %v", tt.name, resp, shown, err)
		}
	}
}

// The summary that the server made of a conversation goes back as it came, and its tokens
// count.
func TestCompaction(t *testing.T) {
	usage := `"usage":{"input_tokens":23000,"output_tokens":1000,"iterations":[{"type":"compaction","input_tokens":180000,"output_tokens":3500,"cache_read_input_tokens":7},{"type":"message","input_tokens":23000,"output_tokens":1000}]}`
	block := func(body string) string { return `{"type":"compaction",` + body + `}` }
	for _, tt := range []struct{ name, body, want string }{
		{"in pieces", modeltest.Events(`{"type":"message_start","message":{"usage":{"input_tokens":23000,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"compaction","content":null}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"compaction_delta","content":"Summary: \"so"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"compaction_delta","content":" far\"","encrypted_content":"QUJD"}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"Hi"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},`+usage+`}`, `{"type":"message_stop"}`),
			`"content":"Summary: \"so far\"","encrypted_content":"QUJD","type":"compaction"`},
		{"whole", `{"type":"message","stop_reason":"end_turn",` + usage + `,"content":[` + block(`"content":"Summary"`) + `,{"type":"text","text":"Hi"}]}`, `"content":"Summary","type":"compaction"`},
		{"that failed", `{"type":"message","stop_reason":"end_turn",` + usage + `,"content":[` + block(`"content":null`) + `,{"type":"text","text":"Hi"}]}`, `"type":"compaction","content":null`},
	} {
		p, _ := answering(t, tt.body)
		resp, shown, _, err := modeltest.Ask(t, p, modeltest.Hello)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		want := agent.Usage{Requests: 1, InputTokens: 203007, CachedTokens: 7, OutputTokens: 4500}
		if diff := cmp.Diff(want, resp.Usage); diff != "" || shown != "Hi" {
			t.Errorf("%s: shown %q, usage (-want +got):\n%s", tt.name, shown, diff)
		}
		body := bodyOf(t, &Provider{}, &agent.Request{Messages: []agent.Message{agent.UserText("x"), resp.Message, agent.UserText("y")}})
		if !strings.Contains(body, "{"+tt.want+"}") {
			t.Errorf("%s: the next request does not contain %s: %s", tt.name, tt.want, body)
		}
	}
}

// A turn that pauses after a compaction is continued.
func TestAPauseAfterACompaction(t *testing.T) {
	p, requests := answering(t, `{"type":"message","stop_reason":"compaction","content":[{"type":"compaction","content":"S"}]}`, `{"type":"message","stop_reason":"end_turn","content":[{"type":"text","text":"Hi"}]}`)
	resp, _, _, err := modeltest.Ask(t, p, modeltest.Hello)
	if err != nil || resp.Message.Text() != "Hi" || len(*requests) != 2 || !strings.Contains((*requests)[1], `"content":"S"`) {
		t.Errorf("%+v, %v, requests %v", resp, err, *requests)
	}
}

func stopped(reason string) string {
	return `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hi"}}` + "\n\n" +
		`data: {"type":"message_delta","delta":{"stop_reason":"` + reason + `"}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n"
}

func TestStopReasons(t *testing.T) {
	for reason, want := range map[string]agent.Finish{
		"end_turn": agent.FinishStop, "tool_use": agent.FinishStop, "stop_sequence": agent.FinishStop, "one_of_tomorrow": agent.FinishStop,
		"max_tokens": agent.FinishLength, "model_context_window_exceeded": agent.FinishLength, "refusal": agent.FinishContentFilter,
	} {
		p, _ := answering(t, stopped(reason))
		resp, _, _, err := modeltest.Ask(t, p, modeltest.Hello)
		if err != nil || resp.Finish != want || resp.Message.Text() != "Hi" {
			t.Errorf("%s: %+v, %v, want %s", reason, resp, err, want)
		}
	}
}

// What a tool of the server did goes back as it came, and the rest of the turn becomes
// part of the same answer.
func TestAPausedTurnIsContinued(t *testing.T) {
	p, requests := answering(t, recorded(t, "paused-1.sse"), recorded(t, "paused-2.sse"))
	resp, text, thought, err := modeltest.Ask(t, p, modeltest.Hello)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Finish != agent.FinishStop || resp.Message.Text() != "It rains." || text != "It rains." || thought != "I search." || len(resp.Message.Parts) != 4 {
		t.Errorf("answer %+v, shown %q, thought %q", resp, text, thought)
	}
	if want := (agent.Usage{Requests: 2, InputTokens: 71, OutputTokens: 45}); resp.Usage != want {
		t.Errorf("usage %+v, want %+v", resp.Usage, want)
	}
	const paused = `{"role":"assistant","content":[{"type":"thinking","thinking":"I search.","signature":` + signature + `},` +
		`{"id":"srvtoolu_01A","input":{"query":"weather"},"name":"web_search","type":"server_tool_use"},` +
		`{"type":"web_search_tool_result","tool_use_id":"srvtoolu_01A","content":[{"type":"web_search_result","title":"Weather","url":"https://example.com","encrypted_content":"QUJD"}]}]}]}`
	if len(*requests) != 2 || !strings.HasSuffix((*requests)[1], paused) {
		t.Errorf("the second request of %d: %s", len(*requests), (*requests)[len(*requests)-1])
	}
	// The answer of both requests together goes back in the next turn.
	body, err := p.body("127.0.0.1", &agent.Request{Messages: []agent.Message{agent.UserText("hello"), resp.Message, agent.UserText("And tomorrow?")}})
	if err != nil || !strings.Contains(string(body), strings.TrimSuffix(paused, "]}]}")+`,{"type":"text","text":"It rains."}]}`) {
		t.Errorf("the next request: %s, %v", body, err)
	}
}

func TestATurnIsNotPausedForEver(t *testing.T) {
	p, requests := answering(t, recorded(t, "paused-1.sse"))
	_, _, _, err := modeltest.Ask(t, p, modeltest.Hello)
	if e := modeltest.ModelError(t, err); e.Temporary || len(*requests) != maxPauses || e.Usage.Requests != maxPauses {
		t.Errorf("%v after %d requests, usage %+v", e, len(*requests), e.Usage)
	}
}

// The error of a later request of a turn has the usage of those before it.
func TestUsageOfAPausedTurnThatFails(t *testing.T) {
	p, _ := answering(t, recorded(t, "paused-1.sse"), recorded(t, "overloaded.sse"))
	_, _, _, err := modeltest.Ask(t, p, modeltest.Hello)
	if e := modeltest.ModelError(t, err); !e.Temporary || e.Usage.OutputTokens != 41 || e.Usage.Requests != 2 {
		t.Errorf("%v, usage %+v", e, e.Usage)
	}
}

func TestErrors(t *testing.T) {
	sent := func(kind, message string) string {
		return `{"type":"error","error":{"type":"` + kind + `","message":"` + message + `"},"request_id":"req_1"}`
	}
	for _, test := range []struct {
		name, header, body string
		status             int
		want               string
		temporary, tooLong bool
		wait               time.Duration
	}{
		{name: "overloaded", status: 529, header: "3", body: sent("overloaded_error", "Overloaded"), want: "HTTP 529 (overloaded_error): Overloaded", temporary: true, wait: 3 * time.Second},
		{name: "rate limit", status: 429, header: "20", body: sent("rate_limit_error", "slow down"), want: "HTTP 429 (rate_limit_error): slow down", temporary: true, wait: 20 * time.Second},
		{name: "broken server", status: 500, body: sent("api_error", "Internal server error"), want: "HTTP 500 (api_error): Internal server error", temporary: true},
		{name: "bad key", status: 401, body: sent("authentication_error", "invalid x-api-key"), want: "HTTP 401 (authentication_error): invalid x-api-key"},
		{name: "no money", status: 400, body: sent("invalid_request_error", "Your credit balance is too low"), want: "HTTP 400 (invalid_request_error): Your credit balance is too low"},
		{name: "long prompt", status: 400, body: sent("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), want: "HTTP 400 (invalid_request_error): prompt is too long: 210000 tokens > 200000 maximum", tooLong: true},
		{name: "prompt and answer too long", status: 400, body: sent("invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"), want: "HTTP 400 (invalid_request_error): input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000", tooLong: true},
		{name: "too many bytes", status: 413, body: sent("request_too_large", "Request exceeds the maximum size"), want: "HTTP 413 (request_too_large): Request exceeds the maximum size", tooLong: true},
		{name: "overloaded in a stream", status: 200, body: recorded(t, "overloaded.sse"), want: "HTTP 529 (overloaded_error): Overloaded", temporary: true},
		{name: "refused in a stream", status: 200, body: "event: error\ndata: " + sent("invalid_request_error", "no such model") + "\n\n", want: "HTTP 400 (invalid_request_error): no such model"},
		{name: "an unknown error in a stream", status: 200, body: "data: " + sent("new_error", "odd") + "\n\n", want: "odd", temporary: true},
		{name: "broken off", status: 200, body: strings.SplitAfter(recorded(t, "text.sse"), "ping")[0], want: "the answer broke off before its end", temporary: true},
		{name: "chat completions", status: 200, body: `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`, want: `HTTP 200: the server's answer is not a message: {"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`, temporary: true},
	} {
		p := against(t, func(w http.ResponseWriter, r *http.Request) {
			if test.header != "" {
				w.Header().Set("Retry-After", test.header)
			}
			w.WriteHeader(test.status)
			io.WriteString(w, test.body)
		})
		_, _, _, err := modeltest.Ask(t, p, modeltest.Hello)
		if e := modeltest.ModelError(t, err); e.Error() != test.want || e.Temporary != test.temporary || e.TooLong != test.tooLong || e.RetryAfter != test.wait {
			t.Errorf("%s: %q, temporary %v, too long %v, wait %v; want %q", test.name, e, e.Temporary, e.TooLong, e.RetryAfter, test.want)
		}
	}
}

// An answer that breaks off has cost what the server counted so far.
func TestUsageOfAnAnswerThatBreaksOff(t *testing.T) {
	p, _ := answering(t, strings.SplitAfter(recorded(t, "text.sse"), "ping")[0])
	_, _, _, err := modeltest.Ask(t, p, modeltest.Hello)
	if e := modeltest.ModelError(t, err); e.Usage != (agent.Usage{Requests: 1, InputTokens: 11, OutputTokens: 1}) {
		t.Errorf("usage %+v", e.Usage)
	}
}

// An answer counts from its stop_reason on, also without message_stop.
func TestAnAnswerIsCompleteWithItsStopReason(t *testing.T) {
	p, _ := answering(t, strings.SplitAfter(recorded(t, "text.sse"), "event: message_stop")[0])
	resp, _, _, err := modeltest.Ask(t, p, modeltest.Hello)
	if err != nil || resp.Message.Text() != "Grüß dich 😀" {
		t.Errorf("%+v, %v", resp, err)
	}
}

func TestTooManyCalls(t *testing.T) {
	p, _ := answering(t, `{"type":"message","stop_reason":"tool_use","content":[`+strings.Repeat(`{"type":"tool_use","id":"a","name":"t","input":{}},`, modelhttp.MaxCalls)+`{"type":"tool_use"}]}`)
	_, _, _, err := modeltest.Ask(t, p, modeltest.Hello)
	if e := modeltest.ModelError(t, err); e.Temporary || !strings.Contains(e.Message, "tool calls") {
		t.Error(e)
	}
}

type outcome struct {
	Response               *agent.Response
	Error, Shown, Thoughts string
}

func readAll(r io.Reader) (out outcome) {
	a := &answer{emit: func(d agent.Delta) {
		switch d.Kind {
		case agent.DeltaText:
			out.Shown += d.Text
		case agent.DeltaReasoning:
			out.Thoughts += d.Text
		case agent.DeltaRetry:
			out.Shown, out.Thoughts = "", ""
		}
	}}
	resp, err := modelhttp.Read(r, a, func() {})
	out.Response = resp
	if err != nil {
		out.Error = err.Error()
		if e := (*agent.ModelError)(nil); !errors.As(err, &e) {
			out.Error = "not a ModelError: " + out.Error
		}
	}
	return out
}

// Reading ends for any input, with an answer or a *ModelError, and the sizes of the reads
// make no difference. What is read can be sent back.
func FuzzStream(f *testing.F) {
	for _, name := range []string{"text.sse", "thinking-and-parallel-calls.sse", "not-streamed.json", "cut-call.sse", "refusal.sse", "paused-1.sse", "overloaded.sse"} {
		f.Add([]byte(recorded(f, name)))
	}
	for _, seed := range []string{
		stopped("refusal"),
		`{"type":"message","content":["text",7,null,{"type":"thinking"},{"type":"tool_use","id":7,"input":"x"},{"type":"x","y":{}}],"stop_reason":"end_turn","usage":7}`,
		"data: {\"type\":\"content_block_delta\",\"index\":5,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n",
		"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\\ud83d\"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"text\":\"\\ude00\xc3\"}}\n\n" + stopped("end_turn"),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		want := readAll(bytes.NewReader(data))
		if diff := cmp.Diff(want, readAll(iotest.OneByteReader(bytes.NewReader(data)))); diff != "" {
			t.Errorf("byte by byte it is something else:\n%s", diff)
		}
		if (want.Response == nil) == (want.Error == "") || strings.HasPrefix(want.Error, "not a ModelError") {
			t.Errorf("response %+v, error %q", want.Response, want.Error)
		}
		if !utf8.ValidString(want.Shown) || !utf8.ValidString(want.Thoughts) {
			t.Errorf("not valid UTF-8: %+v", want)
		}
		if r := want.Response; r != nil {
			if r.Finish != agent.FinishContentFilter && len(r.Message.Text()) != len(want.Shown) {
				t.Errorf("text = %q, shown was %q", r.Message.Text(), want.Shown)
			}
			bodyOf(t, &Provider{}, &agent.Request{Messages: []agent.Message{agent.UserText("x"), r.Message, agent.UserText("y")}})
		}
	})
}
