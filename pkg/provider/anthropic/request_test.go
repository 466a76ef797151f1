package anthropic

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

const secret = "sk-ant-very-secret-0123456789"

func bodyOf(t testing.TB, p *Provider, req *agent.Request) string {
	t.Helper()
	body, err := p.body("127.0.0.1", req)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(body) {
		t.Fatalf("the request is no JSON: %s", body)
	}
	return string(body)
}

// The schema contains what a decoder and encoder would change: the order of keys, a
// large number, white space, < and >.
const schema = `{ "type":"object", "properties":{"z":{"type":"integer","maximum":9007199254740993},"a":{"type":"string","description":"<b> & \u00e9"}} }`

func conversation() *agent.Request {
	png := agent.Part{Kind: agent.PartMedia, MIME: "image/png", Data: []byte("PNG")}
	pdf := agent.Part{Kind: agent.PartMedia, MIME: "application/pdf", Data: []byte("PDF"), Name: "a.pdf"}
	answer := thoughtful().Message
	answer.Calls[2].Args = `{"a":` // the model's mistake
	answer.Calls[2].ID = "functions.now:2"
	return &agent.Request{
		System: "Be <brief> & \"kind\".\n",
		Tools:  []agent.ToolSpec{{Name: "grep", Description: "finds", Schema: json.RawMessage(schema)}, {Name: "now", Schema: json.RawMessage(`{"type":"object"}`)}},
		Messages: []agent.Message{
			agent.UserText("What's in it? 😀\x00\xff"),
			answer,
			{Role: agent.RoleTool, Results: []agent.ToolResult{
				{CallID: "toolu_01A", Name: "weather", Parts: []agent.Part{agent.Text("rain"), png, pdf}},
				{CallID: "toolu_01B", Name: "weather", Failed: true, Parts: []agent.Part{agent.Text("error: no such city")}},
				{CallID: "functions.now:2", Name: "now"},
			}},
			{Role: agent.RoleAssistant, Parts: []agent.Part{
				{Kind: agent.PartReasoning, Text: "of another provider", Extra: json.RawMessage(`{"name":"reasoning","details":[{}]}`)},
				{Kind: agent.PartReasoning, Text: "that has [secret] in it", Extra: json.RawMessage(`{"signature":"c2ln"}`)},
				{Kind: agent.PartReasoning, Text: "of another host", Extra: json.RawMessage(`{"signature":"c2ln","host":"other"}`)},
				{Kind: agent.PartReasoning, Text: "that was cut"},
				agent.Text("\n"),
			}},
			{Role: agent.RoleUser, Parts: []agent.Part{agent.Text("And these?"), png, pdf, {Kind: agent.PartMedia, MIME: "image/jpg", Data: []byte("JPG")},
				{Kind: agent.PartMedia, MIME: "image/svg+xml", Data: []byte("<svg/>"), Name: "a.svg"},
				{Kind: agent.PartMedia, MIME: "text/csv; charset=utf-8", Data: []byte("a,b"), Name: "t.csv"},
				{Kind: agent.PartMedia, MIME: "audio/mpeg", Data: []byte("MP3")}}},
		},
	}
}

func TestRequestIsGolden(t *testing.T) {
	half := 0.5
	p := &Provider{Settings: modelhttp.Settings{Model: "claude-sonnet-4-5", Temperature: &half, MaxOutputTokens: 20_000,
		ExtraBody: map[string]json.RawMessage{"top_p": json.RawMessage("0.9")}}}
	body := bodyOf(t, p, conversation())
	if !strings.Contains(body, `"input_schema":`+schema) {
		t.Errorf("the schema was changed:\n%s", body)
	}
	var got bytes.Buffer
	if err := json.Indent(&got, []byte(body), "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	const golden = "testdata/request.json"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(recorded(t, "request.json"), got.String()); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestHeadersAndPath(t *testing.T) {
	const beta = "thinking-binding-controls-2026-08-01"
	for _, test := range []struct{ base, host, path, authorization, model, beta string }{
		{"", "api.anthropic.com", "/v1/messages", "", "claude-opus-5", ""},
		{"", "api.anthropic.com", "/v1/messages", "", "claude-opus-5-5", beta},
		{"https://api.anthropic.com", "api.anthropic.com", "/v1/messages", "", "m", ""},
		{"https://api.anthropic.com/v1/", "api.anthropic.com", "/v1/messages", "", "m", ""},
		{"https://llm.example.org/anthropic", "llm.example.org", "/anthropic/v1/messages", "Bearer " + secret, "m", ""},
		{"https://llm.example.org/odd/messages?a=b", "llm.example.org", "/odd/messages", "Bearer " + secret, "m", ""},
	} {
		var got *http.Request
		p := &Provider{Settings: modelhttp.Settings{BaseURL: test.base, Model: test.model, Key: func() string { return secret },
			Client: &http.Client{Transport: modeltest.RoundTripper(func(r *http.Request) (*http.Response, error) {
				got = r
				return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(stopped("end_turn"))), Request: r}, nil
			})}}}
		if _, _, _, err := modeltest.Ask(t, p, modeltest.Hello); err != nil {
			t.Fatal(err)
		}
		if got.URL.Host != test.host || got.URL.Path != test.path || got.Header.Get("X-Api-Key") != secret || got.Header.Get("Anthropic-Version") != version || got.Header.Get("Authorization") != test.authorization || got.Header.Get("Anthropic-Beta") != test.beta {
			t.Errorf("%q: %s, headers %v", test.base, got.URL, got.Header)
		}
	}
}

// What the model thought goes back byte for byte, also after a stay in a journal.
func TestThoughtsGoBackAsTheyCame(t *testing.T) {
	for _, file := range []string{"thinking-and-parallel-calls.sse", "not-streamed.json"} {
		p, _ := answering(t, recorded(t, file))
		resp, _, _, err := modeltest.Ask(t, p, modeltest.Hello)
		if err != nil {
			t.Fatal(err)
		}
		journal, err := json.Marshal(resp.Message)
		if err != nil {
			t.Fatal(err)
		}
		var kept agent.Message
		if err := json.Unmarshal(journal, &kept); err != nil {
			t.Fatal(err)
		}
		body := bodyOf(t, p, &agent.Request{Messages: []agent.Message{agent.UserText("hello"), kept, agent.UserText("go on")}})
		const want = `{"role":"assistant","content":[{"type":"thinking","thinking":"The user asks for two cities. <both> & \"at once\"","signature":` + signature + `},` +
			`{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/LafPsn4a=="},{"type":"text","text":"I look at both."},{"type":"tool_use","id":"toolu_01A",`
		if !strings.Contains(body, want) {
			t.Errorf("%s: %s\nwant in it: %s", file, body, want)
		}
	}
}

// Models that think between the calls of one answer find each thought in its place, also
// in a turn that was paused.
func TestThoughtsBetweenCallsKeepTheirPlace(t *testing.T) {
	const call = `{"type":"tool_use","id":"%s","name":"t","input":{}}`
	const thought = `{"type":"thinking","thinking":"%s","signature":"c2ln"}`
	said := []any{fmt.Sprintf(thought, "one"), fmt.Sprintf(call, "a"), fmt.Sprintf(call, "b"), fmt.Sprintf(thought, "two"), fmt.Sprintf(call, "c"), `{"type":"text","text":"three"}`, fmt.Sprintf(call, "d")}
	first := `{"type":"message","content":[` + fmt.Sprintf(thought, "none") + `],"stop_reason":"pause_turn"}`
	p, requests := answering(t, first, fmt.Sprintf(`{"type":"message","content":[%s,%s,%s,%s,%s,%s,%s],"stop_reason":"tool_use"}`, said...))
	resp, _, _, err := modeltest.Ask(t, p, modeltest.Hello)
	if err != nil || len(resp.Message.Calls) != 4 || len(*requests) != 2 {
		t.Fatalf("%+v, %v", resp, err)
	}
	body := bodyOf(t, p, &agent.Request{Messages: []agent.Message{agent.UserText("hello"), resp.Message, agent.UserText("go on")}})
	want := fmt.Sprintf(`{"role":"assistant","content":[`+thought+`,%s,%s,%s,%s,%s,%s,%s]}`, append([]any{"none"}, said...)...)
	if !strings.Contains(body, want) {
		t.Errorf("%s\nwant in it: %s", body, want)
	}
}

const marked = `,"cache_control":{"type":"ephemeral"}`

// A run's requests only grow, but for the marks: of the last two ends of a request, the
// older is where the request before had its newer one. So the server finds what it cached
// there, however much a turn added.
func TestRequestsGrowAndMarkWhatIsCached(t *testing.T) {
	p := &Provider{Settings: modelhttp.Settings{Model: "claude-opus-5"}}
	req := &agent.Request{System: "Be brief.", Tools: conversation().Tools, Messages: []agent.Message{agent.UserText("go")}}
	beginning, end := "", -1
	for turn := range 5 {
		body := bodyOf(t, p, req)
		if n := strings.Count(body, marked); n > 4 || turn > 0 && n != 4 {
			t.Errorf("turn %d: %d marks", turn, n)
		}
		bare := strings.ReplaceAll(body, marked, "")
		var marks []int // in bare
		for i, rest := 0, body; ; {
			before, after, found := strings.Cut(rest, marked)
			if !found {
				break
			}
			i += len(before)
			marks, rest = append(marks, i), after
		}
		if !strings.HasPrefix(bare, beginning) || end >= 0 && !slices.Contains(marks, end) {
			t.Errorf("turn %d does not begin as the one before, or has no mark at %d but at %v:\n%s", turn, end, marks, body)
		}
		if head, _, _ := strings.Cut(body, `"messages":`); strings.Count(head, marked) != 2 {
			t.Errorf("turn %d: %s", turn, head)
		}
		beginning, end = strings.TrimSuffix(bare, "]}"), marks[len(marks)-1]
		if end != len(bare)-len("}]}]}") {
			t.Errorf("turn %d: the last mark is at %d of %d", turn, end, len(bare))
		}
		answer := thoughtful().Message
		results := agent.Message{Role: agent.RoleTool}
		for i := range answer.Calls {
			answer.Calls[i].ID = fmt.Sprintf("call_%d_%d", turn, i)
			results.Results = append(results.Results, agent.ToolResult{CallID: answer.Calls[i].ID, Parts: []agent.Part{agent.Text("ok")}})
		}
		req.Messages = append(req.Messages, answer, results)
		if turn == 2 {
			req.Messages = append(req.Messages, agent.UserText("be quick"))
		}
	}
}

func TestWhatIsNotCached(t *testing.T) {
	req := conversation()
	whole := strings.Count(bodyOf(t, &Provider{}, req), marked)
	req.Summary = true
	if n := strings.Count(bodyOf(t, &Provider{}, req), marked); n != whole-1 {
		t.Errorf("a request for a summary has %d marks, another %d", n, whole)
	}
	for _, value := range []string{"null", `{"type":"ephemeral","ttl":"1h"}`} {
		p := &Provider{Settings: modelhttp.Settings{ExtraBody: map[string]json.RawMessage{"cache_control": json.RawMessage(value)}}}
		body := bodyOf(t, p, conversation())
		if strings.Contains(body, marked) || strings.Contains(body, `"cache_control":`) != (value != "null") {
			t.Errorf("with cache_control %s: %s", value, body)
		}
	}
}

func TestEffort(t *testing.T) {
	const bound = `{"type":"adaptive","display":"summarized","block_binding":{"prefix_mismatch_behavior":"drop_block"}}`
	const adaptive = `"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"`
	for _, test := range []struct {
		model, effort string
		tokens        int
		want          string // "" for nothing
	}{
		{"claude-opus-4-8", "", 0, ""},
		{"claude-opus-5", "", 0, `"thinking":{"type":"adaptive","display":"summarized"},"messages"`},
		{"claude-opus-5-5", "", 0, `"thinking":` + bound + `,"messages"`},
		{"claude-fable-5-1", "high", 0, `"thinking":` + bound + `,"output_config":{"effort":"high"}`},
		{"claude-haiku-6", "", 0, `"thinking":` + bound},
		{"claude-opus-5", "high", 0, adaptive + `high"}`},
		{"claude-opus-5", "Max", 0, adaptive + `max"}`},
		{"claude-opus-4-6", "minimal", 0, adaptive + `low"}`},
		{"claude-opus-4-6-20260205", "none", 0, `"thinking":{"type":"disabled"}`},
		{"anthropic/claude-sonnet-4.6", "xhigh", 0, adaptive + `xhigh"}`},
		{"claude-mythos-preview", "low", 0, adaptive + `low"}`},
		{"claude-sonnet-4-5-20250929", "high", 0, `"thinking":{"type":"enabled","budget_tokens":16384}`},
		{"claude-sonnet-4-20250514", "max", 0, `"thinking":{"type":"enabled","budget_tokens":24000}`},
		{"claude-3-7-sonnet-latest", "minimal", 0, `"thinking":{"type":"enabled","budget_tokens":1024}`},
		{"claude-haiku-4-5", "medium", 4000, `"thinking":{"type":"enabled","budget_tokens":3000}`},
		{"claude-haiku-4-5", "medium", 1000, ""},
		{"kimi-k2", "low", 0, `"thinking":{"type":"enabled","budget_tokens":4096}`},
	} {
		p := &Provider{Settings: modelhttp.Settings{Model: test.model, ReasoningEffort: test.effort, MaxOutputTokens: test.tokens}}
		body := bodyOf(t, p, modeltest.Hello)
		if test.want == "" && (strings.Contains(body, "thinking") || strings.Contains(body, "effort")) || !strings.Contains(body, test.want) {
			t.Errorf("%s, %q: %s, want %s", test.model, test.effort, body, test.want)
		}
	}
	_, err := (&Provider{Settings: modelhttp.Settings{Model: "claude-haiku-4-5", ReasoningEffort: "hard"}}).body("", modeltest.Hello)
	if err == nil || !strings.Contains(err.Error(), `the model claude-haiku-4-5 does not support the reasoning effort "hard"; want none, minimal`) {
		t.Errorf("an unknown effort: %v", err)
	}
}

func TestMaxTokens(t *testing.T) {
	for _, test := range []struct {
		model         string
		context, most int
		want          string
	}{
		{"claude-opus-5", 0, 0, "32000"},
		{"claude-opus-5", 1_000_000, 0, "128000"},
		{"claude-haiku-4-5-20251001", 1_000_000, 0, "64000"},
		{"claude-opus-4-20250514", 1_000_000, 0, "32000"},
		{"claude-3-5-haiku-latest", 0, 0, "8192"},
		{"claude-3-haiku-20240307", 0, 0, "4096"},
		{"qwen3", 0, 0, "16000"},
		{"qwen3", 8192, 0, "2048"},
		{"claude-opus-5", 0, 77, "77"},
	} {
		p := &Provider{ContextTokens: test.context, Settings: modelhttp.Settings{Model: test.model, MaxOutputTokens: test.most}}
		if body := bodyOf(t, p, modeltest.Hello); !strings.Contains(body, `"max_tokens":`+test.want+",") {
			t.Errorf("%s with %d and %d: %s, want %s", test.model, test.context, test.most, body, test.want)
		}
	}
}

func TestOutputSchema(t *testing.T) {
	const strict = `{"type":"object","properties":{"minimum":{"type":"string","enum":["a"]},"b":{"type":"array","items":{"type":"null"}}},"required":["minimum","b"],"additionalProperties":false}`
	for _, test := range []struct {
		name, model, schema string
		sent                bool
	}{
		{"a model that knows schemas", "claude-sonnet-4-5", strict, true},
		{"one that does not", "claude-sonnet-4-0", strict, false},
		{"one of another maker", "deepseek-chat", strict, false},
		{"an object that permits more", "claude-opus-5", `{"type":"object","properties":{}}`, false},
		{"no object", "claude-opus-5", `{"type":"string"}`, false},
		{"a limit that the server refuses", "claude-opus-5", `{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"],"additionalProperties":false}`, false},
		{"a reference", "claude-opus-5", `{"type":"object","properties":{"n":{"$ref":"#"}},"required":["n"],"additionalProperties":false}`, false},
	} {
		req := &agent.Request{Messages: modeltest.Hello.Messages, Tools: conversation().Tools, Output: json.RawMessage(test.schema)}
		body := bodyOf(t, &Provider{Settings: modelhttp.Settings{Model: test.model, ReasoningEffort: "low"}}, req)
		if sent := strings.Contains(body, `"format":{"type":"json_schema","schema":`+test.schema+`}}`); sent != test.sent || !sent && strings.Contains(body, "json_schema") {
			t.Errorf("%s: %s", test.name, body)
		}
	}
}

func TestRequestsThatCannotBeSent(t *testing.T) {
	for name, req := range map[string]*agent.Request{
		`the schema of tool t is not valid JSON`: {Tools: []agent.ToolSpec{{Name: "t", Schema: json.RawMessage("{")}}},
		`a message of the unknown role "robot"`:  {Messages: []agent.Message{{Role: "robot"}}},
	} {
		if _, err := (&Provider{}).body("", req); err == nil || err.Error() != name {
			t.Errorf("error %v, want %s", err, name)
		}
	}
	for _, name := range []string{"model", "messages", "system", "tools", "stream"} {
		p := &Provider{Settings: modelhttp.Settings{ExtraBody: map[string]json.RawMessage{name: json.RawMessage("1")}}}
		if _, err := p.body("", modeltest.Hello); err == nil {
			t.Errorf("%s can be replaced", name)
		}
	}
}

// A conversation can begin with the model; the server's cannot.
func TestTheFirstMessageIsTheUsers(t *testing.T) {
	req := &agent.Request{Messages: []agent.Message{{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("Welcome.")}}, agent.UserText("hello")}}
	if body := bodyOf(t, &Provider{}, req); !strings.Contains(body, `"messages":[{"role":"user","content":[{"type":"text","text":"(empty)"}]},{"role":"assistant","content":[{"type":"text","text":"Welcome."}]},{"role":"user"`) {
		t.Error(body)
	}
}

func TestTemperatureOfAModelThatThinks(t *testing.T) {
	for _, c := range []struct {
		model, effort, thinking string
		temperature             float64
		want                    bool
	}{
		{"claude-sonnet-4-5", "", "", 0.2, false},
		{"claude-sonnet-4-5", "low", "", 0.2, true},
		{"claude-sonnet-4-5", "low", "", 1, false},
		{"claude-sonnet-4-5", "none", "", 0.2, false},
		{"claude-sonnet-4-5", "", `{"type":"enabled","budget_tokens":2000}`, 0.2, true},
		{"claude-sonnet-4-5", "low", `{"type":"disabled"}`, 0.2, false},
		{"claude-opus-4-7", "none", "", 0.2, true},
		{"another", "low", "", 0.2, false},
	} {
		p := &Provider{Settings: modelhttp.Settings{Model: c.model, ReasoningEffort: c.effort, Temperature: &c.temperature}}
		if c.thinking != "" {
			p.ExtraBody = map[string]json.RawMessage{"thinking": json.RawMessage(c.thinking)}
		}
		if got := p.RefusesTemperature(); got != c.want {
			t.Errorf("RefusesTemperature of %+v = %v", c, got)
		}
	}
}

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// against returns a Provider whose server is h.
func against(t testing.TB, h http.HandlerFunc) *Provider {
	t.Helper()
	p := &Provider{Settings: modeltest.Serve(t, h)}
	p.Model = "claude-opus-5"
	return p
}

// answering returns a Provider whose server sends one body after the other, and the
// bodies of the requests.
func answering(t testing.TB, bodies ...string) (*Provider, *[]string) {
	settings, requests := modeltest.Answer(t, bodies...)
	settings.Model = "claude-opus-5"
	return &Provider{Settings: settings}, requests
}

// recorded is a file of testdata.
func recorded(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
