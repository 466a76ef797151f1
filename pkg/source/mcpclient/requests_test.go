package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// TestServerAsks lets a server of the library ask for everything, in both ways
// that the protocol has had, over standard input and output and over HTTP.
func TestServerAsks(t *testing.T) {
	for _, c := range []struct{ version, over string }{
		{"2025-11-25", "stdio"}, {"2026-07-28", "stdio"}, {"2025-11-25", "http"}, {"2026-07-28", "http"},
	} {
		t.Run(c.version+" "+c.over, func(t *testing.T) {
			r := newRig(t, "library")
			if c.over == "http" {
				r.overHTTP(newLibraryServer())
			}
			r.server.Protocol = c.version
			r.opts.Roots = []string{"/a b", "/c"}
			inv := invocation("{}")
			r.opts.Elicit = func(_ context.Context, q Elicitation) (Answer, error) {
				want := Elicitation{Server: "fake", Message: "Name?", Schema: json.RawMessage(`{"type":"object"}`), Call: inv}
				if diff := cmp.Diff(want, q, cmpopts.IgnoreUnexported(agent.Invocation{})); diff != "" {
					t.Errorf("the question (-want +got):\n%s", diff)
				}
				return Answer{Action: Accept, Content: json.RawMessage(`{"name":"Ann","n":9007199254740993}`)}, nil
			}
			r.opts.Sample = func(_ context.Context, s Sampling) (Sampled, error) {
				want := Sampling{Server: "fake", System: "Be brief.", MaxTokens: 7, Messages: []agent.Message{agent.UserText("Hi")}, Call: inv}
				if diff := cmp.Diff(want, s, cmpopts.IgnoreUnexported(agent.Invocation{})); diff != "" {
					t.Errorf("the request (-want +got):\n%s", diff)
				}
				return Sampled{Message: agent.Message{Parts: []agent.Part{agent.Text("Hello")}}, Model: "m1", Finish: agent.FinishLength}, nil
			}
			res, err := r.tools(r.open())["question"].Call(t.Context(), inv)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{
				`"action":"accept","content":{"name":"Ann","n":9007199254740993}`,
				`"role":"assistant","content":{"type":"text","text":"Hello"},"model":"m1","stopReason":"maxTokens"`,
				`"roots":[{"uri":"file:///a%20b","name":"a b"},{"uri":"file:///c","name":"c"}]`,
			} {
				if !sharesJSON(res.Text(), want) {
					t.Errorf("the server received\n%s\nwhich lacks\n%s", res.Text(), want)
				}
			}
		})
	}
}

// sharesJSON reports whether every member of want, the inside of an object, is
// somewhere in text.
func sharesJSON(text, want string) bool {
	w, _ := jsondoc.Decode([]byte("{" + want + "}"))
	v, err := jsondoc.Decode([]byte(text))
	return err == nil && contains(v, w.(map[string]any))
}

func contains(v any, want map[string]any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	all := true
	for k, w := range want {
		got, _ := json.Marshal(m[k])
		b, _ := json.Marshal(w)
		// The library's server reads numbers as floats.
		all = all && strings.ReplaceAll(string(got), "9007199254740992", "9007199254740993") == string(b)
	}
	for _, inner := range m {
		all = all || contains(inner, want)
	}
	return all
}

// TestNobodyToAsk: without functions that answer, questions are declined at once
// and what was not offered is refused.
func TestNobodyToAsk(t *testing.T) {
	r := newRig(t, "legacy")
	r.server.Dir = r.dir
	set := r.open()
	tools := r.tools(set)
	for ask, want := range map[string]string{
		`{"method":"elicitation/create","params":{"message":"Name?","requestedSchema":{"type":"object"}}}`: `{"action":"decline"}`,
		`{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":5}}`:                       `{"code":-32601,"message":"method not found: sampling/createMessage"}`,
		`{"method":"roots/list"}`:     `{"code":-32601,"message":"method not found: roots/list"}`,
		`{"method":"ping"}`:           `{}`,
		`{"method":"tasks/mine"}`:     `{"code":-32601,"message":"method not found: tasks/mine"}`,
		`{"method":"initialize"}`:     `{"code":-32601,"message":"method not found: initialize"}`,
		`{"method":"tools/call"}`:     `{"code":-32601,"message":"method not found: tools/call"}`,
		`{"method":"completion/now"}`: `{"code":-32601,"message":"method not found: completion/now"}`,
	} {
		if !strings.Contains(ask, "params") {
			ask = strings.TrimSuffix(ask, "}") + `,"params":{}}`
		}
		res, err := tools["ask"].Call(t.Context(), invocation(ask))
		if err != nil || res.Text() != want {
			t.Errorf("%s\nis answered %s, %v\nwant        %s", ask, res.Text(), err, want)
		}
	}
}

// TestNaggingEnds: a server is answered a bounded number of times in a call.
func TestNaggingEnds(t *testing.T) {
	r := newRig(t, "legacy")
	var asked atomic.Int32
	r.opts.Elicit = func(context.Context, Elicitation) (Answer, error) {
		asked.Add(1)
		return Answer{Action: Decline}, nil
	}
	nag := r.tools(r.open())["nag"]
	res, err := nag.Call(t.Context(), invocation("{}"))
	if err != nil || !strings.Contains(res.Text(), "not answered") || asked.Load() > maxAsked {
		t.Errorf("Call = %q, %v after %d questions; want a refusal after %d", res.Text(), err, asked.Load(), maxAsked)
	}
}

func TestSamplingKeepsToTheProtocol(t *testing.T) {
	r := newRig(t, "legacy")
	r.opts.Sample = func(_ context.Context, s Sampling) (Sampled, error) {
		return Sampled{Message: agent.Message{Parts: []agent.Part{agent.Text("one STOP two END")}}, Model: "m"}, nil
	}
	ask := r.tools(r.open())["ask"]
	for params, want := range map[string]string{
		`"stopSequences":["END","STOP",""]`: `{"content":{"text":"one ","type":"text"},"model":"m","role":"assistant","stopReason":"stopSequence"}`,
		`"stopSequences":["no"]`:            `{"content":{"text":"one STOP two END","type":"text"},"model":"m","role":"assistant","stopReason":"endTurn"}`,
		`"tools":[{"name":"x"}]`:            `{"code":-32603,"message":"tools in a request for sampling are not supported"}`,
		`"messages":[{"role":"user","content":{"type":"resource_link","uri":"file:///x","name":"x"}}]`: `{"code":-32603,"message":"message 1: content of type \"resource_link\" is not supported"}`,
	} {
		if !strings.Contains(params, "messages") {
			params += `,"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}]`
		}
		res, err := ask.Call(t.Context(), invocation(`{"method":"sampling/createMessage","params":{"maxTokens":5,`+params+`}}`))
		if err != nil || res.Text() != want {
			t.Errorf("%s\nis answered %s, %v\nwant        %s", params, res.Text(), err, want)
		}
	}
}

// TestRootsAreDeclaredWhereTheyAreNamed: a server that sees the capability asks, and
// replaces the folders that the person gave it by the answer.
func TestRootsAreDeclaredWhereTheyAreNamed(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		for roots, want := range map[string]bool{"": false, "/a": true} {
			r := newRig(t, "dual", "FAKE_PARAMS=1")
			r.server.Protocol = version
			if roots != "" {
				r.opts.Roots = []string{roots}
			}
			r.tools(r.open())
			if got := strings.Contains(r.notes(), `"roots":`); got != want {
				t.Errorf("%s: with the roots %q they are declared: %v, want %v\n%s", version, roots, got, want, r.notes())
			}
		}
	}
}

// TestRootsAreSentBeforeTheFirstCall: a call that comes before them would be answered
// with other folders.
func TestRootsAreSentBeforeTheFirstCall(t *testing.T) {
	r := newRig(t, "roots")
	for range 5000 { // so many that a goroutine would be late
		r.opts.Roots = append(r.opts.Roots, "/a")
	}
	for range 5 {
		set := r.open()
		if res, err := r.tools(set)["echo"].Call(t.Context(), invocation("{}")); err != nil || res.Text() != "{}" {
			t.Errorf("Call = %s, %v", res.Text(), err)
		}
		set.Close(t.Context())
	}
	if notes := r.notes(); strings.Count(notes, "roots\ntools/call\ncall echo") != 5 {
		t.Errorf("the roots did not come before the calls:\n%s", notes)
	}
}

// TestNoStateIsMadeUp: a server that gave no requestState gets none.
func TestNoStateIsMadeUp(t *testing.T) {
	r := newRig(t, "modern")
	res, err := r.tools(r.open())["later"].Call(t.Context(), invocation("{}"))
	if err != nil || !strings.Contains(res.Text(), `"inputResponses":{}`) || strings.Contains(res.Text(), "requestState") {
		t.Errorf("Call = %s, %v", res.Text(), err)
	}
}

// TestTraceparent: a server gets the trace of a call in every round of it, and no
// trace where there is none.
func TestTraceparent(t *testing.T) {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, traced := range []bool{false, true} {
		inv := invocation("{}")
		if traced {
			inv.Trace = trace
		}
		r := newRig(t, "modern")
		res, err := r.tools(r.open())["later"].Call(t.Context(), inv)
		if err != nil || strings.Contains(res.Text(), `"traceparent":"`+trace+`"`) != traced || strings.Contains(res.Text(), "traceparent") != traced {
			t.Errorf("Call with a trace: %v, params = %s, %v", traced, res.Text(), err)
		}
	}
}

func TestQuestionEndsWithItsCall(t *testing.T) {
	r := newRig(t, "legacy")
	asked, ended := make(chan struct{}), make(chan error, 1)
	r.opts.Elicit = func(ctx context.Context, _ Elicitation) (Answer, error) {
		close(asked)
		<-ctx.Done()
		ended <- ctx.Err()
		return Answer{}, ctx.Err()
	}
	ask := r.tools(r.open())["ask"]
	ctx, cancel := context.WithCancel(t.Context())
	done := calling(ask, ctx, `{"method":"elicitation/create","params":{"message":"Name?","requestedSchema":{}}}`)
	<-asked
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Call: %v", err)
	}
	<-ended
}

// TestQuestionDuringClose: Close waits for the function that answers.
func TestQuestionDuringClose(t *testing.T) {
	r := newRig(t, "legacy")
	asked := make(chan struct{})
	var over bool
	r.opts.Elicit = func(ctx context.Context, _ Elicitation) (Answer, error) {
		close(asked)
		<-ctx.Done()
		over = true
		return Answer{}, ctx.Err()
	}
	set := r.open()
	ask := r.tools(set)["ask"]
	done := calling(ask, context.WithoutCancel(t.Context()), `{"method":"elicitation/create","params":{"message":"Name?","requestedSchema":{}}}`)
	<-asked
	set.Close(t.Context())
	if !over {
		t.Error("Close returned before the function did")
	}
	// The server may still hear that it gets no answer, and answer the call.
	if err := <-done; err != nil && err.Error() != "MCP server fake: the server was closed" {
		t.Errorf("Call: %v", err)
	}
}

func TestResources(t *testing.T) {
	for _, mode := range []string{"legacy", "modern"} {
		r := newRig(t, mode, "FAKE_HAS=resources")
		tools := r.tools(r.open())
		for name, effects := range map[string]agent.Effects{"list_resources": agent.EffectsNone, "read_resource": agent.EffectsNone, "echo": ""} {
			if tools[name] == nil || tools[name].Spec().Effects != effects {
				t.Fatalf("%s: the tool %s is %+v", mode, name, tools[name])
			}
		}
		res, err := tools["list_resources"].Call(t.Context(), invocation("{}"))
		if want := "file:///a.txt · a · the first\nfile:///b.txt · text/plain · b\n"; err != nil || res.Text() != want {
			t.Errorf("%s: list = %q, %v; want %q", mode, res.Text(), err, want)
		}
		res, err = tools["read_resource"].Call(t.Context(), invocation(`{"uri":"file:///a.txt"}`))
		want := []agent.Part{agent.Text("Resource file:///a.txt (text/plain):\nhello"), agent.Text("Resource file:///a.png (image/png):"),
			{Kind: agent.PartMedia, MIME: "image/png", Name: "a.png", Data: []byte{0, 1, 2}}}
		if diff := cmp.Diff(want, res.Parts); diff != "" || err != nil {
			t.Errorf("%s: read: %v (-want +got):\n%s", mode, err, diff)
		}
		if _, err := tools["read_resource"].Call(t.Context(), invocation(`{}`)); err == nil || err.Error() != `MCP server fake: the argument "uri" is missing` {
			t.Errorf("%s: read without uri: %v", mode, err)
		}
	}
}

func TestPrompts(t *testing.T) {
	r := newRig(t, "legacy", "FAKE_HAS=resources")
	set := r.open()
	prompts, err := set.Prompts(t.Context())
	want := []Prompt{{Name: "ask"}, {Name: "review", Description: "reviews", Arguments: []PromptArgument{{Name: "file", Required: true}}}}
	if diff := cmp.Diff(want, prompts); diff != "" || err != nil {
		t.Errorf("Prompts: %v (-want +got):\n%s", err, diff)
	}
	messages, err := set.Prompt(t.Context(), "review", map[string]string{"file": "x.go"})
	wantMessages := []agent.Message{agent.UserText("Review x.go"), {Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("Yes.")}}}
	if diff := cmp.Diff(wantMessages, messages); diff != "" || err != nil {
		t.Errorf("Prompt: %v (-want +got):\n%s", err, diff)
	}
	if !strings.Contains(r.notes(), `"arguments":{"file":"x.go"}`) {
		t.Errorf("the server received\n%s", r.notes())
	}
	if prompts, err := newRig(t, "legacy").open().Prompts(t.Context()); len(prompts) != 0 || err != nil {
		t.Errorf("Prompts of a server without any: %v, %v", prompts, err)
	}
}

func TestSamplingContent(t *testing.T) {
	many := json.RawMessage(`[{"type":"text","text":"What is this?"},{"type":"image","data":"AAEC","mimeType":"image/png"}]`)
	image := agent.Part{Kind: agent.PartMedia, MIME: "image/png", Data: []byte{0, 1, 2}}
	parts, err := samplingParts(many)
	if diff := cmp.Diff([]agent.Part{agent.Text("What is this?"), image}, parts); diff != "" || err != nil {
		t.Errorf("samplingParts: %v (-want +got):\n%s", err, diff)
	}
	for _, c := range []struct {
		parts []agent.Part
		want  string
	}{
		{[]agent.Part{agent.Text("a"), image, agent.Text("b")}, `{"text":"ab","type":"text"}`},
		{[]agent.Part{{Kind: agent.PartReasoning, Text: "hm"}, image}, `{"data":"AAEC","mimeType":"image/png","type":"image"}`},
		{[]agent.Part{{Kind: agent.PartMedia, MIME: "audio/wav", Data: []byte{0}}}, `{"data":"AA==","mimeType":"audio/wav","type":"audio"}`},
		{[]agent.Part{{Kind: agent.PartMedia, MIME: "video/mp4"}}, `{"text":"","type":"text"}`},
	} {
		if b, err := json.Marshal(samplingContent(agent.Message{Parts: c.parts})); err != nil || string(b) != c.want {
			t.Errorf("samplingContent(%v) = %s, %v; want %s", c.parts, b, err, c.want)
		}
	}
}
