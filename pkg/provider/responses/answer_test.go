package responses

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// The items of the stream in testdata, as they must come back.
const (
	firstReasoning  = `{"id":"rs_1","type":"reasoning","encrypted_content":"gAAAAB<&>final==","summary":[{"type":"summary_text","text":"**Two cities**"},{"type":"summary_text","text":"Ask for both."}]}`
	secondReasoning = `{"id":"rs_2","type":"reasoning","encrypted_content":"gAAAACsecond==","summary":[]}`
)

func stream(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile("testdata/parallel-calls.sse")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func extraOf(t testing.TB, raw json.RawMessage) (x extra) {
	t.Helper()
	if err := json.Unmarshal(raw, &x); err != nil {
		t.Fatal(err)
	}
	return x
}

// A stream in the form of OpenAI's: reasoning, a comment, more reasoning, two calls.
func TestAStreamIsRead(t *testing.T) {
	for name, body := range map[string]string{
		"\\n":                        stream(t),
		"\\r\\n":                     strings.ReplaceAll(stream(t), "\n", "\r\n"),
		"no output at the end":       strings.Replace(stream(t), `"output":[{`, `"output":[],"was":[{`, 1),
		"another index at the end":   strings.Replace(stream(t), `"output":[{`, `"output":[{"type":"x"},{`, 1),
		"no response.completed type": strings.Replace(stream(t), "event: ", "event:  ", -1),
	} {
		t.Run(name, func(t *testing.T) {
			resp, text, thought, err := read(body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Finish != agent.FinishStop || resp.Model != "gpt-5-2026-08-07" || text != "I ask for both." || thought != "**Two cities**\n\nAsk for both." {
				t.Errorf("finish %s, model %s, text %q, thought %q", resp.Finish, resp.Model, text, thought)
			}
			if want := (agent.Usage{Requests: 1, InputTokens: 120, CachedTokens: 64, CacheWriteTokens: 8, OutputTokens: 90, ReasoningTokens: 40}); resp.Usage != want {
				t.Errorf("usage = %+v, want %+v", resp.Usage, want)
			}
			parts, calls := resp.Message.Parts, resp.Message.Calls
			if len(parts) != 3 || len(calls) != 2 {
				t.Fatalf("message = %+v", resp.Message)
			}
			got := []extra{extraOf(t, parts[0].Extra), extraOf(t, parts[1].Extra), extraOf(t, parts[2].Extra), extraOf(t, calls[0].Extra), extraOf(t, calls[1].Extra)}
			want := []extra{
				{Host: "h", At: 0, Item: firstReasoning},
				{Host: "h", At: 1, ID: "msg_1", Phase: "commentary"},
				{Host: "h", At: 2, Item: secondReasoning},
				{Host: "h", At: 3, ID: "fc_1"},
				{Host: "h", At: 4, ID: "fc_2"},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("extra (-want +got):\n%s", diff)
			}
			if calls[0].ID != "call_1" || calls[0].Name != "weather" || calls[0].Args != `{"city":"Rome"}` || calls[1].Args != `{"city":"Oslo"}` {
				t.Errorf("calls = %+v", calls)
			}
		})
	}
}

// Servers write the same answer in other forms.
func TestAnswersOfAllFormsAreUnderstood(t *testing.T) {
	const done = `{"type":"response.completed","response":{"status":"completed"}}`
	message := `{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"Hello","annotations":[]}]}`
	call := `{"type":"function_call","id":"f","call_id":"c","name":"grep","arguments":"{\"q\":1}"}`
	tests := []struct {
		name, body, text, thought, args string
		finish                          agent.Finish // "" means stop
	}{
		{name: "not streamed", body: `{"object":"response","status":"completed","error":null,"output":[` + message + `]}`, text: "Hello"},
		{name: "not streamed, on several lines", body: "{\n \"output\": [" + message + "]\n}", text: "Hello"},
		{name: "not streamed, a call", body: `{"object":"response","output":[` + call + `]}`, args: `{"q":1}`},
		{name: "an object as arguments", body: `{"object":"response","output":[` + strings.Replace(call, `"{\"q\":1}"`, `{"q":1}`, 1) + `]}`, args: `{"q":1}`},
		{name: "deltas alone", body: modeltest.Events(`{"type":"response.output_text.delta","delta":"Hel"}`, `{"type":"response.output_text.delta","delta":"lo"}`, done), text: "Hello"},
		{name: "no deltas", body: modeltest.Events(`{"type":"response.output_item.done","output_index":0,"item":`+message+`}`, done), text: "Hello"},
		{name: "the output at the end alone", body: modeltest.Events(`{"type":"response.completed","response":{"output":[` + message + `]}}`), text: "Hello"},
		{name: "interleaved messages", body: modeltest.Events(`{"type":"response.output_text.delta","output_index":0,"delta":"Hel"}`, `{"type":"response.output_text.delta","output_index":1,"delta":"yo"}`, `{"type":"response.output_text.delta","output_index":0,"delta":"lo"}`, `{"type":"response.output_text.delta","output_index":1,"delta":"u"}`, done), text: "Hello\n\nyou"},
		{name: "interleaved messages with ends", body: modeltest.Events(`{"type":"response.output_text.delta","output_index":0,"delta":"Hel"}`, `{"type":"response.output_text.delta","output_index":1,"delta":"you"}`,
			`{"type":"response.output_text.delta","output_index":0,"delta":"lo"}`, `{"type":"response.output_item.done","output_index":0,"item":`+message+`}`, `{"type":"response.output_text.delta","output_index":1,"delta":"!"}`, done), text: "Hello\n\nyou!"},
		{name: "the second of interleaved messages ends first", body: modeltest.Events(`{"type":"response.output_text.delta","output_index":0,"delta":"A"}`, `{"type":"response.output_item.done","output_index":1,"item":`+message+`}`,
			`{"type":"response.output_text.delta","output_index":0,"delta":"B"}`, done), text: "AB\n\nHello"},
		{name: "a call that the server answered", body: `{"output":[{"type":"shell_call","call_id":"c"},{"type":"shell_call_output","call_id":"c"},{"type":"tool_search_call","execution":"server"},` + message + `]}`, text: "Hello"},
		{name: "no output_index", body: modeltest.Events(`{"type":"response.reasoning_text.delta","item_id":"r","delta":"hm"}`, `{"type":"response.output_text.delta","item_id":"m","delta":"Hello"}`, done), text: "Hello", thought: "hm"},
		{name: "reasoning in the open", body: modeltest.Events(`{"type":"response.reasoning.delta","output_index":0,"delta":"hm"}`, `{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"r","content":[{"type":"reasoning_text","text":"hm"}]}}`, `{"type":"response.output_text.delta","output_index":1,"delta":"Hello"}`, done), text: "Hello", thought: "hm"},
		{name: "the rest in the item", body: modeltest.Events(`{"type":"response.output_text.delta","output_index":0,"delta":"Hel"}`, `{"type":"response.output_item.done","output_index":0,"item":`+message+`}`, done), text: "Hello"},
		{name: "half a character", body: modeltest.Events("{\"type\":\"response.output_text.delta\",\"delta\":\"\\ud83d\"}", "{\"type\":\"response.output_text.delta\",\"delta\":\"\\ude00\"}", done), text: "😀"},
		{name: "refusal", body: modeltest.Events(`{"type":"response.refusal.delta","output_index":0,"delta":"No."}`, `{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","content":[{"type":"refusal","refusal":"No."}]}}`, done), text: "No."},
		{name: "two messages", body: modeltest.Events(`{"type":"response.output_text.delta","output_index":0,"delta":"Hel"}`, `{"type":"response.output_text.delta","output_index":0,"delta":"lo"}`, `{"type":"response.output_text.delta","output_index":2,"delta":"you"}`, done), text: "Hello\n\nyou"},
		{name: "two messages, not streamed", body: `{"output":[` + message + `,` + message + `]}`, text: "Hello\n\nHello"},
		{name: "two parts of a message", body: `{"output":[{"type":"message","content":[{"type":"output_text","text":"Hel"},{"type":"output_text","text":"lo"}]}]}`, text: "Hello"},
		{name: "cut by the limit of tokens", body: modeltest.Events(`{"type":"response.output_text.delta","delta":"Hel"}`, `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`), text: "Hel", finish: agent.FinishLength},
		{name: "cut while it reasoned", body: `{"object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`, finish: agent.FinishLength},
		{name: "a call cut by the limit", body: modeltest.Events(`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"grep","arguments":""}}`, `{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"q\""}`, `{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}`), args: `{"q"`, finish: agent.FinishLength},
		{name: "content filter", body: modeltest.Events(`{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}`), finish: agent.FinishContentFilter},
		{name: "events of other tools and of later versions", body: modeltest.Events(`{"type":"response.created","response":{"status":"in_progress","output":[]}}`, `{"type":"response.web_search_call.searching","output_index":0}`, `{"type":"response.audio.delta","delta":"x"}`, `{"type":"keepalive"}`, `{"type":"response.output_text.delta","delta":"Hello"}`, done), text: "Hello"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, text, thought, err := read(tt.body)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.finish
			if want == "" {
				want = agent.FinishStop
			}
			args := ""
			for _, c := range resp.Message.Calls {
				args += c.Args
			}
			if got := resp.Message.Text(); got != tt.text || text != tt.text || thought != tt.thought || args != tt.args || resp.Finish != want {
				t.Errorf("text %q, shown %q, thought %q, args %q, finish %s", got, text, thought, args, resp.Finish)
			}
		})
	}
}

// What came before a second response.created is void: none of its calls runs.
func TestAResponseThatBeginsAgainIsVoid(t *testing.T) {
	const created, completed = `{"type":"response.created","response":{"status":"in_progress"}}`, `{"type":"response.completed","response":{}}`
	text := `{"type":"response.output_text.delta","output_index":0,"delta":"Half"}`
	call := func(at, id string) string {
		return `{"type":"response.output_item.done","output_index":` + at + `,"item":{"type":"function_call","call_id":"` + id + `","name":"pay","arguments":"{}"}}`
	}
	for name, before := range map[string][]string{
		"nothing": {}, "a text": {text}, "a call": {call("0", "c1")}, "a later call": {text, call("1", "c1"), call("2", "c2")},
	} {
		body := modeltest.Events(append(append([]string{created}, before...), created, call("0", "c3"), completed)...)
		resp, shown, _, err := read(body)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if calls := resp.Message.Calls; len(calls) != 1 || calls[0].ID != "c3" || len(resp.Message.Parts) != 0 || shown != "" {
			t.Errorf("%s: shown %q, %+v", name, shown, resp.Message)
		}
	}
}

// Where the complete item differs from its pieces, the item counts.
func TestTheCompleteItemCounts(t *testing.T) {
	resp, _, _, err := read(modeltest.Events(`{"type":"response.output_text.delta","output_index":0,"delta":"Helo"}`,
		`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","content":[{"type":"output_text","text":"Hello"}]}}`,
		`{"type":"response.completed","response":{}}`))
	if err != nil || resp.Message.Text() != "Hello" {
		t.Errorf("%+v, %v", resp, err)
	}
}

func TestFailuresAreErrors(t *testing.T) {
	const failed = `{"type":"response.failed","response":{"status":"failed","error":{"code":"%","message":"no"},"usage":{"input_tokens":7,"output_tokens":2}}}`
	with := func(code string) string { return modeltest.Events(strings.Replace(failed, "%", code, 1)) }
	begun := modeltest.Events(`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"rm","arguments":""}}`, `{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"path\":"}`)
	type failing struct {
		name, body, want string
		temporary        bool
		input            int
	}
	tests := []failing{
		{"a failure of the server", with("server_error"), "no", true, 7},
		{"too many requests", with("rate_limit_exceeded"), "no", true, 7},
		{"a prompt that is refused", with("invalid_prompt"), "no", false, 7},
		{"an image", with("image_too_large"), "no", false, 7},
		{"a policy", with("bio_policy"), "no", false, 7},
		{"quota", with("insufficient_quota"), "no", false, 7},
		{"no reason", modeltest.Events(`{"type":"response.failed","response":{"status":"failed","error":null}}`), "the server sent an error without a text", true, 0},
		{"not streamed", `{"object":"response","status":"failed","error":{"code":"server_error","message":"no"},"output":[]}`, "no", true, 0},
		{"an event", begun + modeltest.Events(`{"type":"error","code":null,"message":"no","param":null,"sequence_number":3}`), "no", true, 0},
		{"an event with an object", modeltest.Events(`{"type":"error","error":{"type":"server_error","code":null,"message":"no"}}`), "no", true, 0},
		{"an object alone", `{"error":{"message":"no","type":"server_error"}}`, "no", true, 0},
		{"vLLM", modeltest.Events(`{"error":{"object":"error","message":"no","type":"BadRequestError","code":400}}`), "HTTP 400", false, 0},
		{"another protocol", `{"object":"chat.completion","choices":[{"message":{"content":"Hello"}}]}`, "HTTP 200: the server's answer has no output: ", true, 0},
		{"[DONE] alone", "data: [DONE]\n\n", "HTTP 200: the server's answer is empty", true, 0},
		{"cut in a call", begun, "the answer broke off before its end", true, 0},
		{"[DONE] after half a text", modeltest.Events(`{"type":"response.output_text.delta","delta":"Hel"}`) + "data: [DONE]\n\n", "the answer broke off before its end", true, 0},
		{"[DONE] after a whole call", begun + modeltest.Events(`{"type":"response.function_call_arguments.delta","output_index":0,"delta":"1}"}`) + "data: [DONE]\n\n", "the answer broke off before its end", true, 0},
		{"a call that is not complete", `{"object":"response","status":"completed","output":[{"type":"function_call","call_id":"c","name":"rm","arguments":"","status":"incomplete"}]}`, "the model's call of rm is incomplete", true, 0},
		{"a call that is not complete beside text", modeltest.Events(`{"type":"response.output_text.delta","output_index":0,"delta":"Hello"}`, `{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"c","name":"rm","arguments":"{}","status":"incomplete"}}`, `{"type":"response.completed","response":{}}`), "the model's call of rm is incomplete", true, 0},
		{"a call that never ends and has no arguments", modeltest.Events(`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"rm","arguments":""}}`, `{"type":"response.completed","response":{}}`), "the model's call of rm has no arguments, and its end is missing", true, 0},
		{"[DONE] in a call", begun + "data: [DONE]\n\n", "the answer broke off before its end", true, 0},
		{"nothing", `{"object":"response","status":"completed","output":[],"usage":{"input_tokens":7}}`, "the model's answer is empty", false, 7},
		{"too many items", `{"object":"response","output":[` + strings.Repeat(`{"type":"message"},`, 1<<14) + `{"type":"message"}]}`, "the answer has more than 16384 tool calls", false, 0},
	}
	for _, kind := range unanswerable {
		item := `{"type":"` + kind + `","id":"x","call_id":"c","name":"rm","input":"x","action":{}}`
		other := `{"type":"` + kind + `_output","call_id":"another"}`
		text := `{"type":"message","content":[{"type":"output_text","text":"Hello"}]}`
		for form, body := range map[string]string{
			"alone":                   `{"object":"response","output":[` + item + `]}`,
			"streamed":                modeltest.Events(`{"type":"response.output_item.done","output_index":0,"item":`+item+`}`, `{"type":"response.completed","response":{"output":[]}}`),
			"beside text":             `{"object":"response","output":[` + text + `,` + item + `]}`,
			"beside another's output": `{"object":"response","output":[` + item + `,` + other + `]}`,
		} {
			tests = append(tests, failing{kind + " " + form, body, "the model made a call of the type " + kind, false, 0})
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, _, _, err := read(tt.body)
			e := modeltest.ModelError(t, err)
			if resp != nil || !strings.Contains(e.Error(), tt.want) || e.Temporary != tt.temporary || e.Usage.InputTokens != tt.input || e.Code == "error" {
				t.Errorf("error = %q (%q), temporary %v, usage %+v", e, e.Code, e.Temporary, e.Usage)
			}
		})
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// against returns a Provider whose server answers with h, which gets the request's body.
func against(t testing.TB, h func(w http.ResponseWriter, body string)) *Provider {
	t.Helper()
	p := &Provider{Settings: modeltest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h(w, string(body))
	})}
	p.Model = "gpt-5"
	return p
}

// read reads a body as the answer of the server "h", and returns what was shown as well.
func read(body string) (resp *agent.Response, text, thought string, err error) {
	a := &answer{host: "h", emit: func(d agent.Delta) {
		switch d.Kind {
		case agent.DeltaText:
			text += d.Text
		case agent.DeltaRetry:
			text, thought = "", ""
		default:
			thought += d.Text
		}
	}}
	resp, err = modelhttp.Read(strings.NewReader(body), a, func() {})
	return resp, text, thought, err
}

// An outcome is the result of reading an answer.
type outcome struct {
	Response *agent.Response
	Error    string
	Text     string
}

func outcomeOf(t *testing.T, r io.Reader) (out outcome) {
	a := &answer{host: "h", emit: func(d agent.Delta) { out.Text += d.Text }}
	resp, err := modelhttp.Read(r, a, func() { a.State() })
	if out.Response = resp; err != nil {
		out.Error = modeltest.ModelError(t, err).Error()
	}
	return out
}

// Reading ends for any input, with an answer or a *ModelError, and the sizes of the reads
// make no difference. What was read can be sent back.
func FuzzStream(f *testing.F) {
	f.Add([]byte(stream(f)))
	for _, seed := range []string{
		modeltest.Events(`{"type":"response.output_text.delta","output_index":3,"delta":"\ud83d"}`, `{"type":"response.output_text.delta","output_index":1,"delta":"x"}`) + "data: [DONE]\n\n",
		modeltest.Events("{\"type\":\"response.function_call_arguments.delta\",\"delta\":\"\xc3{\"}", `{"type":"response.output_item.done","output_index":0,"item":7}`, `{"type":"response.incomplete"}`),
		`{"output":[{"type":"message","content":"Hi"},{"type":"x"},null,{"type":"reasoning","content":[{"text":"a"}]}],"usage":{"input_tokens":"3","cost":1}}`,
		`{"type":"error","error":"x"}`,
		`{"type":"response.failed","response":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		want := outcomeOf(t, bytes.NewReader(data))
		if diff := cmp.Diff(want, outcomeOf(t, iotest.OneByteReader(bytes.NewReader(data)))); diff != "" {
			t.Errorf("byte by byte it is something else (-at once +byte by byte):\n%s", diff)
		}
		if (want.Response == nil) == (want.Error == "") || !utf8.ValidString(want.Text) || !utf8.ValidString(want.Error) {
			t.Errorf("response %+v, error %q, text %q", want.Response, want.Error, want.Text)
		}
		if want.Response != nil {
			bodyOf(t, &Provider{}, "h", &agent.Request{Messages: []agent.Message{want.Response.Message}})
		}
	})
}
