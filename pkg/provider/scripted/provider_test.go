package scripted_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agent/agenttest"
	"github.com/agents-exe/agents/pkg/provider/scripted"
	"github.com/agents-exe/agents/pkg/runner"
)

func TestConformance(t *testing.T) {
	agenttest.Provider(t, &scripted.Provider{Script: parse(t, rules(`{"answer":{"text":"Hello, ${prompt}."}}`))}, agent.UserText("hello"))
}

func TestAnswer(t *testing.T) {
	script := rules(`{"answer":{"text":"t","reasoning":"r","finish":"length",
		"calls":[{"tool":"a"},{"tool":"b","id":"x"},{"tool":"a","id":""}],
		"usage":{"inputTokens":7,"cachedTokens":6,"outputTokens":5,"reasoningTokens":4,"cost":0.25}}}`)
	want := &agent.Response{
		Message: agent.Message{Role: agent.RoleAssistant,
			Parts: []agent.Part{{Kind: agent.PartReasoning, Text: "r"}, agent.Text("t")},
			Calls: []agent.ToolCall{{ID: "s00010001", Name: "a", Args: "{}"}, {ID: "x", Name: "b", Args: "{}"}, {Name: "a", Args: "{}"}}},
		Finish: agent.FinishLength, Model: "scripted",
		Usage: agent.Usage{Requests: 1, InputTokens: 7, CachedTokens: 6, OutputTokens: 5, ReasoningTokens: 4, Cost: agent.Dollar / 4, Priced: 1},
	}
	if diff := cmp.Diff(want, answer(t, script, user("x"))); diff != "" {
		t.Errorf("the answer (-want +got):\n%s", diff)
	}
}

func TestFinish(t *testing.T) {
	for script, want := range map[string]agent.Finish{
		`{"answer":{"text":""}}`:                 agent.FinishStop,
		`{"answer":{"finish":"length"}}`:         agent.FinishLength,
		`{"answer":{"finish":"content_filter"}}`: agent.FinishContentFilter,
	} {
		resp := answer(t, rules(script), user("x"))
		if resp.Finish != want || len(resp.Message.Parts) != 0 {
			t.Errorf("%s: finish %q with %d parts, want %q without any", script, resp.Finish, len(resp.Message.Parts), want)
		}
	}
}

func TestUsageIsCounted(t *testing.T) {
	req := results(user("12345678"), res{"tool", "1234", false}) // 8, then call 4+2, result 4
	req.System = "1234"
	req.Tools = []agent.ToolSpec{{Name: "tool", Description: "12", Schema: []byte("{}")}} // 8
	script := rules(`{"answer":{"text":"12345","reasoning":"123456789","calls":[{"tool":"t"}],"usage":{"cost":2}}}`)
	want := agent.Usage{Requests: 1, InputTokens: 8, OutputTokens: 5, ReasoningTokens: 3, Cost: 2 * agent.Dollar, Priced: 1}
	if got := answer(t, script, req).Usage; got != want {
		t.Errorf("usage = %+v, want %+v", got, want)
	}
}

func TestAnswerIsStreamedInPieces(t *testing.T) {
	for _, length := range []int{0, 1, 2, 40, 2_000_000} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			word := strings.Repeat("wörter 日本 ", length/10+1)
			for len(word) > length && !utf8.ValidString(word[:length]) {
				length--
			}
			want := word[:length]
			p := &scripted.Provider{Script: parse(t, rules(`{"answer":{"text":"${prompt}","reasoning":"thinking of it"}}`))}
			var got collect
			if _, err := p.Generate(t.Context(), user(want), got.delta); err != nil {
				t.Fatal(err)
			}
			if s := strings.Join(got.text, ""); s != want {
				t.Errorf("the pieces together are %d bytes, want the %d of the text", len(s), len(want))
			}
			if s := strings.Join(got.reasoning, ""); s != "thinking of it" || len(got.reasoning) < 3 {
				t.Errorf("the reasoning came as %q, want it in pieces", got.reasoning)
			}
			if n := len(got.text); n > 1100 || length > 10 && n < 4 {
				t.Errorf("%d pieces for %d bytes", n, length)
			}
			if !slices.ContainsFunc(got.text, func(s string) bool { return utf8.RuneCountInString(s) > 1 }) && length > 10 {
				t.Errorf("pieces %q, want some longer than a character", got.text)
			}
			for _, s := range got.text {
				if !utf8.ValidString(s) {
					t.Fatalf("a piece cuts a character: %q", s)
				}
			}
		})
	}
}

func TestFaults(t *testing.T) {
	tests := []struct {
		fault string
		want  agent.ModelError
		text  string
	}{
		{`"fault":{"status":429,"retryAfterSeconds":1.5,"message":"slow down","code":"rate"}`,
			agent.ModelError{Status: 429, Code: "rate", Message: "slow down", Temporary: true, RetryAfter: 1500 * time.Millisecond}, "HTTP 429 (rate): slow down"},
		{`"fault":{"status":400}`, agent.ModelError{Status: 400, Message: "Bad Request"}, "HTTP 400: Bad Request"},
		{`"fault":{"status":401}`, agent.ModelError{Status: 401, Message: "Unauthorized"}, "HTTP 401: Unauthorized"},
		{`"fault":{"status":408}`, agent.ModelError{Status: 408, Message: "Request Timeout", Temporary: true}, "HTTP 408: Request Timeout"},
		{`"fault":{"status":409}`, agent.ModelError{Status: 409, Message: "Conflict", Temporary: true}, "HTTP 409: Conflict"},
		{`"fault":{"status":500}`, agent.ModelError{Status: 500, Message: "Internal Server Error", Temporary: true}, "HTTP 500: Internal Server Error"},
		{`"fault":{"status":529}`, agent.ModelError{Status: 529, Message: "status 529", Temporary: true}, "HTTP 529: status 529"},
		{`"fault":{"kind":"bad_json"}`, agent.ModelError{Message: "the server's answer is not valid JSON: invalid character '<' looking for beginning of value", Temporary: true},
			"the server's answer is not valid JSON: invalid character '<' looking for beginning of value"},
		{`"fault":{"kind":"timeout","message":"too slow"}`, agent.ModelError{Message: "too slow", Temporary: true}, "too slow"},
		{`"fault":{"kind":"timeout"}`, agent.ModelError{Message: "the server sent nothing for too long", Temporary: true}, "the server sent nothing for too long"},
		{`"fault":{"kind":"reset"}`, agent.ModelError{Message: "connection reset by peer", Temporary: true}, "connection reset by peer"},
		{`"fault":{"kind":"broken_stream"},"answer":{"text":"some"}`, agent.ModelError{Message: "the stream broke off before the answer was complete", Temporary: true, Err: io.ErrUnexpectedEOF},
			"the stream broke off before the answer was complete"},
	}
	for _, test := range tests {
		t.Run(test.fault, func(t *testing.T) {
			resp, err := ask(t, rules("{"+test.fault+"}"), user("x"))
			if resp != nil {
				t.Errorf("there is an answer beside the fault: %+v", resp)
			}
			if diff := cmp.Diff(test.want, *modelError(t, err), cmpopts.EquateErrors()); diff != "" {
				t.Errorf("the fault (-want +got):\n%s", diff)
			}
			if err.Error() != test.text {
				t.Errorf("the fault says %q, want %q", err, test.text)
			}
			if s := agent.StatusOf(err); s != agent.StatusFailed {
				t.Errorf("the fault is the status %s, want %s", s, agent.StatusFailed)
			}
		})
	}
}

func TestBrokenStreamBeginsTheAnswer(t *testing.T) {
	whole := "It begins well, and then something happens."
	for after, want := range map[string]int{"": 5, `,"afterDeltas":0`: 0, `,"afterDeltas":2`: 2, `,"afterDeltas":1000`: 9} {
		script := rules(`{"fault":{"kind":"broken_stream"` + after + `},"answer":{"text":"` + whole + `"}}`)
		var got collect
		_, err := (&scripted.Provider{Script: parse(t, script)}).Generate(t.Context(), user("x"), got.delta)
		if !modelError(t, err).Temporary {
			t.Errorf("%s: %v is not temporary", after, err)
		}
		if len(got.text) != want || !strings.HasPrefix(whole, strings.Join(got.text, "")) {
			t.Errorf("after%s: %q were shown, want the first %d pieces", after, got.text, want)
		}
	}
}

const twice = `{"rules":[
	{"when":{"turn":1},"times":1,"fault":{"status":503}},
	{"when":{"turn":1},"times":2,"fault":{"kind":"broken_stream"},"answer":{"text":"half"}},
	{"when":{"turn":1},"answer":{"text":"done"}}]}`

func TestTimesAreCountedForEachSession(t *testing.T) {
	p := &scripted.Provider{Script: parse(t, twice)}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			req := user("x")
			req.Session = fmt.Sprint("session", i)
			var got []string
			for range 5 {
				resp, err := p.Generate(t.Context(), req, nil)
				if err != nil {
					got = append(got, err.Error()[:8])
					continue
				}
				got = append(got, resp.Message.Text())
			}
			if diff := cmp.Diff([]string{"HTTP 503", "the stre", "the stre", "done", "done"}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", req.Session, diff)
			}
		})
	}
	wg.Wait()
}

func TestUnusedRulesAreNamed(t *testing.T) {
	p := &scripted.Provider{Script: parse(t, rules(
		`{"name": "first", "when": {"lastMessage": "a"}, "answer": {"text": "x"}}`,
		`{"name": "second", "when": {"lastMessage": "b"}, "times": 1, "answer": {"text": "x"}}`,
		`{"name": "third", "answer": {"text": "x"}}`))}
	want := []string{`rules[0] "first" (script.json:1)`, `rules[1] "second" (script.json:2)`, `rules[2] "third" (script.json:3)`}
	for _, step := range []struct {
		prompt string
		want   []string
	}{{"b", []string{want[0], want[2]}}, {"b", want[:1]}, {"a", nil}} {
		if _, err := p.Generate(t.Context(), user(step.prompt), nil); err != nil {
			t.Fatal(err)
		}
		if got := p.Unused(); !slices.Equal(got, step.want) {
			t.Errorf("after %q Unused = %q, want %q", step.prompt, got, step.want)
		}
	}
}

func TestTimesHoldUnderConcurrentUse(t *testing.T) {
	p := &scripted.Provider{Script: parse(t, rules(`{"times":20,"answer":{"text":"counted"}}`, `{"answer":{"text":"rest"}}`))}
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[string]int{}
	for range 50 {
		wg.Go(func() {
			resp, err := p.Generate(t.Context(), user("x"), nil)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			got[resp.Message.Text()]++
		})
	}
	wg.Wait()
	if diff := cmp.Diff(map[string]int{"counted": 20, "rest": 30}, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

func TestDelays(t *testing.T) {
	tests := []struct {
		rule string
		want time.Duration
	}{
		{`{"delayMillis":1500,"answer":{"text":"x"}}`, 1500 * time.Millisecond},
		{`{"delayMillis":3600000,"fault":{"kind":"timeout"}}`, time.Hour},
		{`{"delayMillis":1000,"deltaMillis":10,"answer":{"text":"abcdefgh"}}`, 1020 * time.Millisecond},
		{`{"answer":{"text":"abcdefgh"}}`, 0},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, _ = ask(t, rules(test.rule), user("x"))
				if got := time.Since(start); got != test.want {
					t.Errorf("it took %v, want %v", got, test.want)
				}
			})
		})
	}
}

func TestSleepReplacesRealTime(t *testing.T) {
	var slept []time.Duration
	stop := errors.New("stop")
	p := &scripted.Provider{Script: parse(t, rules(`{"delayMillis":3600000,"deltaMillis":7,"answer":{"text":"abcdefgh"}}`)),
		Sleep: func(_ context.Context, d time.Duration) error {
			if slept = append(slept, d); len(slept) == 3 {
				return stop
			}
			return nil
		}}
	_, err := p.Generate(t.Context(), user("x"), nil)
	if want := []time.Duration{time.Hour, 7 * time.Millisecond, 7 * time.Millisecond}; !slices.Equal(slept, want) || err != stop {
		t.Errorf("slept %v and returned %v, want %v and %v", slept, err, want, stop)
	}
}

func TestCancellationEndsTheWait(t *testing.T) {
	for _, rule := range []string{`{"delayMillis":3600000,"answer":{"text":"abcdefgh"}}`, `{"deltaMillis":3600000,"answer":{"text":"abcdefgh"}}`} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			start := time.Now()
			_, err := (&scripted.Provider{Script: parse(t, rules(rule))}).Generate(ctx, user("x"), nil)
			if took := time.Since(start); err != context.DeadlineExceeded || took != time.Minute {
				t.Errorf("%s: %v after %v, want %v after a minute", rule, err, took, context.DeadlineExceeded)
			}
		})
	}
}

// greet is the script of two agents: one asks the other twice at the same time.
const greet = `{"rules":[
	{"when":{"agent":"host","role":"user"}, "answer":{"text":"Two guests.", "calls":[
		{"tool":"expert_guest","args":{"prompt":"I am Ann"}},
		{"tool":"expert_guest","args":{"prompt":"I am Bob"}}]}},
	{"when":{"agent":"host","tool":"expert_guest"}, "answer":{"text":"${result.0}; ${result.expert_guest#1}"}},
	{"when":{"agent":"guest","role":"user","lastMessage":"I am (\\w+)"}, "answer":{"calls":[{"tool":"bash_shout","args":{"word":"${1}"}}]}},
	{"when":{"agent":"guest","tool":"bash_shout"}, "answer":{"text":"Hello ${result.0}"}}]}`

func TestAgentsShareAScriptInTheLoop(t *testing.T) {
	p := &scripted.Provider{Script: parse(t, greet)}
	shout := tool{"bash_shout", func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
		args, err := agent.DecodeArgs(inv.Call.Args)
		if err != nil {
			return agent.Result{}, err
		}
		word, err := agent.ArgText(args["word"])
		return agent.TextResult(strings.ToUpper(word) + "!\n"), err
	}}
	guest := &agent.Agent{Slug: "guest", Provider: p, Toolsets: []agent.Toolset{agent.ToolList{shout}}}
	host := &agent.Agent{Slug: "host", Provider: p,
		Toolsets: []agent.Toolset{agent.ToolList{&agent.Subagent{Name: "expert_guest", Agent: guest}}}}
	out, err := (&runner.Runner{Agent: host}).Run(t.Context(), agent.UserText("Welcome them."))
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if want := "Hello ANN!; Hello BOB!"; out.Answer != want {
		t.Errorf("the answer is %q, want %q", out.Answer, want)
	}
	if want := 6; out.Total.Usage.Requests != want {
		t.Errorf("%d model requests, want %d", out.Total.Usage.Requests, want)
	}
}

func parse(t *testing.T, text string) *scripted.Script {
	t.Helper()
	s, err := scripted.Parse("script.json", []byte(text))
	if err != nil {
		t.Fatalf("Parse: %v\n%s", err, text)
	}
	return s
}

// rules is a script of these rules.
func rules(rules ...string) string { return `{"rules":[` + strings.Join(rules, ",\n") + `]}` }

// ask plays one request of a new provider.
func ask(t *testing.T, script string, req *agent.Request) (*agent.Response, error) {
	t.Helper()
	return (&scripted.Provider{Script: parse(t, script)}).Generate(t.Context(), req, nil)
}

// answer is ask for a request that is answered.
func answer(t *testing.T, script string, req *agent.Request) *agent.Response {
	t.Helper()
	resp, err := ask(t, script, req)
	if err != nil {
		t.Fatalf("Generate: %v\n%s", err, script)
	}
	return resp
}

func user(texts ...string) *agent.Request {
	req := &agent.Request{Session: "s1", Agent: "helper", Turn: 1}
	for _, text := range texts {
		req.Messages = append(req.Messages, agent.UserText(text))
	}
	return req
}

type res struct {
	tool, text string
	failed     bool
}

// results adds a turn with calls and their results to req.
func results(req *agent.Request, list ...res) *agent.Request {
	call, result := agent.Message{Role: agent.RoleAssistant}, agent.Message{Role: agent.RoleTool}
	for i, r := range list {
		id := string(rune('a' + i))
		call.Calls = append(call.Calls, agent.ToolCall{ID: id, Name: r.tool, Args: "{}"})
		result.Results = append(result.Results, agent.ToolResult{CallID: id, Name: r.tool, Parts: []agent.Part{agent.Text(r.text)}, Failed: r.failed})
	}
	req.Messages = append(req.Messages, call, result)
	req.Turn++
	return req
}

func modelError(t *testing.T, err error) *agent.ModelError {
	t.Helper()
	var e *agent.ModelError
	if !errors.As(err, &e) {
		t.Fatalf("error = %v (%T), want an *agent.ModelError", err, err)
	}
	return e
}

// A collect keeps what was shown.
type collect struct{ text, reasoning []string }

func (c *collect) delta(d agent.Delta) {
	switch d.Kind {
	case agent.DeltaText:
		c.text = append(c.text, d.Text)
	case agent.DeltaReasoning:
		c.reasoning = append(c.reasoning, d.Text)
	}
}

// A tool is an agent.Tool made of a function.
type tool struct {
	name string
	run  func(ctx context.Context, inv *agent.Invocation) (agent.Result, error)
}

func (t tool) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: t.name, Schema: []byte(`{"type":"object"}`)}
}

func (t tool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	return t.run(ctx, inv)
}
