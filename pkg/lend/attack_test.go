package lend_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/lend"
	"github.com/agents-exe/agents/pkg/runner"
)

// TestWhatAProgramMustNotDo sends what an endpoint refuses. Nothing of it reaches the model's
// server.
func TestWhatAProgramMustNotDo(t *testing.T) {
	chat := paths[agent.ProtocolChat]
	for _, tt := range []struct {
		name, path, body string
		change           func(*http.Request)
		status           int
		text             string
	}{
		{"no token", chat, body(agent.ProtocolChat, false), func(r *http.Request) { r.Header.Del("Authorization") }, 401, "the token is not that of this call"},
		{"another token", "/v1/messages", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer lent-AAAAAAAAAAAAAAAAAAAAAAAAAA") }, 401, "the token is not that of this call"},
		{"the key", chat, "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+key) }, 401, "the token is not that of this call"},
		{"a model that is not lent", chat, strings.Replace(body(agent.ProtocolChat, false), "lent", "other", 1), nil, 404, `the model "other" is not lent to the tool ask; there are: lent`},
		{"two models", chat, `{"model":"lent","messages":[],"model":"other"}`, nil, 404, `the model "other" is not lent`},
		{"no model", "/v1/messages", `{"Model":"lent"}`, nil, 404, `the model "" is not lent`},
		{"no object", chat, `["lent"]`, nil, 400, "the request"},
		{"another path", "/v1/files", body(agent.ProtocolChat, false), nil, 404, "there is nothing at POST /v1/files"},
		{"another host in the path", "/v1/chat/completions/@evil.example", "{}", nil, 404, "there is nothing"},
		{"a compressed body", chat, "x", func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, 415, "compressed"},
		{"a body that is too large", chat, strings.Repeat(" ", lend.MaxBody+1), nil, 413, "too large"},
		{"too many values", chat, `{"model":"lent","messages":[` + strings.Repeat("{},", 300_000) + `{}]}`, nil, 413, "more than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, "ok")
			run(t, model(agent.ProtocolChat, s.URL), nil, func(ctx context.Context, e *lend.Endpoint) {
				resp, text, err := post(ctx, e, tt.path, tt.body, tt.change)
				if err != nil {
					t.Fatal(err)
				}
				protocol := agent.ProtocolChat
				if strings.HasPrefix(tt.path, "/v1/messages") {
					protocol = agent.ProtocolAnthropic
				}
				if got := errorText(t, protocol, text); resp.StatusCode != tt.status || !strings.Contains(got, tt.text) {
					t.Errorf("status %d: %s, want %d: %s", resp.StatusCode, text, tt.status, tt.text)
				}
			})
			if len(s.requests) > 0 {
				t.Errorf("the model's server got %v", s.requests)
			}
		})
	}
}

// TestWhatCannotBeTranslatedIsRefused: the program gets no answer to another request than its own.
func TestWhatCannotBeTranslatedIsRefused(t *testing.T) {
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	const hello = `"contents":[{"parts":[{"text":"hi"}]}]`
	for _, tt := range []struct{ protocol, members, text string }{
		{agent.ProtocolChat, hi + `,"n":2`, "n: "},
		{agent.ProtocolChat, hi + `,"logprobs":true`, "logprobs: "},
		{agent.ProtocolChat, hi + `,"stop":["a"]`, "stop: "},
		{agent.ProtocolChat, hi + `,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"`, "tool_choice: "},
		{agent.ProtocolChat, hi + `,"tools":[{"type":"web_search"}]`, "tools[0].type: "},
		{agent.ProtocolChat, `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.org/a.png"}}]}]`, "messages[0].content[0].image_url: "},
		{agent.ProtocolResponses, `"input":"hi","previous_response_id":"r"`, "previous_response_id: "},
		{agent.ProtocolResponses, `"input":"hi","background":true`, "background: "},
		{agent.ProtocolAnthropic, hi + `,"stop_sequences":["a"]`, "stop_sequences: "},
		{agent.ProtocolAnthropic, hi + `,"tools":[{"type":"bash_20250124","name":"bash"}]`, "tools[0].type: "},
		{agent.ProtocolAnthropic, hi + `,"tool_choice":{"type":"any"}`, "tool_choice: "},
		{agent.ProtocolAnthropic, hi + `,"mcp_servers":[{}]`, "mcp_servers: "},
		{agent.ProtocolAnthropic, `"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://example.org/a.png"}}]}]`, "messages[0].content[0].source: "},
		{agent.ProtocolAnthropic, `"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"y"}]}]`, "there is a result for the tool call"},
		{agent.ProtocolGenerate, hello + `,"generationConfig":{"stopSequences":["a"]}`, "generationConfig.stopSequences: "},
		{agent.ProtocolGenerate, hello + `,"generationConfig":{"candidateCount":2}`, "generationConfig.candidateCount: "},
		{agent.ProtocolGenerate, hello + `,"generationConfig":{"responseModalities":["IMAGE"]}`, "generationConfig.responseModalities: "},
		{agent.ProtocolGenerate, hello + `,"generationConfig":{"responseSchema":{"type":"OBJECT"}}`, "generationConfig.responseSchema: "},
		{agent.ProtocolGenerate, hello + `,"cachedContent":"x"`, "cachedContent: "},
		{agent.ProtocolGenerate, hello + `,"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`, "toolConfig: "},
		{agent.ProtocolGenerate, hello + `,"tools":[{"googleSearch":{}}]`, "tools[0]: "},
		{agent.ProtocolGenerate, hello + `,"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT"}}]}]`, "tools[0].functionDeclarations[0].parameters: "},
		{agent.ProtocolGenerate, `"contents":[{"parts":[{"fileData":{"fileUri":"https://example.org/a.png"}}]}]`, "contents[0].parts[0].fileData: "},
		{agent.ProtocolGenerate, `"contents":[{"parts":[{"functionResponse":{"name":"f","response":{}}}]}]`, "there is a result for the tool call"},
	} {
		to := agent.ProtocolResponses
		if tt.protocol == to {
			to = agent.ProtocolChat
		}
		s := serve(t, "ok")
		run(t, model(to, s.URL), nil, func(ctx context.Context, e *lend.Endpoint) {
			resp, text, err := post(ctx, e, pathOf(tt.protocol, false), `{"model":"lent",`+tt.members+`}`, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := errorText(t, tt.protocol, text); resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, tt.text) {
				t.Errorf("%s: status %d: %s", tt.members, resp.StatusCode, text)
			}
		})
		if len(s.requests) > 0 {
			t.Errorf("%s: the model's server got %v", tt.members, s.requests)
		}
	}
}

// TestATokenIsThatOfOneCall: neither another call nor the time after the call can use it.
func TestATokenIsThatOfOneCall(t *testing.T) {
	s := serve(t, "ok")
	p := model(agent.ProtocolChat, s.URL)
	request := body(agent.ProtocolChat, false)
	var over *lend.Endpoint
	run(t, p, nil, func(ctx context.Context, e *lend.Endpoint) {
		over = e
		run(t, p, nil, func(ctx context.Context, other *lend.Endpoint) {
			resp, text, err := post(ctx, e, paths[agent.ProtocolChat], request, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+environ(other, "OPENAI_API_KEY")) })
			if err != nil || resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("with the token of another call: %v %s", err, text)
			}
		})
	})
	if _, text, err := post(t.Context(), over, paths[agent.ProtocolChat], request, nil); err == nil {
		t.Errorf("after the call: %s", text)
	}
	if len(s.requests) > 0 {
		t.Errorf("the model's server got %v", s.requests)
	}
}

// TestNothingElseReachesTheServer: of the headers of a program, the server gets those of the
// protocol alone; the key goes to no other host; and a server that sends it back tells nobody.
func TestNothingElseReachesTheServer(t *testing.T) {
	smuggle := func(r *http.Request) {
		for _, name := range []string{"Cookie", "X-Forwarded-Host", "Forwarded", "OpenAI-Organization", "Proxy-Authorization", "X-Api-Key", "Connection", "Traceparent", "Anthropic-Dangerous"} {
			r.Header.Set(name, "smuggled")
		}
		r.Header.Set("X-Api-Key", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		r.Header.Set("Anthropic-Beta", "own-beta")
		r.Host = "evil.example"
	}
	for _, protocol := range protocols {
		s := serve(t, "echo")
		run(t, model(protocol, s.URL), nil, func(ctx context.Context, e *lend.Endpoint) {
			for _, stream := range []bool{false, true} {
				resp, text, err := post(ctx, e, paths[protocol], body(protocol, stream), smuggle)
				if err != nil || resp.StatusCode != http.StatusOK || strings.Contains(text, key) || !strings.Contains(text, "[secret]") {
					t.Errorf("%s: %v %s", protocol, err, text)
				}
				got := fmt.Sprint(s.requests[len(s.requests)-1].header)
				if strings.Contains(got, "smuggled") || strings.Contains(got, "lent-") || strings.Contains(got, "own-beta") != (protocol == agent.ProtocolAnthropic) {
					t.Errorf("%s: the server got the headers %s", protocol, got)
				}
			}
		})
		for _, code := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
			elsewhere := serve(t, "ok")
			redirects := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL+r.URL.Path, code) }))
			run(t, model(protocol, redirects.URL), nil, func(ctx context.Context, e *lend.Endpoint) {
				resp, text, err := post(ctx, e, paths[protocol], body(protocol, false), nil)
				if err != nil || resp.StatusCode != http.StatusBadGateway || !strings.Contains(errorText(t, protocol, text), "redirects to another server") {
					t.Errorf("%s: a redirect: %v %s", protocol, err, text)
				}
			})
			redirects.Close()
			if len(elsewhere.requests) > 0 {
				t.Errorf("%s: a redirect was followed", protocol)
			}
		}
	}
}

// TestAnAnswerThatIsNotStreamedArrives: servers may answer a request for a stream at once.
func TestAnAnswerThatIsNotStreamedArrives(t *testing.T) {
	for _, protocol := range protocols {
		answer := answers[protocol][false]
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, answer)
		}))
		run(t, model(protocol, s.URL), nil, func(ctx context.Context, e *lend.Endpoint) {
			resp, text, err := post(ctx, e, paths[protocol], body(protocol, true), nil)
			if err != nil || resp.StatusCode != http.StatusOK || text != answer {
				t.Errorf("%s: %v: the program got %q, want %q", protocol, err, text, answer)
			}
		})
		s.Close()
	}
}

// TestARefusedKeyIsNotTheProgramsFault: the server's text may have a part of the key.
func TestARefusedKeyIsNotTheProgramsFault(t *testing.T) {
	for _, protocol := range protocols {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, `{"error":{"message":"wrong key sk-the-real-****nder"}}`, http.StatusUnauthorized)
		}))
		run(t, model(protocol, s.URL), nil, func(ctx context.Context, e *lend.Endpoint) {
			for _, from := range protocols {
				resp, text, err := post(ctx, e, paths[from], body(from, false), nil)
				if err != nil || resp.StatusCode != http.StatusBadGateway || strings.Contains(text, "sk-") {
					t.Errorf("%s to %s: %v %s", from, protocol, err, text)
				}
			}
		})
		s.Close()
	}
}

// TestRequestsAtOnceAreLimited has more programs than the limit, all of which the server lets wait.
func TestRequestsAtOnceAreLimited(t *testing.T) {
	const more = 8
	var waiting atomic.Int32
	all, enough := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if waiting.Add(1) == lend.MaxRequests {
			close(all)
		}
		<-enough
		io.WriteString(w, answers[agent.ProtocolChat][false])
	}))
	defer s.Close()
	out, _ := run(t, model(agent.ProtocolChat, s.URL), nil, func(ctx context.Context, e *lend.Endpoint) {
		var g sync.WaitGroup
		ask := func(want int) {
			resp, text, err := post(ctx, e, paths[agent.ProtocolChat], body(agent.ProtocolChat, false), nil)
			if err != nil || resp.StatusCode != want {
				t.Errorf("want %d: %v %s", want, err, text)
			}
		}
		for range lend.MaxRequests {
			g.Go(func() { ask(http.StatusOK) })
		}
		<-all
		for range more {
			ask(http.StatusTooManyRequests)
		}
		close(enough)
		g.Wait()
	})
	if u := out.Total.Agents["ask"]; u.Requests != lend.MaxRequests || u.Cost != lend.MaxRequests*each {
		t.Errorf("counted %+v", u)
	}
}

// TestABudgetIsExceededByOneAnswer has as many requests at once as are possible spend one budget.
func TestABudgetIsExceededByOneAnswer(t *testing.T) {
	s := serve(t, "ok")
	limit := agent.Money(5*each + each/2)
	out, _ := run(t, model(agent.ProtocolAnthropic, s.URL), func(a *agent.Agent) { a.Budget.USD = &limit }, func(ctx context.Context, e *lend.Endpoint) {
		var g sync.WaitGroup
		for range lend.MaxRequests {
			g.Go(func() {
				resp, text, err := post(ctx, e, paths[agent.ProtocolAnthropic], body(agent.ProtocolAnthropic, true), nil)
				if err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPaymentRequired {
					t.Errorf("%v %s", err, text)
				}
			})
		}
		g.Wait()
	})
	if got := out.Total.Usage.Cost; got != agent.Money(len(s.requests))*each || got > limit+each || got < limit-each {
		t.Errorf("a budget of %s: counted %s, served %d", limit, got, len(s.requests))
	}
}

// TestTheEndOfACallEndsItsRequests: also that of a program that reads nothing of a long answer.
func TestTheEndOfACallEndsItsRequests(t *testing.T) {
	gone := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			if _, err := fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", strings.Repeat("x", 10_000)); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	out, _ := run(t, model(agent.ProtocolChat, s.URL), nil, func(ctx context.Context, e *lend.Endpoint) {
		c, err := net.Dial("tcp", e.Address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		text := body(agent.ProtocolChat, true)
		fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", environ(e, "OPENAI_API_KEY"), len(text), text)
		if line, err := bufio.NewReaderSize(c, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Errorf("%s %v", line, err)
		}
	})
	<-gone
	if u := out.Total.Agents["ask"]; u.Requests != 1 || u.Estimated != 1 {
		t.Errorf("counted %+v", u)
	}
}

// A journal keeps events.
type journal []agent.Event

func (j *journal) Append(_ context.Context, e agent.Event) error {
	*j = append(*j, e)
	return nil
}

func (j *journal) Sync(context.Context) error { return nil }

// TestARequestOfAProgramIsNotItsResult ends a process after a program has had an answer, and before
// its call has a result.
func TestARequestOfAProgramIsNotItsResult(t *testing.T) {
	s := serve(t, "ok")
	f := program(func(ctx context.Context, e *lend.Endpoint) {
		if _, text, err := post(ctx, e, paths[agent.ProtocolChat], body(agent.ProtocolChat, false), nil); err != nil {
			t.Errorf("%v %s", err, text)
		}
	})
	a := &agent.Agent{Slug: "top", Model: "own", Provider: caller{}, Toolsets: []agent.Toolset{f}, LendTools: []string{"ask"}, Lend: []agent.Loan{{Name: "lent", Provider: model(agent.ProtocolChat, s.URL)}}}
	var whole journal
	if _, err := (&runner.Runner{Agent: a, Journal: &whole}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	var b runner.Rebuilder
	for _, e := range whole {
		if e.Kind == agent.EventCallEnded {
			break
		}
		if err := b.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	from, _ := b.Resume()
	var rest journal
	out, err := (&runner.Runner{Agent: a, Journal: &rest, From: from}).Resume(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range rest {
		if e.Kind == agent.EventCallEnded && e.Result.Text() != "asked" { // it is repeatable
			t.Errorf("the result of the call is %q", e.Result.Text())
		}
	}
	if u := out.Total.Agents["ask"]; u.Requests != 2 || u.Cost != 2*each {
		t.Errorf("counted %+v", u)
	}
}

func TestModelsAreListed(t *testing.T) {
	run(t, model(agent.ProtocolChat, "http://127.0.0.1:1"), nil, func(ctx context.Context, e *lend.Endpoint) {
		resp, text, err := post(ctx, e, "/v1/models", "", func(r *http.Request) { r.Method = http.MethodGet })
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(text, `"id":"lent"`) {
			t.Errorf("%v %s", err, text)
		}
		if got := environ(e, "AGENTS_MODELS"); got != "lent" {
			t.Errorf("AGENTS_MODELS is %q", got)
		}
	})
}

// TestNothingIsLentUnlessTheAgentSaysSo: to the tool, and of the models those that it wants.
func TestNothingIsLentUnlessTheAgentSaysSo(t *testing.T) {
	for _, change := range []func(*agent.Agent){
		func(a *agent.Agent) { a.LendTools = nil },
		func(a *agent.Agent) { a.LendTools = []string{"another"} },
		func(a *agent.Agent) { a.Lend = []agent.Loan{} },
	} {
		_, events := run(t, model(agent.ProtocolChat, "http://127.0.0.1:1"), change, func(context.Context, *lend.Endpoint) { t.Error("there is an endpoint") })
		for _, e := range events {
			if e.Kind == agent.EventCallEnded && !strings.Contains(e.Result.Text(), "no endpoint") {
				t.Errorf("the call ended with %s", e.Result.Text())
			}
		}
	}
}

// TestWhatArrivedBeforeABreakIsPassedOn: wherever the answer of a model breaks off, the program gets
// everything before, without secrets, also what may have been the beginning of one.
func TestWhatArrivedBeforeABreakIsPassedOn(t *testing.T) {
	for _, protocol := range protocols {
		for _, stream := range []bool{false, true} {
			answer, _, _ := strings.Cut(answers[protocol][stream], chatUsage)
			answer = strings.Replace(answer, "hello", "he"+key[:3]+" ske "+key[:9]+" "+key+" "+key[:len(key)-1], 1)
			if stream {
				answer = ": a comment\n\n" + answer // so that a break in the next event is not one before the answer
			}
			end := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", map[bool]string{true: "text/event-stream", false: "application/json"}[stream])
				for _, piece := range []string{answer[:end/2], answer[end/2 : end]} {
					_, _ = io.WriteString(w, piece)
					_ = http.NewResponseController(w).Flush()
				}
				panic(http.ErrAbortHandler)
			}))
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			passed := 0
			run(t, model(protocol, s.URL), nil, func(ctx context.Context, e *lend.Endpoint) {
				from, to := strings.Index(answer, "he"+key[:3]), strings.Index(answer, key[:len(key)-1]+`"`)+len(key)
				for end = range len(answer) {
					if (end < from || end > to) && end%23 > 0 {
						continue
					}
					resp, text, err := post(ctx, e, paths[protocol], body(protocol, stream), nil)
					switch want := redact.New([]string{key}).String(answer[:end]); {
					case resp == nil:
						t.Errorf("%s, stream %t, after %d bytes: %v", protocol, stream, end, err)
					case resp.StatusCode == http.StatusOK && text != want:
						t.Errorf("%s, stream %t, after %d bytes: %v: the program got\n%q, want\n%q", protocol, stream, end, err, text, want)
					case resp.StatusCode == http.StatusOK:
						passed++
					case resp.StatusCode != http.StatusBadGateway || strings.Contains(text, "sk-"):
						t.Errorf("%s, stream %t, after %d bytes: %d %q", protocol, stream, end, resp.StatusCode, text)
					}
				}
			})
			s.Close()
			if passed < 20 {
				t.Errorf("%s, stream %t: %d answers were passed on", protocol, stream, passed)
			}
		}
	}
}
