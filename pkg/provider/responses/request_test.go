package responses

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

var update = flag.Bool("update", false, "write the golden files")

const weather = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`

// conversation has everything that a request can contain; answer is the model's.
func conversation(answer agent.Message) *agent.Request {
	png := agent.Part{Kind: agent.PartMedia, MIME: "image/png", Data: []byte{1, 2, 3}, Name: "a.png"}
	return &agent.Request{
		System: "Be <brief> & \"kind\".",
		Tools:  []agent.ToolSpec{{Name: "weather", Description: "tells the weather", Schema: json.RawMessage(weather)}},
		Output: json.RawMessage(`{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}`),
		Messages: []agent.Message{
			{Role: agent.RoleUser, Parts: []agent.Part{agent.Text("Look."), png,
				{Kind: agent.PartMedia, MIME: "application/pdf", Data: []byte("%PDF"), Name: "b.pdf"},
				{Kind: agent.PartMedia, MIME: "text/csv", Data: []byte("a,b"), Name: "c.csv"},
				{Kind: agent.PartMedia, MIME: "audio/wav", Data: []byte("RIFF"), Name: "d.wav"}}},
			answer,
			{Role: agent.RoleTool, Results: []agent.ToolResult{
				{CallID: "call_1", Name: "weather", Parts: []agent.Part{agent.Text("a picture:"), png}},
				{CallID: "call_2", Name: "weather"}}},
			{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("It rains.")}},
			{Role: agent.RoleUser},
			{Role: agent.RoleAssistant},
			agent.UserText("And tomorrow?"),
		},
	}
}

// recorded is the answer of the stream in testdata, from the server "h".
func recorded(t testing.TB) agent.Message {
	t.Helper()
	resp, _, _, err := read(stream(t))
	if err != nil {
		t.Fatal(err)
	}
	return resp.Message
}

func bodyOf(t testing.TB, p *Provider, host string, req *agent.Request) string {
	t.Helper()
	body, err := p.body(host, req, form{stream: true, encrypted: true})
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(body) {
		t.Fatalf("not JSON: %s", body)
	}
	return string(body)
}

func TestARequestIsGolden(t *testing.T) {
	half := 0.5
	p := &Provider{Settings: modelhttp.Settings{Model: "gpt-5", Temperature: &half, MaxOutputTokens: 1000, ReasoningEffort: "high",
		ExtraBody: map[string]json.RawMessage{"top_p": json.RawMessage(`0.9`), "temperature": json.RawMessage(`null`)}}}
	var got bytes.Buffer
	if err := json.Indent(&got, []byte(bodyOf(t, p, "h", conversation(recorded(t)))), "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	path := filepath.Join("testdata", "request.json")
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("request (-want +got), -update writes it:\n%s", diff)
	}
}

// Reasoning goes back byte for byte and in its place, also after it was stored as JSON.
func TestReasoningGoesBackAsItCame(t *testing.T) {
	message := recorded(t)
	stored, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	var again agent.Message
	if err := json.Unmarshal(stored, &again); err != nil {
		t.Fatal(err)
	}
	want := firstReasoning + `,{"type":"message","id":"msg_1","role":"assistant","status":"completed","phase":"commentary","content":[{"type":"output_text","text":"I ask for both.","annotations":[]}]},` +
		secondReasoning + `,{"type":"function_call","id":"fc_1","call_id":"call_1",`
	for name, m := range map[string]agent.Message{"live": message, "stored": again} {
		if got := bodyOf(t, &Provider{}, "h", conversation(m)); !strings.Contains(got, want) {
			t.Errorf("%s: the request does not contain\n%s\n%s", name, want, got)
		}
	}
}

// The items keep the order of the answer: a call may come before more reasoning.
func TestItemsKeepTheirOrder(t *testing.T) {
	resp, _, _, err := read(`{"object":"response","output":[
		{"type":"function_call","id":"fc_1","call_id":"a","name":"t","arguments":"{}"},
		{"type":"reasoning","id":"rs","encrypted_content":"x","summary":[]},
		{"type":"compaction","id":"cmp","encrypted_content":"y"},
		{"type":"function_call","id":"fc_2","call_id":"b","name":"t","arguments":"{}"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	got := bodyOf(t, &Provider{}, "h", &agent.Request{Messages: []agent.Message{resp.Message}})
	place := -1
	for _, id := range []string{`"fc_1"`, `"rs"`, `"cmp"`, `"fc_2"`} {
		next := strings.Index(got, id)
		if next <= place {
			t.Errorf("%s is not in its place: %s", id, got)
		}
		place = next
	}
}

// The texts of two messages are shown with an empty line between them, which is not sent.
func TestTwoMessagesGoBackAsTheyCame(t *testing.T) {
	resp, _, _, err := read(`{"object":"response","output":[{"type":"message","id":"m1","content":[{"type":"output_text","text":"Hel"}]},{"type":"message","id":"m2","content":[{"type":"output_text","text":"\n\nlo"}]}]}`)
	if err != nil || resp.Message.Text() != "Hel\n\n\n\nlo" {
		t.Fatalf("%+v, %v", resp, err)
	}
	for host, want := range map[string]string{"h": `"id":"m2","role":"assistant","status":"completed","content":[{"type":"output_text","text":"\n\nlo",`, "other": `{"role":"assistant","content":"\n\nlo"}`} {
		if got := bodyOf(t, &Provider{}, host, &agent.Request{Messages: []agent.Message{resp.Message}}); !strings.Contains(got, want) {
			t.Errorf("%s: %s", host, got)
		}
	}
}

// A server that cannot read the reasoning gets neither it nor the ids that refer to it.
func TestReasoningOfAnotherServerIsNotSent(t *testing.T) {
	notEncrypted, _, _, err := read(`{"object":"response","output":[
		{"type":"reasoning","id":"rs_x","encrypted_content":null,"content":[],"summary":[{"type":"summary_text","text":"hm"}]},
		{"type":"message","id":"msg_x","phase":"final_answer","content":[{"type":"output_text","text":"Hello"}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	chat := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{
		{Kind: agent.PartReasoning, Text: "hm", Extra: json.RawMessage(`{"name":"reasoning"}`)},
		{Kind: agent.PartText, Text: "Hello", Extra: json.RawMessage(`{"extra_content":{}}`)}}}
	edited := recorded(t)
	edited.Parts[1] = agent.Text("I ask for both.") // without Extra
	for name, tt := range map[string]struct {
		host string
		m    agent.Message
		want string
	}{
		"another server":   {"other", recorded(t), `{"role":"assistant","content":"I ask for both."},{"type":"function_call","call_id":"call_1",`},
		"not encrypted":    {"h", notEncrypted.Message, `{"role":"assistant","phase":"final_answer","content":"Hello"}`},
		"another protocol": {"h", chat, `{"role":"assistant","content":"Hello"}`},
		"edited":           {"h", edited, `{"role":"assistant","content":"I ask for both."},{"type":"function_call","call_id":"call_1",`},
	} {
		got := bodyOf(t, &Provider{}, tt.host, &agent.Request{Messages: []agent.Message{tt.m}})
		if !strings.Contains(got, tt.want) || strings.Contains(got, `"reasoning","`) || strings.Contains(got, `_1","role"`) {
			t.Errorf("%s: %s\nwant %s", name, got, tt.want)
		}
	}
	open, _, _, err := read(`{"object":"response","output":[{"type":"reasoning","id":"r","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},{"type":"message","content":[{"type":"output_text","text":"Hello"}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := bodyOf(t, &Provider{}, "h", &agent.Request{Messages: []agent.Message{open.Message}}); !strings.Contains(got, `[{"type":"reasoning","id":"r","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]}`) {
		t.Errorf("reasoning in the open is not sent: %s", got)
	}
}

// The request of a conversation that grows begins as the one before.
func TestRequestsOnlyGrow(t *testing.T) {
	all := conversation(recorded(t))
	before := ""
	for n := range len(all.Messages) + 1 {
		req := *all
		req.Messages = all.Messages[:n]
		body := strings.TrimSuffix(bodyOf(t, &Provider{Settings: modelhttp.Settings{Model: "m"}}, "h", &req), "]}")
		if !strings.HasPrefix(body, before) {
			t.Errorf("with message %d the request changed:\n%s\n%s", n, before, body)
		}
		before = body
	}
}

func TestTheSchemaOfTheAnswerIsSentWhereItWorks(t *testing.T) {
	const format = `"text":{"format":{"type":"json_schema","name":"answer","strict":true,"schema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}}}`
	req := conversation(recorded(t))
	alone := *req
	alone.Tools = nil
	for _, tt := range []struct {
		name string
		p    Provider
		req  *agent.Request
		want bool
	}{
		{"with tools", Provider{}, req, true},
		{"with tools, at a local server", Provider{OutputAlone: true}, req, false},
		{"alone, at a local server", Provider{OutputAlone: true}, &alone, true},
		{"replaced", Provider{Settings: modelhttp.Settings{ExtraBody: map[string]json.RawMessage{"text": json.RawMessage(`{"verbosity":"low"}`)}}}, req, false},
	} {
		if got := bodyOf(t, &tt.p, "h", tt.req); strings.Contains(got, format) != tt.want {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}

// What a model or an account cannot do is left out, once it is known.
func TestRefusedFormsAreAskedAgainWithoutThem(t *testing.T) {
	const (
		notEncrypted = `{"error":{"message":"Encrypted content is not supported with this model.","type":"invalid_request_error","param":"include","code":null}}`
		notStreamed  = `{"error":{"message":"Your organization must be verified to stream this model. Please go to the settings.","type":"invalid_request_error","param":"stream","code":"unsupported_value"}}`
	)
	for _, tt := range []struct {
		model string
		asked int
	}{{"gpt-5", 3}, {"gpt-4.1-mini", 2}} {
		requests := 0
		p := against(t, func(w http.ResponseWriter, body string) {
			requests++
			w.Header().Set("Content-Type", "application/json")
			switch {
			case strings.Contains(body, `"include":["reasoning.encrypted_content"]`):
				w.WriteHeader(400)
				w.Write([]byte(notEncrypted))
			case strings.Contains(body, `"stream":true`):
				w.WriteHeader(400)
				w.Write([]byte(notStreamed))
			default:
				w.Write([]byte(`{"object":"response","output":[{"type":"message","content":[{"type":"output_text","text":"Hello"}]}]}`))
			}
		})
		p.Model = tt.model
		resp, err := p.Generate(t.Context(), modeltest.Hello, nil)
		if err != nil || resp.Message.Text() != "Hello" || requests != tt.asked {
			t.Errorf("%s: %v, %v after %d requests, want %d", tt.model, resp, err, requests, tt.asked)
		}
	}
	requests := 0
	p := against(t, func(w http.ResponseWriter, body string) {
		requests++
		w.WriteHeader(400)
		w.Write([]byte(notStreamed))
	})
	_, err := p.Generate(t.Context(), modeltest.Hello, nil)
	if e := modeltest.ModelError(t, err); e.Temporary || e.Code != "unsupported_value" || requests != 2 {
		t.Errorf("%v after %d requests", err, requests)
	}
}

func TestInvalidRequestsAreErrors(t *testing.T) {
	for want, f := range map[string]func(p *Provider, req *agent.Request){
		`extra body: "input" cannot be replaced`:       func(p *Provider, _ *agent.Request) { p.ExtraBody = map[string]json.RawMessage{"input": []byte("1")} },
		"the schema of tool weather is not valid JSON": func(_ *Provider, r *agent.Request) { r.Tools[0].Schema = []byte("{") },
		`a message of the unknown role "x"`:            func(_ *Provider, r *agent.Request) { r.Messages[0].Role = "x" },
	} {
		p, req := &Provider{Settings: modelhttp.Settings{BaseURL: "http://127.0.0.1:1"}}, conversation(agent.Message{Role: agent.RoleAssistant})
		f(p, req)
		_, err := p.Generate(t.Context(), req, nil)
		if e := modeltest.ModelError(t, err); e.Error() != want {
			t.Errorf("error = %q, want %q", e, want)
		}
	}
}
