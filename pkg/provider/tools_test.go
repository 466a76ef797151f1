package provider_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider"
	"github.com/agents-exe/agents/pkg/provider/anthropic"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
	"github.com/agents-exe/agents/pkg/provider/openai"
	"github.com/agents-exe/agents/pkg/provider/responses"
	"github.com/agents-exe/agents/pkg/provider/unparsed"
)

// A server of any protocol gets no schema of a tool that makes it refuse the request, and a
// tool without such a schema is left out.
func TestNoRequestHasACombinatorAtTheTopOfASchema(t *testing.T) {
	const good, bad = `{"type":"object","properties":{"a":{"oneOf":[{"type":"string"}]}},"oneOf":[{"required":["a"]}]}`, `{"anyOf":[{"type":"string"}]}`
	each(t, func(t *testing.T, pr protocol) {
		var body []byte
		p := pr.against(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ = io.ReadAll(r.Body)
			io.WriteString(w, pr.answer("hi"))
		})
		for _, tools := range [][]agent.ToolSpec{
			{{Name: "good", Description: "Is good.", Schema: json.RawMessage(good)}, {Name: "bad", Schema: json.RawMessage(bad)}},
			{{Name: "bad", Schema: json.RawMessage(bad)}},
		} {
			if _, err := p.Generate(t.Context(), &agent.Request{System: "s", Messages: modeltest.Hello.Messages, Tools: tools}, nil); err != nil {
				t.Fatal(err)
			}
			fitted := `{"properties":{"a":{"oneOf":[{"type":"string"}]}},"required":["a"],"type":"object"}`
			if !json.Valid(body) || strings.Contains(string(body), `"bad"`) || len(tools) == 2 && !strings.Contains(string(body), fitted) {
				t.Errorf("%s", body)
			}
		}
		outer := &provider.Retry{Provider: pr.open(p.Settings)}
		fitter, ok := agent.As[agent.ToolFitter](outer)
		if !ok {
			t.Fatal("the provider does not say what is refused")
		}
		if _, changed, err := fitter.FitTool(agent.ToolSpec{Schema: json.RawMessage(good)}); err != nil || len(changed) != 1 {
			t.Errorf("changed %q, %v", changed, err)
		}
		if _, _, err := fitter.FitTool(agent.ToolSpec{Schema: json.RawMessage(bad)}); err == nil {
			t.Error("a schema that no object satisfies is offered")
		}
	})
}

// Where the server cannot enforce the schema of the answer, the model gives it as the
// arguments of a tool, which the conversation does not show.
func TestTheAnswerTool(t *testing.T) {
	ollama := func(s modelhttp.Settings) agent.Provider { return &openai.Provider{Flavor: openai.Ollama, Settings: s} }
	for _, tt := range []struct {
		name, answer string
		open         func(modelhttp.Settings) agent.Provider
	}{
		{"chat", `{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"final_answer","arguments":"{\"n\":1}"}}]},"finish_reason":"tool_calls"}]}`, ollama},
		{"a call in the text", `{"choices":[{"message":{"content":"<tool_call>{\"name\":\"final_answer\",\"arguments\":{\"n\":1}}</tool_call>"},"finish_reason":"stop"}]}`,
			func(s modelhttp.Settings) agent.Provider { return &unparsed.Provider{Provider: ollama(s)} }},
		{"responses", `{"object":"response","output":[{"type":"function_call","id":"fc_1","call_id":"a","name":"final_answer","arguments":"{\"n\":1}"}]}`,
			func(s modelhttp.Settings) agent.Provider { return &responses.Provider{Settings: s, OutputAlone: true} }},
		{"anthropic", `{"type":"message","content":[{"type":"tool_use","id":"a","name":"final_answer","input":{"n":1}}],"stop_reason":"tool_use"}`,
			func(s modelhttp.Settings) agent.Provider { return &anthropic.Provider{Settings: s} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var bodies []string
			pr := protocol{open: tt.open}
			p := pr.against(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				bodies = append(bodies, string(body))
				io.WriteString(w, tt.answer)
			})
			req := &agent.Request{Messages: modeltest.Hello.Messages, Output: json.RawMessage(`{"type":"object","properties":{"n":{"minimum":1}}}`),
				Tools: []agent.ToolSpec{{Name: "look", Schema: json.RawMessage(`{"type":"object"}`)}}}
			shown := ""
			resp, err := p.Generate(t.Context(), req, func(d agent.Delta) { shown += d.Text })
			if err != nil || resp.Message.Text() != `{"n":1}` || len(resp.Message.Calls) > 0 || shown != `{"n":1}` {
				t.Fatalf("answer %+v, %v, shown %q", resp, err, shown)
			}
			req.Messages = append(slices.Clip(req.Messages), resp.Message, agent.UserText("more"))
			if _, err := p.Generate(t.Context(), req, nil); err != nil {
				t.Fatal(err)
			}
			for _, body := range bodies {
				if strings.Count(body, "final_answer") != 1 || strings.Count(body, `"minimum":1`) != 1 || strings.Contains(body, "json_schema") {
					t.Errorf("the schema is not that of the tool alone: %s", body)
				}
			}
			if !strings.Contains(bodies[1], `{\"n\":1}`) || strings.Contains(bodies[1], "fc_1") {
				t.Errorf("the answer is not sent as text: %s", bodies[1])
			}
		})
	}
}

// Ids of calls that another server wrote fit those of each server: a call and its result have
// the same in every request, and two calls never one.
func TestLongIDsOfCallsAreReplaced(t *testing.T) {
	limits := map[string]int{"openai-v1 chat": 40, "openai-v1 responses": 64, "openai-compatible responses": 64, "anthropic anthropic": 64, "mistral-v1 chat": 9}
	var ids []string
	for _, n := range []int{1, 9, 39, 40, 41, 45, 63, 64, 65, 100, 256} {
		ids = append(ids, strings.Repeat("x", n-1)+"1", strings.Repeat("x", n-1)+"2")
	}
	req := &agent.Request{Messages: []agent.Message{agent.UserText("go"), {Role: agent.RoleAssistant}, {Role: agent.RoleTool}}}
	for _, id := range ids {
		req.Messages[1].Calls = append(req.Messages[1].Calls, agent.ToolCall{ID: id, Name: "t", Args: "{}"})
		req.Messages[2].Results = append(req.Messages[2].Results, agent.ToolResult{CallID: id, Name: "t", Parts: []agent.Part{agent.Text("r")}})
	}
	for _, r := range rows() {
		var bodies []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			body, _ := io.ReadAll(q.Body)
			bodies = append(bodies, string(body))
			io.WriteString(w, r.turn)
		}))
		transport := &http.Transport{}
		settings := modelhttp.Settings{Model: "m", Client: &http.Client{Transport: hosts{server.Listener.Addr().String(), transport}}}
		if r.flavor == "openai-compatible" {
			settings.BaseURL = server.URL
		}
		p := r.provider(settings)
		for range 2 {
			if _, err := p.Generate(t.Context(), req, nil); err != nil {
				t.Fatal(err)
			}
		}
		transport.CloseIdleConnections()
		server.Close()
		calls := sentIDs(bodies[0], `"(?:id|call_id)":"([^"]*)"`)
		results := sentIDs(bodies[0], `"(?:tool_call_id|tool_use_id|call_id)":"([^"]*)"`)
		if r.protocol == "responses" { // both are call_id
			calls, results = calls[:len(calls)/2], results[len(results)/2:]
		}
		if !slices.Equal(calls, results) || bodies[0] != bodies[1] || !json.Valid([]byte(bodies[0])) {
			t.Errorf("%s %s: calls %q, results %q", r.flavor, r.protocol, calls, results)
		}
		limit := limits[r.flavor+" "+r.protocol]
		seen := map[string]bool{}
		for i, id := range calls {
			if seen[id] || limit > 0 && len(id) > limit || (limit == 0 || len(ids[i]) <= limit && limit != 9) && id != ids[i] {
				t.Errorf("%s %s: the id %q became %q", r.flavor, r.protocol, ids[i], id)
			}
			seen[id] = true
		}
		if len(calls) != len(ids) {
			t.Errorf("%s %s: %d calls", r.flavor, r.protocol, len(calls))
		}
	}
}

func sentIDs(body, pattern string) (ids []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(body, -1) {
		ids = append(ids, m[1])
	}
	return ids
}
