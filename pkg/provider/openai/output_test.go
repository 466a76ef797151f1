package openai

import (
	"encoding/json"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

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
		{name: "unknown server", flavor: DeepSeek, schema: open},
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
