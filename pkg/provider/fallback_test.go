package provider_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/prices"
	"github.com/agents-exe/agents/pkg/provider"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// A change is a DeltaRetry that names another model.
type change struct{ model, why string }

// retried is p behind Retry without waits, with the price of a million tokens.
func retried(p agent.Provider, usd agent.Money) *provider.Retry {
	priced := &prices.Provider{Provider: p, Price: func() *prices.Price {
		if usd == 0 {
			return nil
		}
		return &prices.Price{Input: usd, Output: usd}
	}}
	return &provider.Retry{Provider: priced, Sleep: func(context.Context, time.Duration) error { return nil }}
}

// generate asks f and returns the changes too.
func generate(t *testing.T, f *provider.Fallback, req *agent.Request) (*agent.Response, []change, error) {
	t.Helper()
	var changes []change
	resp, err := f.Generate(t.Context(), req, func(d agent.Delta) {
		if d.Fallback != "" {
			changes = append(changes, change{d.Fallback + " (" + d.Model + ")", d.Text})
		}
	})
	return resp, changes, err
}

func TestAnotherModelAnswers(t *testing.T) {
	each(t, func(t *testing.T, pr protocol) {
		for _, tt := range []struct {
			name     string
			status   int
			body     string
			requests int // to the model that fails
			falls    bool
		}{
			{"429 after the retries", 429, `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`, 6, true},
			{"529", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, 6, true},
			{"503", 503, "", 6, true},
			{"an answer that breaks off before its text", 200, modeltest.Events(pr.head), 6, true},
			{"quota", 429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, 1, true},
			{"no credit at OpenRouter", 402, `{"error":{"message":"Insufficient credits","code":402}}`, 1, true},
			{"no credit at Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`, 1, true},
			{"too long", 400, `{"error":{"message":"too many tokens","code":"context_length_exceeded"}}`, 1, true},
			{"too long for Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, 1, true},
			{"gone", 404, `{"type":"error","error":{"type":"not_found_error","message":"model: m"}}`, 1, true},
			{"no such model", 400, `{"error":{"message":"no such model","code":"model_not_found"}}`, 1, true},

			{"invalid", 400, `{"error":{"message":"bad tools","type":"invalid_request_error"}}`, 1, false},
			{"key", 401, `{"error":{"message":"bad key"}}`, 1, false},
			{"policy", 403, `{"error":{"message":"not in your country"}}`, 1, false},
		} {
			t.Run(tt.name, func(t *testing.T) {
				requests := 0
				first := pr.against(t, func(w http.ResponseWriter, r *http.Request) {
					requests++
					w.WriteHeader(tt.status)
					io.WriteString(w, tt.body)
				})
				second := protocols[0].against(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, protocols[0].answer("hi")) })
				f := &provider.Fallback{Models: []provider.Model{{Name: "a", Model: "m", Provider: retried(first, agent.Dollar)}, {Name: "b", Model: "n", Provider: retried(second, 1000*agent.Dollar)}}}
				resp, changes, err := generate(t, f, modeltest.Hello)
				if requests != tt.requests {
					t.Errorf("%d requests to the first model, want %d", requests, tt.requests)
				}
				if !tt.falls {
					if err == nil || len(changes) > 0 {
						t.Errorf("answer %v, changes %v, want the error", resp, changes)
					}
					return
				}
				if err != nil || resp.Message.Text() != "hi" || resp.Fallback != "b" || len(changes) != 1 || changes[0].model != "b (n)" || changes[0].why != resp.Failed || !strings.HasPrefix(resp.Failed, "a: ") {
					t.Fatalf("Generate = %+v, changes %v, %v", resp, changes, err)
				}
				own, _, err := generate(t, &provider.Fallback{Models: f.Models[1:]}, modeltest.Hello)
				if err != nil {
					t.Fatal(err)
				}
				if failed := resp.Usage.Sub(own.Usage); own.Usage.Cost == 0 || failed.Cost != agent.Money(failed.InputTokens+failed.OutputTokens)*agent.Dollar/1e6 {
					t.Errorf("usage %+v, of it by the second model %+v", resp.Usage, own.Usage)
				}
				again := *modeltest.Hello
				again.Fallback = "b"
				if resp, _, err := generate(t, f, &again); err != nil || resp.Fallback != "b" || resp.Failed != "" || requests != tt.requests {
					t.Errorf("the next request: %+v, %v after %d requests to the first model", resp, err, requests)
				}
			})
		}
	})
}

func TestNoFallbackWithinAnAnswer(t *testing.T) {
	each(t, func(t *testing.T, pr protocol) {
		first := pr.against(t, func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, modeltest.Events(pr.head, pr.start, strings.Replace(pr.piece, "%s", "Hel", 1)))
		})
		second := &script{}
		f := &provider.Fallback{Models: []provider.Model{{Name: "a", Provider: retried(first, 0)}, {Name: "b", Provider: second}}}
		_, changes, err := generate(t, f, modeltest.Hello)
		if e := modeltest.ModelError(t, err); !e.Temporary || len(changes) > 0 || second.asked > 0 {
			t.Errorf("error %v, changes %v, %d requests to the second model", err, changes, second.asked)
		}
	})
}

func TestFallbackWhereNobodyListens(t *testing.T) {
	gone := func(settings modelhttp.Settings) agent.Provider {
		settings.BaseURL = "http://127.0.0.1:1"
		return retried(protocols[0].open(settings), 0)
	}
	f := &provider.Fallback{Models: []provider.Model{{Name: "a", Provider: gone(modelhttp.Settings{})}, {Name: "b", Provider: &script{}}}}
	if resp, changes, err := generate(t, f, modeltest.Hello); err != nil || resp.Fallback != "b" || len(changes) != 1 {
		t.Errorf("Generate = %+v, changes %v, %v", resp, changes, err)
	}
}

func TestFallbackAsksEachModelOnce(t *testing.T) {
	long := &agent.ModelError{Message: "too many tokens", TooLong: true}
	busy := &agent.ModelError{Status: 503, Message: "busy", Temporary: true}
	key := &agent.ModelError{Status: 401, Message: "bad key"}
	for _, tt := range []struct {
		name    string
		errs    []error // of the models a, b, c; nil answers
		from    string  // which answered before
		want    string  // the error, or else the model that answers
		tooLong bool
	}{
		{name: "the first answers", errs: []error{nil, busy, busy}},
		{name: "one after the other", errs: []error{busy, long, nil}, want: "c"},
		{name: "after the last the first", errs: []error{nil, busy, busy}, from: "b"},
		{name: "a name that is gone", errs: []error{busy, nil, nil}, from: "z", want: "b"},
		{name: "none", errs: []error{busy, busy, busy}, from: "b", want: "b: HTTP 503: busy; c: HTTP 503: busy; a: HTTP 503: busy"},
		{name: "a shorter conversation may fit", errs: []error{long, busy, busy}, want: "b: HTTP 503: busy; c: HTTP 503: busy; a: too many tokens", tooLong: true},
		{name: "an error that concerns all", errs: []error{busy, key, nil}, want: "a: HTTP 503: busy; b: HTTP 401: bad key"},
		{name: "of the first alone", errs: []error{key, nil, nil}, want: "HTTP 401: bad key"},
		{name: "of another alone", errs: []error{nil, key, nil}, from: "b", want: "b: HTTP 401: bad key"},
	} {
		f := &provider.Fallback{}
		for i, name := range []string{"a", "b", "c"} {
			s := &script{}
			if tt.errs[i] != nil {
				e := *tt.errs[i].(*agent.ModelError)
				e.Usage = agent.Usage{Requests: 1, InputTokens: 1}
				s.errs = []error{&e}
			}
			f.Models = append(f.Models, provider.Model{Name: name, Provider: s})
		}
		req := *modeltest.Hello
		req.Fallback = tt.from
		resp, changes, err := generate(t, f, &req)
		if err == nil {
			if resp.Fallback != tt.want || resp.Usage.InputTokens != len(changes) {
				t.Errorf("%s: %q answers after %v with usage %+v, want %q", tt.name, resp.Fallback, changes, resp.Usage, tt.want)
			}
			continue
		}
		e := modeltest.ModelError(t, err)
		if err.Error() != tt.want || e.TooLong != tt.tooLong || e.Usage.Requests != len(changes)+1 {
			t.Errorf("%s: error %q, too long %v, usage %+v, want %q", tt.name, err, e.TooLong, e.Usage, tt.want)
		}
	}
}

func TestFallbackEndsWithTheBudgetOrTheRun(t *testing.T) {
	spent := errors.New("spent")
	first := &script{errs: []error{&agent.ModelError{Temporary: true, Message: "busy", Usage: agent.Usage{Requests: 1, OutputTokens: 7}}}}
	second := &script{}
	f := &provider.Fallback{Models: []provider.Model{{Name: "a", Provider: first}, {Name: "b", Provider: second}}}
	req := *modeltest.Hello
	req.Again = func(consumed agent.Usage) error {
		if consumed.OutputTokens == 7 {
			return spent
		}
		return nil
	}
	_, changes, err := generate(t, f, &req)
	if e := modeltest.ModelError(t, err); !errors.Is(err, spent) || e.Usage.OutputTokens != 7 || len(changes) > 0 || second.asked > 0 {
		t.Errorf("error %v, changes %v", err, changes)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	first.asked = 0
	if _, err := f.Generate(ctx, modeltest.Hello, nil); err == nil || second.asked > 0 {
		t.Errorf("a run that ended: %v, %d requests to the second model", err, second.asked)
	}
}

// A tool that one server would refuse is not offered to any: all see the same tools.
func TestFallbackFitsTools(t *testing.T) {
	f := &provider.Fallback{Models: []provider.Model{
		{Name: "a", Provider: protocols[1].open(modelhttp.Settings{})},
		{Name: "b", Provider: retried(protocols[2].open(modelhttp.Settings{}), 0)}}}
	if _, changed, err := f.FitTool(agent.ToolSpec{Schema: []byte(`{"type":"object","properties":{"a":{"type":"string"}}}`)}); err != nil || changed != nil {
		t.Errorf("FitTool = %v, %v", changed, err)
	}
	if _, changed, err := f.FitTool(agent.ToolSpec{Schema: []byte(`{"type":"object","anyOf":[{"required":["a"]}],"properties":{"a":{"type":"string"}}}`)}); err != nil || len(changed) == 0 {
		t.Errorf("FitTool of a schema that is changed = %v, %v", changed, err)
	}
}

func TestLeastCostOfAFallback(t *testing.T) {
	models := func(usd ...agent.Money) *provider.Fallback {
		f := &provider.Fallback{}
		for _, one := range usd {
			f.Models = append(f.Models, provider.Model{Provider: retried(&script{}, one)})
		}
		return f
	}
	u := agent.Usage{InputTokens: 1e6}
	for _, tt := range []struct {
		f    *provider.Fallback
		want agent.Money
	}{{models(3, 2, 5), 2}, {models(3, 0), 3}, {models(0, 0), 0}} {
		if cost := tt.f.LeastCost(u); cost != tt.want {
			t.Errorf("LeastCost = %v, want %v", cost, tt.want)
		}
	}
}

// The reasoning of a model, with its signature, is sent to no other server.
func TestReasoningStaysWithItsServer(t *testing.T) {
	answers := map[string]string{
		"chat": modeltest.Events(`{"choices":[{"delta":{"reasoning":"hm","reasoning_details":[{"type":"reasoning.encrypted","data":"SIGNED"}],"tool_calls":[{"index":0,"id":"a","function":{"name":"t","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`, "[DONE]"),
		"responses": modeltest.Events(`{"type":"response.completed","response":{"status":"completed","output":[{"type":"reasoning","id":"rs_1","encrypted_content":"SIGNED","summary":[{"type":"summary_text","text":"hm"}]},` +
			`{"type":"function_call","id":"fc_1","call_id":"a","name":"t","arguments":"{}"}]}}`),
		"anthropic": `{"type":"message","role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"SIGNED"},{"type":"tool_use","id":"a","name":"t","input":{}}],"stop_reason":"tool_use"}`,
	}
	each(t, func(t *testing.T, pr protocol) {
		resp, err := pr.answering(t, answers[pr.name]).Generate(t.Context(), modeltest.Hello, nil)
		if err != nil || len(resp.Message.Calls) != 1 {
			t.Fatalf("%+v, %v", resp, err)
		}
		req := *modeltest.Hello
		req.Messages = append(req.Messages[:1:1], resp.Message, agent.Message{Role: agent.RoleTool, Results: []agent.ToolResult{{CallID: "a", Name: "t", Parts: []agent.Part{agent.Text("found")}}}})
		each(t, func(t *testing.T, other protocol) {
			body := ""
			p := other.against(t, func(w http.ResponseWriter, r *http.Request) {
				data, _ := io.ReadAll(r.Body)
				body = string(data)
				io.WriteString(w, other.answer("hi"))
			})
			p.BaseURL = strings.Replace(p.BaseURL, "127.0.0.1", "localhost", 1) // another host
			if _, err := p.Generate(t.Context(), &req, nil); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(body, "SIGNED") && pr.name+other.name != "chatchat" || !strings.Contains(body, "found") {
				t.Errorf("request: %s", body)
			}
		})
	})
}
