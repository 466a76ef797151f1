package openaiapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/openaiapi"
)

// FuzzRequests checks that every request is answered or refused with an error of the
// client, and that what is accepted becomes a run that the agent answers.
func FuzzRequests(f *testing.F) {
	f.Add(false, conversation("", question))
	f.Add(false, conversation(`"stream":true,"stream_options":{"include_usage":true},`, question, `{"role":"assistant","content":"hi"}`, `{"role":"system","content":"be brief"}`, question))
	f.Add(false, conversation("", question, `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"weather","arguments":"{"}}]}`, result("a", "warm"), question))
	f.Add(false, conversation("", `{"role":"assistant","content":"hi"}`, `{"role":"assistant","tool_calls":[{"id":"a"}]}`, result("a", "")))
	f.Add(false, conversation("", `{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,YQ=="}}]}`))
	f.Add(true, `{"model":"helper","input":"hi","instructions":"be brief"}`)
	f.Add(true, `{"model":"helper","stream":true,"input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"a","name":"b","arguments":"{}"},{"type":"function_call_output","call_id":"a","output":"x"}]}`)
	f.Add(true, `{"model":"helper","input":[{"type":"compaction","encrypted_content":"`+items(`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"b"}]},{"role":"user","content":"c"}]`)+`"},{"role":"user","content":"hi"}]}`)
	f.Fuzz(func(t *testing.T, responses bool, body string) {
		h := &host{agents: []*agent.Agent{{Slug: "helper", Provider: says("yes")}}}
		s := &localServer{host: h, handler: &openaiapi.Handler{Host: h}}
		defer s.handler.Close()
		paths := []string{"/v1/chat/completions"}
		if responses {
			paths = []string{"/v1/responses", "/v1/responses/compact"}
		}
		for _, path := range paths {
			status, answer := s.do("POST", path, body)
			switch {
			case status == 200 && (json.Valid([]byte(answer)) || strings.Contains(answer, "data: ")):
			case status >= 400 && status < 500 && strings.HasPrefix(answer, `{"error":{"message":"`) && json.Valid([]byte(answer)):
				if strings.Contains(answer, "read the history") {
					t.Errorf("%s: the messages were accepted, and are no history: %s", path, answer)
				}
			default:
				t.Errorf("%s: status %d: %s", path, status, answer)
			}
		}
	})
}
