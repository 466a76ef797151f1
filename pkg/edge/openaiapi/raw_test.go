package openaiapi_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/openaiapi"
	"github.com/agents-exe/agents/pkg/source/functool"
)

// A localServer is a handler without a network, for tests with a clock of their own.
type localServer struct {
	*host
	handler *openaiapi.Handler
}

func local(t *testing.T, p agent.Provider, tools ...agent.Tool) *localServer {
	h := &host{agents: []*agent.Agent{{Slug: "helper", Provider: p, Toolsets: []agent.Toolset{agent.ToolList(tools)}}}}
	s := &localServer{host: h, handler: &openaiapi.Handler{Host: h}}
	t.Cleanup(s.handler.Close)
	return s
}

func (s *localServer) do(method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

func TestRequestsThatAreRefused(t *testing.T) {
	hello := `"model":"helper","messages":[{"role":"user","content":"hi"}]`
	for _, c := range []struct{ name, path, body, want string }{
		{"no JSON", "chat/completions", `{`, "not valid JSON"},
		{"wrong type", "chat/completions", `{"model":1}`, `"param":"model"`},
		{"no model", "chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`, `"param":"model","code":"missing_required_parameter"`},
		{"no messages", "chat/completions", `{"model":"helper"}`, `"param":"messages"`},
		{"unknown model", "chat/completions", `{"model":"gpt","messages":[]}`, `"code":"model_not_found"`},
		{"n", "chat/completions", `{` + hello + `,"n":2}`, `"param":"n","code":"unsupported_parameter"`},
		{"response_format", "chat/completions", `{` + hello + `,"response_format":{"type":"grammar"}}`, `"param":"response_format.type"`},
		{"schema of the answer", "chat/completions", `{` + hello + `,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":3}}}}`, `outputSchema: `},
		{"stop", "chat/completions", `{` + hello + `,"stop":3}`, `"param":"stop"`},
		{"too many stops", "chat/completions", `{` + hello + `,"stop":[` + strings.Repeat(`"a",`, 16) + `"a"]}`, `"param":"stop"`},
		{"functions", "chat/completions", `{` + hello + `,"functions":[]}`, `"param":"functions"`},
		{"tool_choice", "chat/completions", `{` + hello + `,"tool_choice":"required"}`, `"param":"tool_choice"`},
		{"tool_choice of another tool", "chat/completions", `{` + hello + `,"tools":[{"type":"function","function":{"name":"a"}}],"tool_choice":{"type":"function","function":{"name":"b"}}}`, `"param":"tool_choice"`},
		{"tool_choice of several", "responses", `{"model":"helper","input":"hi","tools":[{"type":"function","name":"a"}],"tool_choice":{"type":"allowed_tools"}}`, `"param":"tool_choice"`},
		{"tool_choice with a format", "chat/completions", `{` + hello + `,"tools":[{"type":"function","function":{"name":"a"}}],"tool_choice":"required","response_format":{"type":"json_object"}}`, `"param":"tool_choice"`},
		{"address of an image", "chat/completions", `{"model":"helper","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a.example/b.png"}}]}]}`, `"param":"messages[0].content[0].image_url"`},
		{"tool type", "chat/completions", `{` + hello + `,"tools":[{"type":"custom"}]}`, `"param":"tools[0].type"`},
		{"tool name", "chat/completions", `{` + hello + `,"tools":[{"type":"function","function":{"name":"a b"}}]}`, `its name is not valid`},
		{"tool schema", "chat/completions", `{` + hello + `,"tools":[{"type":"function","function":{"name":"a","parameters":{"type":3}}}]}`, `its schema is not valid`},
		{"role", "chat/completions", `{"model":"helper","messages":[{"role":"robot","content":"hi"}]}`, `"param":"messages[0].role"`},
		{"last message", "chat/completions", `{"model":"helper","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}]}`, "the last message must be"},
		{"content", "chat/completions", `{"model":"helper","messages":[{"role":"user","content":3}]}`, `"param":"messages[0].content"`},
		{"part", "chat/completions", `{"model":"helper","messages":[{"role":"user","content":[{"type":"video"}]}]}`, `"param":"messages[0].content[0].type"`},
		{"no input", "responses", `{"model":"helper"}`, `"param":"input"`},
		{"background", "responses", `{"model":"helper","input":"hi","background":true}`, `"param":"background"`},
		{"format", "responses", `{"model":"helper","input":"hi","text":{"format":{"type":"json_schema"}}}`, `"param":"text.format.schema"`},
		{"item", "responses", `{"model":"helper","input":[{"type":"web_search_call","id":"x"}]}`, `"param":"input[0].type"`},
		{"previous response", "responses", `{"model":"helper","input":"hi","previous_response_id":"resp_x"}`, `"code":"previous_response_not_found"`},
		{"path", "embeddings", `{}`, `"code":"unknown_url"`},
		{"method", "models", `{}`, `"code":"unknown_url"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := local(t, says("hello")).do("POST", "/v1/"+c.path, c.body)
			if status < 400 || status >= 500 || !strings.HasPrefix(body, `{"error":{"message":"`) || !strings.Contains(body, c.want) {
				t.Errorf("status %d: %s, want %s", status, body, c.want)
			}
		})
	}
	t.Run("too large", func(t *testing.T) {
		s := local(t, says("hello"))
		s.handler.MaxBody = 100
		if status, body := s.do("POST", "/v1/responses", `{"input":"`+strings.Repeat("a", 100)+`"}`); status != 413 {
			t.Errorf("status %d: %s", status, body)
		}
	})
}

type busy struct{}

func (busy) Error() string             { return "too many runs" }
func (busy) StatusCode() int           { return 429 }
func (busy) RetryAfter() time.Duration { return 1500 * time.Millisecond }

func TestErrorsOfTheHost(t *testing.T) {
	s := serve(t, says(""))
	s.err = busy{}
	status, body, header := s.post(t, "/v1/chat/completions", conversation("", question))
	if status != 429 || header.Get("Retry-After") != "2" || !strings.Contains(body, `"type":"rate_limit_error"`) {
		t.Errorf("status %d, %v: %s", status, header, body)
	}
}

// outcomes are runs that end without a complete answer.
var outcomes = []struct {
	name                        string
	model                       model
	budget                      int64 // turns
	status                      int
	chat, responses, streamEnds string
}{
	{"failed", func(*agent.Request, func(string)) (agent.Message, error) {
		return agent.Message{}, errors.New("no route")
	}, 0,
		502, `"code":"failed"`, `"code":"failed"`, ""},
	{"failed within the answer", func(_ *agent.Request, say func(string)) (agent.Message, error) {
		say("Well, ")
		return agent.Message{}, errors.New("no route")
	}, 0, 502, `"code":"failed"`, `"code":"failed"`, `"error":{"message":"ask model`},
	{"budget", func(*agent.Request, func(string)) (agent.Message, error) { return calls("So far.", "clock", "{}"), nil }, 1,
		200, `"finish_reason":"length"`, `"incomplete_details":{"reason":"max_output_tokens"}`, `"agents":{"status":"budget"`},
}

func TestOutcomes(t *testing.T) {
	for _, c := range outcomes {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, c.model, clock)
			if c.budget > 0 {
				s.agents[0].Budget.Turns = &c.budget
			}
			status, body, header := s.post(t, "/v1/chat/completions", conversation("", question))
			if status != c.status || !strings.Contains(body, c.chat) || (status >= 500) != (header.Get("X-Should-Retry") == "false") {
				t.Errorf("chat: status %d, %v: %s", status, header, body)
			}
			status, body, _ = s.post(t, "/v1/responses", `{"model":"helper","input":"hi"}`)
			if status != c.status || !strings.Contains(body, c.responses) {
				t.Errorf("responses: status %d: %s", status, body)
			}
			if c.streamEnds != "" {
				status, body, _ = s.post(t, "/v1/chat/completions", conversation(`"stream":true,`, question))
				if status != 200 || !strings.Contains(body, c.streamEnds) {
					t.Errorf("stream: status %d: %s", status, body)
				}
			}
		})
	}
}

// After a request to the model was repeated, the client does not get the same text twice.
func TestRetryWithinAStream(t *testing.T) {
	s := serve(t, retrying{})
	_, body, _ := s.post(t, "/v1/chat/completions", conversation(`"stream":true,`, question))
	if n := strings.Count(body, "One"); n != 1 || !strings.Contains(body, ` two"`) {
		t.Errorf("stream = %s", body)
	}
}

type retrying struct{}

func (retrying) Generate(_ context.Context, _ *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	for _, d := range []agent.Delta{{Kind: agent.DeltaText, Text: "One"}, {Kind: agent.DeltaRetry, Attempt: 1}, {Kind: agent.DeltaText, Text: "On"}, {Kind: agent.DeltaText, Text: "e two"}} {
		delta(d)
	}
	return &agent.Response{Message: agent.Message{Parts: []agent.Part{agent.Text("One two")}}}, nil
}

// A client that leaves ends the run.
func TestClientThatLeaves(t *testing.T) {
	for _, extra := range []string{``, `"stream":true,`} {
		thinking := make(chan bool, 1)
		s := serve(t, model(func(_ *agent.Request, say func(string)) (agent.Message, error) {
			say("Well")
			thinking <- true
			return agent.Message{Parts: []agent.Part{agent.Text("wait")}}, nil
		}))
		ctx, leave := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/chat/completions", strings.NewReader(conversation(extra, question)))
		go func() {
			<-thinking
			leave()
		}()
		if resp, err := http.DefaultClient.Do(req); err == nil {
			for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			}
			resp.Body.Close()
		}
		if got := s.ended(t, 0); got != agent.StatusInterrupted {
			t.Errorf("%s: the run ended as %s", extra, got)
		}
	}
}

// While a tool runs, a stream has comments.
func TestStreamIsKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := functool.New("clock", "", func(context.Context, struct{}) (string, error) {
			time.Sleep(25 * time.Second)
			return "noon", nil
		})
		s := local(t, model(func(req *agent.Request, say func(string)) (agent.Message, error) {
			if req.Messages[len(req.Messages)-1].Role == agent.RoleUser {
				return calls("", "clock", `{}`), nil
			}
			return pieces("Noon.", say), nil
		}), slow)
		_, body := s.do("POST", "/v1/chat/completions", conversation(`"stream":true,`, question))
		if n := strings.Count(body, "\n\n: "); n+1 != 2 || !strings.HasPrefix(body, ": ") || !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("stream = %s", body)
		}
		_, body = s.do("POST", "/v1/responses", `{"model":"helper","input":"hi","stream":true}`)
		if !strings.HasPrefix(body, "event: response.created\n") || strings.Count(body, "\n\n: ") != 1 {
			t.Errorf("stream = %s", body)
		}
	})
}

// The answer has the form that the request asks for: one that has not is asked for again,
// and never reaches the client.
func TestStructuredAnswers(t *testing.T) {
	city := `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`
	for _, c := range []struct{ name, path, format, first, want string }{
		{"json_schema", "chat/completions", `"response_format":{"type":"json_schema","json_schema":{"name":"c","strict":true,"schema":` + city + `}}`, `{"town":"Rome"}`, `"content":"{\"city\":\"Rome\"}"`},
		{"json_schema, streamed", "chat/completions", `"stream":true,"response_format":{"type":"json_schema","json_schema":{"name":"c","schema":` + city + `}}`, `{"town":"Rome"}`, `{"content":"{\"city\":\"Rome\"}"}`},
		{"json_object", "chat/completions", `"response_format":{"type":"json_object"}`, `["town"]`, `"content":"{\"city\":\"Rome\"}"`},
		{"text.format", "responses", `"text":{"format":{"type":"json_schema","name":"c","schema":` + city + `}}`, `{"town":"Rome"}`, `"text":"{\"city\":\"Rome\"}"`},
		{"text.format, streamed", "responses", `"stream":true,"text":{"format":{"type":"json_object"}}`, `"town"`, `"delta":"{\"city\":\"Rome\"}"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			answers := []string{c.first, "```json\n{\"city\":\"Rome\"}\n```"}
			var schemas []string
			s := local(t, model(func(req *agent.Request, say func(string)) (agent.Message, error) {
				schemas = append(schemas, string(req.Output))
				return pieces(answers[len(schemas)-1], say), nil
			}))
			input := `"messages":[{"role":"user","content":"hi"}]`
			if c.path == "responses" {
				input = `"input":"hi"`
			}
			status, body := s.do("POST", "/v1/"+c.path, `{"model":"helper",`+input+`,`+c.format+`}`)
			if status != 200 || !strings.Contains(body, c.want) || strings.Contains(body, "town") || strings.Contains(body, "```") {
				t.Errorf("%d %s, want %s", status, body, c.want)
			}
			if len(schemas) != 2 || !strings.Contains(schemas[0], "object") {
				t.Errorf("the model gets the schemas %q", schemas)
			}
		})
	}
}
