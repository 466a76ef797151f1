package openai

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

func rawBody(name, value string) map[string]json.RawMessage {
	return map[string]json.RawMessage{name: json.RawMessage(value)}
}

// The schema contains what a decoder and encoder would change: the order of keys, a
// large number, white space, < and >.
const schema = `{ "type":"object", "properties":{"z":{"type":"integer","maximum":9007199254740993},"a":{"type":"string","description":"<b> & \u00e9"}} }`

func conversation() *agent.Request {
	png := agent.Part{Kind: agent.PartMedia, MIME: "image/png", Data: []byte("PNG")}
	pdf := agent.Part{Kind: agent.PartMedia, MIME: "application/pdf", Data: []byte("PDF"), Name: "a.pdf"}
	return &agent.Request{
		System: "Be <brief> & \"kind\".\n",
		Tools:  []agent.ToolSpec{{Name: "grep", Description: "finds", Schema: json.RawMessage(schema)}},
		Messages: []agent.Message{
			agent.UserText("What's in it? 😀\x00\xff"),
			{Role: agent.RoleAssistant,
				Parts: []agent.Part{
					{Kind: agent.PartReasoning, Text: "I should look.", Extra: json.RawMessage(`{"name":"reasoning","details":[{"type":"reasoning.encrypted","data":"QUJD"}]}`)},
					{Kind: agent.PartText, Extra: json.RawMessage(`{"extra_content":{"google":{"thought_signature":"text"}}}`)},
				},
				Calls: []agent.ToolCall{
					{ID: "call_0123456789", Name: "grep", Args: `{"a": "x", "z": 9007199254740993}`, Extra: json.RawMessage(`{"extra_content":{"google":{"thought_signature":"call"}}}`)},
					{ID: "abcDEF123", Name: "no such.tool", Args: `{"a":`},
					{ID: "call_2", Name: "grep", Args: ""},
				}},
			{Role: agent.RoleTool, Results: []agent.ToolResult{
				{CallID: "call_0123456789", Name: "grep", Parts: []agent.Part{png}},
				{CallID: "abcDEF123", Name: "no such.tool", Failed: true, Parts: []agent.Part{agent.Text("error: there is no tool")}},
				{CallID: "call_2", Name: "grep"},
			}},
			{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "call_3", Name: "grep", Args: `{}`}}},
			{Role: agent.RoleTool, Results: []agent.ToolResult{{CallID: "call_3", Name: "grep", Parts: []agent.Part{agent.Text("one\n"), agent.Text("two")}}}},
			{Role: agent.RoleUser, Parts: []agent.Part{agent.Text("And these?"), png, pdf,
				{Kind: agent.PartMedia, MIME: "audio/mpeg", Data: []byte("MP3")},
				{Kind: agent.PartMedia, MIME: "video/mp4", Data: []byte("MP4"), Name: "a.mp4"},
				{Kind: agent.PartMedia, MIME: "text/csv; charset=utf-8", Data: []byte("a,b"), Name: "t.csv"},
				{Kind: agent.PartMedia, MIME: "not a type", Data: []byte("?")}}},
			{Role: agent.RoleAssistant, Parts: []agent.Part{{Kind: agent.PartReasoning, Text: "hm"}}},
			agent.UserText(""),
		},
	}
}

// The golden files hold what each kind of server receives.
func TestRequestsOfEachFlavorAreGolden(t *testing.T) {
	var body []byte
	server := against(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		io.WriteString(w, deltas(`{"content":"x"}`)+stop)
	})
	half := 0.5
	for _, flavor := range Flavors() {
		t.Run(flavor, func(t *testing.T) {
			p := &Provider{Flavor: Flavor(flavor), Settings: modelhttp.Settings{BaseURL: server.BaseURL, Client: server.Client, Model: "m-1",
				Temperature: &half, MaxOutputTokens: 1000, ReasoningEffort: "high", ExtraBody: rawBody("top_p", "0.9")}}
			// OpenAI is OpenAI at its own host alone.
			if flavor == string(OpenAI) {
				p.BaseURL = "http://api.openai.com/v1"
				p.Client = &http.Client{Transport: modeltest.RoundTripper(func(r *http.Request) (*http.Response, error) {
					r.URL.Host = strings.TrimPrefix(server.BaseURL, "http://")
					return server.Client.Transport.RoundTrip(r)
				})}
			}
			if _, err := p.Generate(t.Context(), conversation(), nil); err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(body, []byte(`"parameters":`+schema)) {
				t.Errorf("the schema was changed:\n%s", body)
			}
			var got bytes.Buffer
			if err := json.Indent(&got, body, "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			golden := filepath.Join("testdata", flavor+".json")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func bodyOf(t testing.TB, p *Provider, f Flavor, req *agent.Request) string {
	t.Helper()
	body, err := p.body(factsOf(f), req)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(body) {
		t.Fatalf("the request is no JSON: %s", body)
	}
	return string(body)
}

func TestEmptySettingsAreNotSent(t *testing.T) {
	got := bodyOf(t, &Provider{Settings: modelhttp.Settings{Model: "m"}}, Mistral, &agent.Request{Messages: []agent.Message{agent.UserText("hi")}})
	if want := `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`; got != want {
		t.Errorf("body = %s\nwant   %s", got, want)
	}
}

func TestExtraBodyReplacesAndRemoves(t *testing.T) {
	half := 0.5
	p := &Provider{Settings: modelhttp.Settings{Model: "m", Temperature: &half, ExtraBody: map[string]json.RawMessage{
		"temperature": json.RawMessage(`1`), "stream_options": json.RawMessage(`null`), "thinking": json.RawMessage(`{"type": "enabled"}`)}}}
	got := bodyOf(t, p, Claude, &agent.Request{})
	if want := `{"model":"m","stream":true,"temperature":1,"thinking":{"type": "enabled"},"messages":[]}`; got != want {
		t.Errorf("body = %s\nwant   %s", got, want)
	}
}

// Over the turns of a run the request only grows, byte for byte, so that servers
// can use what they computed before.
func TestRequestsOnlyGrow(t *testing.T) {
	for _, flavor := range Flavors() {
		full := conversation()
		before := ""
		for n := range full.Messages {
			req := *full
			req.Messages = full.Messages[:n+1]
			body := strings.TrimSuffix(bodyOf(t, &Provider{Settings: modelhttp.Settings{Model: "m"}}, Flavor(flavor), &req), "]}")
			if !strings.HasPrefix(body, before) {
				t.Errorf("%s: with message %d the request changed:\n%s\n%s", flavor, n, before, body)
			}
			before = body
		}
	}
}

// What a model sent with its answer is sent back to it.
func TestReasoningAndSignaturesAreSentBack(t *testing.T) {
	const args = `"function":{"name":"t","arguments":"{}"}`
	tests := []struct {
		flavor Flavor
		answer string
		want   []string
		not    []string
	}{
		{Kimi, deltas(`{"reasoning_content":"h"}`, `{"reasoning_content":"m"}`, `{"tool_calls":[{"index":0,"id":"a",`+args+`}]}`), []string{`"reasoning_content":"hm"`}, nil},
		{Kimi, deltas(`{"tool_calls":[{"index":0,"id":"a",` + args + `}]}`), []string{`"reasoning_content":" "`}, nil},
		{DeepSeek, deltas(`{"tool_calls":[{"index":0,"id":"a",` + args + `}]}`), []string{`"reasoning_content":""`}, nil},
		{VLLM, deltas(`{"reasoning":"hm"}`, `{"tool_calls":[{"index":0,"id":"a",`+args+`}]}`), []string{`"reasoning":"hm"`}, []string{"reasoning_content"}},
		{VLLM, deltas(`{"reasoning":"hm"}`, `{"content":"no calls"}`), nil, []string{"reasoning"}},
		{OpenAI, deltas(`{"reasoning_content":"hm"}`, `{"tool_calls":[{"index":0,"id":"a",`+args+`,"extra_content":{"x":1}}]}`), nil, []string{"reasoning", "extra"}},
		{Mistral, deltas(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`, `{"tool_calls":[{"index":0,"id":"abcdefghi",`+args+`}]}`), []string{`"id":"abcdefghi"`}, []string{"reasoning", "thinking"}},
		{Gemini, deltas(`{"tool_calls":[{"id":"a",` + args + `,"extra_content":{"google":{"thought_signature":"c2ln"}}}]}`), []string{`"extra_content":{"google":{"thought_signature":"c2ln"}}`}, nil},
		{Gemini, deltas(`{"content":"x"}`, `{"content":"","extra_content":{"google":{"thought_signature":"dGV4dA"}}}`), []string{`"content":"x","extra_content":{"google":{"thought_signature":"dGV4dA"}}`}, nil},
		{OpenRouter, deltas(
			`{"reasoning":"I ","reasoning_details":[{"type":"reasoning.text","text":"I ","index":0,"format":"f"}]}`,
			`{"reasoning":"see","reasoning_details":[{"type":"reasoning.text","text":"see","index":0,"signature":null}]}`,
			`{"reasoning_details":[{"type":"reasoning.text","index":0,"signature":"s"},{"type":"reasoning.encrypted","data":"a","index":1},{"type":"reasoning.encrypted","data":"b","index":1}]}`,
			`{"tool_calls":[{"index":0,"id":"a",`+args+`}]}`),
			[]string{`"reasoning_details":[{"format":"f","index":0,"signature":"s","text":"I see","type":"reasoning.text"},{"data":"a","index":1,"type":"reasoning.encrypted"},{"data":"b","index":1,"type":"reasoning.encrypted"}]`}, []string{`"reasoning":`}},
	}
	for _, tt := range tests {
		resp, _, err := ask(t, answering(t, "", tt.answer+stop))
		if err != nil {
			t.Fatal(err)
		}
		// What a journal keeps is what comes back from JSON.
		kept, err := json.Marshal(resp.Message)
		if err != nil {
			t.Fatal(err)
		}
		var m agent.Message
		if err := json.Unmarshal(kept, &m); err != nil {
			t.Fatal(err)
		}
		got := bodyOf(t, &Provider{Settings: modelhttp.Settings{Model: "m"}}, tt.flavor, &agent.Request{Messages: []agent.Message{m}})
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s is not in %s", tt.flavor, want, got)
			}
		}
		for _, not := range tt.not {
			if strings.Contains(got, not) {
				t.Errorf("%s: %s is in %s", tt.flavor, not, got)
			}
		}
	}
}

func TestFlavorNames(t *testing.T) {
	for name, want := range map[string]Flavor{
		"OpenAIv1": OpenAI, "openai-v1": OpenAI, "MistralV1": Mistral, "mistral-v1": Mistral, "KimiV1": Kimi, "kimiv1": Kimi, "kimi-v1": Kimi,
		"ClaudeV1": Claude, "claude-v1": Claude, "claude": Claude, "anthropic": Anthropic, "Anthropic": Anthropic, "openrouter": OpenRouter, "llama.cpp": LlamaCpp, "vLLM": VLLM, "openai-compatible": Compatible,
	} {
		if got, err := ParseFlavor(name); got != want || err != nil {
			t.Errorf("ParseFlavor(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
	for _, name := range Flavors() {
		if got, err := ParseFlavor(name); string(got) != name || err != nil {
			t.Errorf("ParseFlavor(%q) = %q, %v", name, got, err)
		}
	}
	_, err := ParseFlavor("gpt")
	want := `unknown flavor "gpt"; known are anthropic, claude-v1, deepseek-v1, gemini-v1, kimi-v1, llamacpp, lmstudio, mistral-v1, ollama, openai-compatible, openai-v1, openrouter-v1, vllm, xai-v1`
	if err == nil || err.Error() != want {
		t.Errorf("error = %v\nwant    %s", err, want)
	}
}

// Agent files use OpenAIv1 for many servers.
func TestTheHostDecidesTheFlavor(t *testing.T) {
	for base, want := range map[string]Flavor{
		"https://api.openai.com/v1":                               OpenAI,
		"https://x.openai.azure.com/openai/v1":                    OpenAI,
		"https://api.mistral.ai/v1":                               Mistral,
		"https://api.moonshot.cn/v1":                              Kimi,
		"https://openrouter.ai/api/v1":                            OpenRouter,
		"https://generativelanguage.googleapis.com/v1beta/openai": Gemini,
		"https://us-east1-aiplatform.googleapis.com/v1/x":         Gemini,
		"http://localhost:11434/v1":                               Compatible,
		"https://evil-api.openai.com.example.org":                 Compatible,
		"https://notmistral.ai":                                   Compatible,
	} {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		for _, flavor := range []Flavor{OpenAI, Compatible} {
			if got := flavor.At(u); got != want {
				t.Errorf("%s at %s = %s, want %s", flavor, base, got, want)
			}
		}
		if got := Ollama.At(u); got != Ollama {
			t.Errorf("ollama at %s = %s", base, got)
		}
	}
}

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// against returns a Provider whose server is h.
func against(t testing.TB, h http.HandlerFunc) *Provider {
	t.Helper()
	return &Provider{Settings: modeltest.Serve(t, h)}
}

// answering returns a Provider whose server sends body to every request.
func answering(t testing.TB, contentType, body string) *Provider {
	return against(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType)
		io.WriteString(w, body)
	})
}

// ask makes a request and also returns the text that was shown.
func ask(t testing.TB, p agent.Provider) (resp *agent.Response, shown string, err error) {
	t.Helper()
	resp, shown, _, err = modeltest.Ask(t, p, modeltest.Hello)
	return resp, shown, err
}
