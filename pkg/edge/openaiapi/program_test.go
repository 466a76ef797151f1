package openaiapi

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/google/go-cmp/cmp"
)

// conversations say the same in each protocol.
var conversations = map[string]string{
	agent.ProtocolChat: `{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"go"},
		{"role":"assistant","content":"I look","tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{\"a\":1}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"x.txt"},
		{"role":"user","content":[{"type":"text","text":"and this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}],
		"tools":[{"type":"function","function":{"name":"ls","description":"lists","parameters":{"type":"object"}}}],
		"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},"parallel_tool_calls":false}`,
	agent.ProtocolResponses: `{"model":"m","instructions":"be brief","input":[{"role":"user","content":"go"},{"type":"reasoning","encrypted_content":"x"},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look"}]},{"type":"function_call","call_id":"c1","name":"ls","arguments":"{\"a\":1}"},
		{"type":"function_call_output","call_id":"c1","output":"x.txt"},
		{"role":"user","content":[{"type":"input_text","text":"and this?"},{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}],
		"tools":[{"type":"function","name":"ls","description":"lists","parameters":{"type":"object"}}],
		"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}},"parallel_tool_calls":false}`,
	agent.ProtocolAnthropic: `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"go"},{"role":"system","content":[{"type":"text","text":"be brief"}]},
		{"role":"assistant","content":[{"type":"thinking","thinking":"h","signature":"s"},{"type":"text","text":"I look"},{"type":"tool_use","id":"c1","name":"ls","input":{"a":1}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"x.txt"}]},
			{"type":"text","text":"and this?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}],
		"tools":[{"name":"ls","description":"lists","input_schema":{"type":"object"}}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true},
		"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}}`,
	agent.ProtocolGenerate: `{"systemInstruction":{"parts":[{"text":"be brief"}]},"contents":[{"role":"user","parts":[{"text":"go"}]},
		{"role":"model","parts":[{"text":"h","thought":true},{"text":"I look"},{"functionCall":{"id":"c1","name":"ls","args":{"a":1}},"thoughtSignature":"s"}]},
		{"role":"user","parts":[{"functionResponse":{"name":"ls","response":{"output":"x.txt"}}}]},
		{"role":"user","parts":[{"text":"and this?"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}],
		"tools":[{"functionDeclarations":[{"name":"ls","description":"lists","parametersJsonSchema":{"type":"object"}}]}],
		"generationConfig":{"temperature":1,"responseMimeType":"application/json","responseJsonSchema":{"type":"object"}}}`,
}

func TestProgramsSayTheSameInEveryProtocol(t *testing.T) {
	want := &agent.Request{
		System: "be brief", Output: json.RawMessage(`{"type":"object"}`),
		Messages: []agent.Message{
			agent.UserText("go"),
			{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("I look")}, Calls: []agent.ToolCall{{ID: "c1", Name: "ls", Args: `{"a":1}`}}},
			{Role: agent.RoleTool, Results: []agent.ToolResult{{CallID: "c1", Name: "ls", Parts: []agent.Part{agent.Text("x.txt")}}}},
			{Role: agent.RoleUser, Parts: []agent.Part{agent.Text("and this?"), {Kind: agent.PartMedia, MIME: "image/png", Data: []byte{0, 0, 0}}}},
		},
		Tools: []agent.ToolSpec{{Name: "ls", Description: "lists", Schema: json.RawMessage(`{"type":"object"}`)}},
	}
	for protocol, body := range conversations {
		c := ParseProgram(protocol, []byte(body))
		if c.Refused != nil {
			t.Errorf("%s: %v", protocol, c.Refused)
			continue
		}
		if diff := cmp.Diff(want, c.Request); diff != "" {
			t.Errorf("%s (-want +got):\n%s", protocol, diff)
		}
		for _, stream := range []bool{false, true} {
			c := ParseProgram(protocol, []byte(strings.Replace(body, `{`, `{"stream":`+map[bool]string{true: "true", false: "false"}[stream]+`,`, 1)))
			if protocol == agent.ProtocolGenerate {
				c.Generate("m", stream)
			}
			w := httptest.NewRecorder()
			c.Answer(w, func(delta func(agent.Delta)) (*agent.Response, error) {
				delta(agent.Delta{Kind: agent.DeltaText, Text: "I "})
				return &agent.Response{Finish: agent.FinishStop, Usage: agent.Usage{InputTokens: 71, OutputTokens: 17, CachedTokens: 11},
					Message: agent.Message{Parts: []agent.Part{agent.Text("I look again")}, Calls: []agent.ToolCall{{ID: "c2", Name: "ls", Args: `{"b":2}`}, {ID: "c3", Name: "ls", Args: `{}`}}}}, nil
			})
			checkProgramAnswer(t, protocol, stream, w.Body.String())
		}
	}
}

// checkProgramAnswer looks for what every answer has; only one call was permitted, where the
// protocol can say so.
func checkProgramAnswer(t *testing.T, protocol string, stream bool, got string) {
	t.Helper()
	want := map[string][]string{
		agent.ProtocolChat:      {`"tool_calls"`, `"id":"c2"`, `"name":"ls"`, `{\"b\":2}`, `"finish_reason":"tool_calls"`},
		agent.ProtocolResponses: {`"function_call"`, `"call_id":"c2"`, `"name":"ls"`, `{\"b\":2}`, `"input_tokens":71`, `"output_tokens":17`, `"cached_tokens":11`},
		agent.ProtocolAnthropic: {`"tool_use"`, `"id":"c2"`, `"name":"ls"`, `"stop_reason":"tool_use"`, `"input_tokens":60`, `"output_tokens":17`, `"cache_read_input_tokens":11`},
		agent.ProtocolGenerate:  {`"functionCall"`, `"id":"c2"`, `"name":"ls"`, `"args":{"b":2}`, `"finishReason":"STOP"`, `"promptTokenCount":71`, `"candidatesTokenCount":17`, `"cachedContentTokenCount":11`},
	}[protocol]
	if !stream {
		want = append(want, "I look again")
	}
	for _, part := range want {
		if !strings.Contains(got, part) {
			t.Errorf("%s, stream %t: the answer has no %s:\n%s", protocol, stream, part, got)
		}
	}
	if strings.Contains(got, "c3") != (protocol == agent.ProtocolGenerate) || strings.Contains(got, `"agents"`) {
		t.Errorf("%s, stream %t: the answer has two calls, or is that of an agent:\n%s", protocol, stream, got)
	}
}
