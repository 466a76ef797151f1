package lend_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/lend"
	"github.com/agents-exe/agents/pkg/prices"
	"github.com/agents-exe/agents/pkg/provider/anthropic"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
	"github.com/agents-exe/agents/pkg/provider/openai"
	"github.com/agents-exe/agents/pkg/provider/responses"
	"github.com/agents-exe/agents/pkg/runner"
)

const key = "sk-the-real-key-of-the-lender"

var protocols = []string{agent.ProtocolChat, agent.ProtocolResponses, agent.ProtocolAnthropic}

var paths = map[string]string{agent.ProtocolChat: "/v1/chat/completions", agent.ProtocolResponses: "/v1/responses", agent.ProtocolAnthropic: "/v1/messages"}

// A request is what the model's server got.
type request struct {
	body   string
	header http.Header
}

// A server is that of a model in all protocols. mode says what it does.
type server struct {
	*httptest.Server
	mode string

	mu       sync.Mutex
	requests []request
	answered int // with a usage
	sent     string
	// These get a value when a request of the mode hang has begun, and when it ends.
	began, ended chan struct{}
}

func serve(t *testing.T, mode string) *server {
	s := &server{mode: mode, began: make(chan struct{}, 100), ended: make(chan struct{}, 100)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	stream := bytes.Contains(body, []byte(`"stream":true`))
	s.mu.Lock()
	s.requests = append(s.requests, request{string(body), r.Header})
	s.mu.Unlock()
	protocol := agent.ProtocolChat
	for p, path := range paths {
		if path == r.URL.Path {
			protocol = p
		}
	}
	answer := answers[protocol][stream]
	switch s.mode {
	case "error":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"message":"your key %s may not do this","type":"invalid_request_error","own":1}}`, r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"))
		return
	case "hang":
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		s.began <- struct{}{}
		<-r.Context().Done()
		s.ended <- struct{}{}
		return
	case "die":
		w.Header().Set("Content-Length", "100000")
		fmt.Fprint(w, answer[:len(answer)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	case "echo":
		answer = strings.ReplaceAll(answer, "hello", r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"))
	}
	s.mu.Lock()
	s.answered++
	s.sent = answer
	s.mu.Unlock()
	w.Header().Set("Content-Type", map[bool]string{true: "text/event-stream", false: "application/json"}[stream])
	for piece := range slices.Chunk([]byte(answer), 40) { // events come in parts
		w.Write(piece)
		w.(http.Flusher).Flush()
	}
}

const (
	chatUsage = `data: {"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":100}}` + "\n\n"
	response  = `{"id":"r","own":1,"status":"completed","output":[{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"hello"}]}],"usage":{"input_tokens":1000,"output_tokens":100}}`
)

// answers are by protocol and whether they stream.
var answers = map[string]map[bool]string{
	agent.ProtocolChat: {
		false: `{"id":"c","own":1,"choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":100}}`,
		true: "data: {\"own\":1,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"},\"finish_reason\":null}]}\n\n" +
			"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" + chatUsage + "data: [DONE]\n\n",
	},
	agent.ProtocolResponses: {
		false: response,
		true: "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"m\",\"output_index\":0,\"content_index\":0,\"delta\":\"hello\"}\n\n" +
			"event: response.completed\ndata: {\"type\":\"response.completed\",\"own\":1,\"response\":" + response + "}\n\n",
	},
	agent.ProtocolAnthropic: {
		false: `{"id":"a","own":1,"type":"message","role":"assistant","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","usage":{"input_tokens":1000,"output_tokens":100}}`,
		true: "event: message_start\ndata: {\"type\":\"message_start\",\"own\":1,\"message\":{\"id\":\"a\",\"role\":\"assistant\",\"content\":[],\"usage\":{\"input_tokens\":1000,\"output_tokens\":1}}}\n\n" +
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n" +
			"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":100}}\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
	},
}

// model is the one at a server, with a price.
func model(protocol, url string) agent.Provider {
	settings := modelhttp.Settings{BaseURL: url + "/v1", Model: "served-model", Key: func() string { return key }}
	var p agent.Provider
	switch protocol {
	case agent.ProtocolResponses:
		p = &responses.Provider{Settings: settings}
	case agent.ProtocolAnthropic:
		p = &anthropic.Provider{Settings: settings}
	default:
		p = &openai.Provider{Settings: settings}
	}
	return &prices.Provider{Provider: p, Price: func() *prices.Price { return &prices.Price{Input: 3 * agent.Dollar, Output: 15 * agent.Dollar} }}
}

const each = agent.Dollar * (3*1000 + 15*100) / 1e6

// caller calls the tool once, and then answers.
type caller struct{}

func (caller) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	m := agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "c1", Name: "ask", Args: "{}"}}}
	if req.Messages[len(req.Messages)-1].Role == agent.RoleTool {
		m = agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("done")}}
	}
	return &agent.Response{Message: m, Usage: agent.Usage{Requests: 1, InputTokens: 10, Priced: 1}}, nil
}

// A program is a tool that has an endpoint while f runs.
type program func(ctx context.Context, e *lend.Endpoint)

func (program) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: "ask", Schema: json.RawMessage(`{"type":"object"}`), Effects: agent.EffectsIdempotent}
}

func (f program) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	e, err := lend.Open(ctx, inv, nil, redact.New([]string{key}))
	if err != nil || e == nil {
		return agent.Result{}, errors.Join(err, errors.New("no endpoint"))
	}
	defer e.Close()
	f(ctx, e)
	return agent.Result{Parts: []agent.Part{agent.Text("asked")}}, nil
}

func (f program) Tools(context.Context) ([]agent.Tool, error) { return []agent.Tool{f}, nil }

// run has an agent call f, which may use p as "lent", and returns all events.
func run(t testing.TB, p agent.Provider, change func(*agent.Agent), f program) (out *agent.Outcome, events []agent.Event) {
	t.Helper()
	a := &agent.Agent{Slug: "top", Model: "own", Provider: caller{}, Toolsets: []agent.Toolset{f}, LendTools: []string{"ask"}, Lend: []agent.Loan{{Name: "lent", Model: "served-model", Provider: p}}}
	if change != nil {
		change(a)
	}
	var mu sync.Mutex
	r := &runner.Runner{Agent: a, Secrets: redact.New([]string{key}), Observe: func(e agent.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	}}
	out, err := r.Run(t.Context(), agent.UserText("go"))
	if err != nil && !errors.Is(err, agent.ErrBudget) {
		t.Fatal(err)
	}
	return out, events
}

// environ returns the variable of an endpoint.
func environ(e *lend.Endpoint, name string) string {
	for _, entry := range e.Environ() {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// body returns a request of a program, with members that only the server knows.
func body(protocol string, stream bool) string {
	conversation := `"messages":[{"role":"user","content":"hi"}],"max_tokens":5`
	if protocol == agent.ProtocolResponses {
		conversation = `"input":"hi"`
	}
	if protocol == agent.ProtocolGenerate {
		conversation = `"contents":[{"role":"user","parts":[{"text":"hi"}]}]`
	}
	return fmt.Sprintf(`{ "own" :{"x":[1.50,"é\u00e9"]},"model":"lent",%s,"stream":%t}`, conversation, stream)
}

// pathOf is the path of body.
func pathOf(protocol string, stream bool) string {
	if protocol == agent.ProtocolGenerate {
		return "/v1beta/models/lent:" + map[bool]string{false: "generateContent", true: "streamGenerateContent"}[stream]
	}
	return paths[protocol]
}

// post sends a request with the token, and returns the response and what of it can be read.
func post(ctx context.Context, e *lend.Endpoint, path, body string, change func(*http.Request)) (*http.Response, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.Address()+path, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	r.Header.Set("Authorization", "Bearer "+environ(e, "OPENAI_API_KEY"))
	if change != nil {
		change(r)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

// errorText checks that an error is one of the API, and returns its message.
func errorText(t *testing.T, protocol, body string) string {
	t.Helper()
	var e struct {
		Type  string `json:"type"`
		Error struct{ Type, Status, Message string }
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.Error.Message == "" || e.Error.Type+e.Error.Status == "" || protocol == agent.ProtocolAnthropic && e.Type != "error" {
		t.Errorf("%s: the error is %s", protocol, body)
	}
	return e.Error.Message
}

// TestEveryProtocolReachesEveryModel has a program of each protocol ask a model of each protocol,
// streaming and not, with every outcome. The cost is that of what the server has served.
func TestEveryProtocolReachesEveryModel(t *testing.T) {
	for _, from := range append(protocols, agent.ProtocolGenerate) {
		for _, to := range protocols {
			for _, stream := range []bool{false, true} {
				for _, mode := range []string{"ok", "error", "budget", "hang", "die"} {
					t.Run(fmt.Sprintf("%s to %s, stream %t, %s", from, to, stream, mode), func(t *testing.T) {
						t.Parallel()
						testExchange(t, from, to, stream, mode)
					})
				}
			}
		}
	}
}

func testExchange(t *testing.T, from, to string, stream bool, mode string) {
	s := serve(t, mode)
	change := func(a *agent.Agent) {
		if mode == "budget" {
			a.Budget.Turns = new(int64(2))
		}
	}
	out, events := run(t, model(to, s.URL), change, func(ctx context.Context, e *lend.Endpoint) {
		if mode == "hang" {
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			go func() { <-s.began; cancel() }()
			if _, text, err := post(ctx, e, pathOf(from, stream), body(from, stream), nil); err == nil {
				t.Errorf("a request that was cancelled has the answer %s", text)
			}
			<-s.ended // the request to the model's server has ended too
			return
		}
		resp, text, err := post(ctx, e, pathOf(from, stream), body(from, stream), nil)
		if mode == "budget" && err == nil {
			resp, text, err = post(ctx, e, pathOf(from, stream), body(from, stream), nil)
		}
		checkAnswer(t, s, from, to, stream, mode, resp, text, err)
	})
	u, requests := out.Total.Agents["ask"], len(s.requests)
	if mode == "error" { // nothing was consumed
		requests = 0
	}
	if u.Cost != agent.Money(s.answered)*each && mode != "hang" && mode != "die" || u.Requests != requests {
		t.Errorf("counted %s for %d requests, served %d of %d", u.Cost, u.Requests, s.answered, len(s.requests))
	}
	all, _ := json.Marshal(events)
	if bytes.Contains(all, []byte(key)) {
		t.Errorf("the key is in the events: %s", all)
	}
	if mode != "budget" && out.Status != agent.StatusOK {
		t.Errorf("the run ended with %s: %s", out.Status, out.Reason)
	}
}

func checkAnswer(t *testing.T, s *server, from, to string, stream bool, mode string, resp *http.Response, text string, err error) {
	t.Helper()
	if mode == "die" {
		whole := err == nil && resp.StatusCode == http.StatusOK && !strings.Contains(text, "error") && !strings.Contains(text, "failed")
		if whole {
			t.Errorf("an answer that broke off looks whole: %s", text)
		}
		return
	}
	if err != nil {
		t.Error(err)
		return
	}
	if strings.Contains(text, key) {
		t.Errorf("the program got the key: %s", text)
	}
	switch mode {
	case "error":
		if got := errorText(t, agent.ProtocolChat, text); resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, "[secret] may not do this") || from == to && !strings.Contains(text, `"own":1`) {
			t.Errorf("status %d: %s", resp.StatusCode, text)
		}
	case "budget":
		if got := errorText(t, from, text); resp.StatusCode != http.StatusPaymentRequired || got != "budget turns 2 of agent top spent (2 with 1 sub-agent)" {
			t.Errorf("status %d: %s", resp.StatusCode, text)
		}
	case "ok":
		if resp.StatusCode != http.StatusOK || !strings.Contains(text, "hello") {
			t.Errorf("status %d: %s", resp.StatusCode, text)
		}
		if from != to {
			return
		}
		want := strings.ReplaceAll(body(from, stream), `"model":"lent"`, `"model":"served-model"`)
		if from == agent.ProtocolChat && stream {
			want = `{"stream_options":{"include_usage":true},` + want[1:]
		}
		if got := s.requests[0].body; got != want {
			t.Errorf("the server got\n%s\nwant\n%s", got, want)
		}
		if want := strings.ReplaceAll(s.sent, chatUsage, ""); text != want {
			t.Errorf("the program got\n%s\nwant\n%s", text, want)
		}
	}
}
