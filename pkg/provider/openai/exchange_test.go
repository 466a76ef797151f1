package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

const secret = "sk-very-secret-0123456789"

func key() string { return secret }

func TestURLs(t *testing.T) {
	var got string
	p := against(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.RequestURI
		io.WriteString(w, deltas(`{"content":"x"}`)+stop)
	})
	server := p.BaseURL
	for base, want := range map[string]string{
		"":                                "/chat/completions",
		"/":                               "/chat/completions",
		"/v1":                             "/v1/chat/completions",
		"/v1/":                            "/v1/chat/completions",
		"/v1/chat/completions":            "/v1/chat/completions",
		"/v1/chat/completions/":           "/v1/chat/completions",
		"/v1beta/openai?key=a%26b&x=1":    "/v1beta/openai/chat/completions?key=a%26b&x=1",
		"/d/chat/completions?api-version": "/d/chat/completions?api-version=",
		"/a%2Fb/v1#frag":                  "/a%2Fb/v1/chat/completions",
	} {
		p.BaseURL = server + base
		if _, _, err := ask(t, p); err != nil || got != want {
			t.Errorf("URL %q: asked %q, want %q (%v)", base, got, want, err)
		}
	}
}

func TestInvalidSettingsAreReported(t *testing.T) {
	tests := []struct {
		p    Provider
		want string
	}{
		{Provider{}, "the model has no URL, and its flavor has no default"},
		{Provider{Settings: modelhttp.Settings{BaseURL: "api.openai.com/v1"}}, "the model's URL must begin with http:// or https:// and name a host: api.openai.com/v1"},
		{Provider{Settings: modelhttp.Settings{BaseURL: "ftp://host/v1?key=" + secret}}, "the model's URL must begin with http:// or https:// and name a host: ftp://host/v1"},
		{Provider{Settings: modelhttp.Settings{BaseURL: "http://user:" + secret + "@ho st"}}, "the model's URL is not a valid URL"},
		{Provider{Settings: modelhttp.Settings{BaseURL: "user:" + secret + "@host/v1"}}, "the model's URL must begin with http:// or https:// and name a host"},
		{Provider{Settings: modelhttp.Settings{BaseURL: "ftp://user:" + secret + "@host/v1"}}, "the model's URL must begin with http:// or https:// and name a host"},
		{Provider{Flavor: "gpt"}, `unknown flavor "gpt"; known are ` + strings.Join(Flavors(), ", ")},
		{Provider{Settings: modelhttp.Settings{BaseURL: "http://127.0.0.1:1", Key: func() string { return secret + "\n" }}}, "the key contains a character that cannot be sent, such as a line break"},
		{Provider{Settings: modelhttp.Settings{BaseURL: "http://127.0.0.1:1", ExtraBody: rawBody("messages", "[]")}}, `extra body: "messages" cannot be replaced`},
		{Provider{Settings: modelhttp.Settings{BaseURL: "http://127.0.0.1:1", ExtraBody: rawBody("x", "{")}}, `extra body: the value of "x" is not valid JSON`},
	}
	for _, tt := range tests {
		_, err := tt.p.Generate(t.Context(), modeltest.Hello, nil)
		if e := modeltest.ModelError(t, err); e.Error() != tt.want || e.Temporary {
			t.Errorf("error = %q (temporary %v), want %q", e, e.Temporary, tt.want)
		}
	}
	bad := &agent.Request{Tools: []agent.ToolSpec{{Name: "t", Schema: []byte("{")}}}
	_, err := (&Provider{Settings: modelhttp.Settings{BaseURL: "http://127.0.0.1:1"}}).Generate(t.Context(), bad, nil)
	if e := modeltest.ModelError(t, err); e.Error() != "the schema of tool t is not valid JSON" {
		t.Errorf("error = %q", e)
	}
}

func TestAProviderServesManyAtOnce(t *testing.T) {
	p := against(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		word := body[bytes.Index(body, []byte("word-")):]
		io.WriteString(w, deltas(`{"content":"`+string(word[:7])+`"}`)+stop)
	})
	p.Key = key
	var g errgroup.Group
	for i := range 20 {
		g.Go(func() error {
			word := fmt.Sprintf("word-%02d", i)
			resp, err := p.Generate(t.Context(), &agent.Request{Messages: []agent.Message{agent.UserText(word)}}, nil)
			if err == nil && resp.Message.Text() != word {
				err = fmt.Errorf("%s was answered with %q", word, resp.Message.Text())
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	many := deltas(`{"tool_calls":[` + strings.Repeat(`{"name":"t"},`, modelhttp.MaxCalls) + `{"name":"t"}]}`)
	_, _, err := ask(t, answering(t, "", many+stop))
	if e := modeltest.ModelError(t, err); e.Error() != "the answer has more than 16384 tool calls (the limit of one answer)" {
		t.Errorf("error = %q", e)
	}
	_, _, err = ask(t, answering(t, "", `{"choices":[`+strings.Repeat(`{},`, 1<<18+1)+`{}]}`))
	if e := modeltest.ModelError(t, err); !strings.Contains(e.Error(), "it has too many elements") {
		t.Errorf("error = %q", e)
	}
	_, _, err = ask(t, answering(t, "", `[`+strings.Repeat(`1,`, 1<<18+1)+`{"choices":[]}]`))
	if e := modeltest.ModelError(t, err); !strings.Contains(e.Error(), "it has too many elements") {
		t.Errorf("error of a list = %q", e)
	}
}

func TestTheSchemaOfTheAnswerIsSentWhereItWorks(t *testing.T) {
	closed := `{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}`
	open := `{"type":"object","properties":{"n":{"type":"integer"}}}`
	tool := []agent.ToolSpec{{Name: "t", Schema: json.RawMessage(`{}`)}}
	for _, tc := range []struct {
		name, schema, extra, want string
		flavor                    Flavor
		tools                     []agent.ToolSpec
	}{
		{name: "strict", flavor: OpenAI, schema: closed, tools: tool,
			want: `{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}}}`},
		{name: "not strict", flavor: Mistral, schema: open,
			want: `{"type":"json_schema","json_schema":{"name":"answer","strict":false,"schema":{"type":"object","properties":{"n":{"type":"integer"}}}}}`},
		{name: "local", flavor: Ollama, schema: open,
			want: `{"type":"json_schema","json_schema":{"name":"answer","strict":false,"schema":{"type":"object","properties":{"n":{"type":"integer"}}}}}`},
		{name: "local with tools", flavor: VLLM, schema: open, tools: tool},
		{name: "a tool in its place", flavor: DeepSeek, schema: open},
		{name: "unknown server", flavor: Compatible, schema: open},
		{name: "combinators at the top", flavor: OpenAI, schema: `{"type":"object","anyOf":[{"properties":{"n":{"const":1}},"required":["n"],"additionalProperties":false},{"properties":{"n":{"const":2}},"required":["n"],"additionalProperties":false}]}`,
			want: `{"type":"json_schema","json_schema":{"name":"answer","strict":false,"schema":{"properties":{"n":{"enum":[1,2]}},"required":["n"],"type":"object"}}}`},
		{name: "no object satisfies it", flavor: OpenAI, schema: `{"type":"object","anyOf":[{"type":"string"}]}`},
		{name: "no object", flavor: OpenAI, schema: `{"type":"array"}`},
		{name: "no schema", flavor: OpenAI},
		{name: "of the agent file", flavor: OpenAI, schema: open, extra: `{"type":"json_object"}`, want: `{"type":"json_object"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &Provider{Settings: modelhttp.Settings{Model: "m"}}
			if tc.extra != "" {
				p.ExtraBody = map[string]json.RawMessage{"response_format": json.RawMessage(tc.extra)}
			}
			text, err := p.body(factsOf(tc.flavor), &agent.Request{Tools: tc.tools, Output: json.RawMessage(tc.schema)})
			var body map[string]json.RawMessage
			if err != nil || json.Unmarshal(text, &body) != nil || string(body["response_format"]) != tc.want {
				t.Errorf("body = %s, %v; want %s", text, err, tc.want)
			}
		})
	}
}

// Where the server knows schemas of tools alone, the answer is the arguments of a tool.
func TestTheAnswerIsTheArgumentsOfATool(t *testing.T) {
	const call = `{"index":%d,"id":"c%d","function":{"name":"%s","arguments":"%s"}}`
	callOf := func(i int, name, args string) string { return fmt.Sprintf(call, i, i, name, args) }
	tools := []agent.ToolSpec{{Name: "look", Schema: json.RawMessage(`{"type":"object"}`)}}
	schema := json.RawMessage(`{"type": "object", "properties": {"n": {"type": "integer"}}}`)
	for _, tc := range []struct {
		name, answer, text, calls string
		flavor                    Flavor
		req                       agent.Request
		offered                   string // the tools
	}{
		{name: "alone", flavor: Kimi, req: agent.Request{Output: schema}, offered: "final_answer", answer: `"tool_calls":[` + callOf(0, "final_answer", `{\"n\":1}`) + `]`, text: `{"n":1}`},
		{name: "with tools", flavor: DeepSeek, req: agent.Request{Output: schema, Tools: tools}, offered: "look final_answer", answer: `"content":"I am done.","tool_calls":[` + callOf(0, "final_answer", `{\"n\":1}`) + `]`, text: `{"n":1}`},
		{name: "too early", flavor: Claude, req: agent.Request{Output: schema, Tools: tools}, offered: "look final_answer", answer: `"content":"First:","tool_calls":[` + callOf(0, "final_answer", `{}`) + "," + callOf(1, "look", `{}`) + `]`, text: "First:", calls: "look"},
		{name: "as text", flavor: Kimi, req: agent.Request{Output: schema}, offered: "final_answer", answer: `"content":"{\"n\":2}"`, text: `{"n":2}`},
		{name: "no arguments", flavor: Kimi, req: agent.Request{Output: schema}, offered: "final_answer", answer: `"tool_calls":[` + callOf(0, "final_answer", "") + `]`, text: "{}"},
		{name: "a local server with tools", flavor: Ollama, req: agent.Request{Output: schema, Tools: tools}, offered: "look final_answer", answer: `"tool_calls":[` + callOf(0, "final_answer", `{\"n\":1}`) + `]`, text: `{"n":1}`},
		{name: "a local server without tools", flavor: Ollama, req: agent.Request{Output: schema}, answer: `"content":"{}"`, text: "{}"},
		{name: "Gemini with tools", flavor: Gemini, req: agent.Request{Output: schema, Tools: tools}, offered: "look final_answer", answer: `"tool_calls":[` + callOf(0, "look", `{}`) + `]`, calls: "look"},
		{name: "the server knows schemas", flavor: OpenAI, req: agent.Request{Output: schema, Tools: tools}, offered: "look", answer: `"content":"{}"`, text: "{}"},
		{name: "no schema", flavor: Kimi, req: agent.Request{Tools: tools}, offered: "look", answer: `"tool_calls":[` + callOf(0, "final_answer", `{}`) + `]`, calls: "final_answer"},
		{name: "not an object", flavor: Kimi, req: agent.Request{Output: json.RawMessage(`{"type":"array"}`)}, answer: `"content":"[]"`, text: "[]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var body struct {
				Tools []struct {
					Function struct{ Name string }
				}
			}
			p := against(t, func(w http.ResponseWriter, r *http.Request) {
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
					t.Error(err)
				}
				io.WriteString(w, deltas("{"+tc.answer+"}")+stop)
			})
			p.Flavor = tc.flavor
			if tc.flavor == OpenAI { // the host decides otherwise
				p.BaseURL, p.Client = "", &http.Client{Transport: modeltest.RoundTripper(func(r *http.Request) (*http.Response, error) {
					if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
						t.Error(err)
					}
					return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(deltas("{"+tc.answer+"}") + stop)), Request: r}, nil
				})}
			}
			tc.req.Messages = modeltest.Hello.Messages
			shown := ""
			resp, err := p.Generate(t.Context(), &tc.req, func(d agent.Delta) { shown += d.Text })
			if err != nil {
				t.Fatal(err)
			}
			var offered, calls []string
			for _, tool := range body.Tools {
				offered = append(offered, tool.Function.Name)
			}
			for _, c := range resp.Message.Calls {
				calls = append(calls, c.Name)
			}
			if strings.Join(offered, " ") != tc.offered || resp.Message.Text() != tc.text || strings.Join(calls, " ") != tc.calls || !strings.HasSuffix(shown, tc.text) {
				t.Errorf("offered %v, text %q, shown %q, calls %v", offered, resp.Message.Text(), shown, calls)
			}
		})
	}
}
