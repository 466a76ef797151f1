package provider_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider/anthropic"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
	"github.com/agents-exe/agents/pkg/provider/openai"
	"github.com/agents-exe/agents/pkg/provider/responses"
	"github.com/agents-exe/agents/pkg/provider/unparsed"
)

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
