package openaiapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

func input(s string) responses.ResponseNewParamsInputUnion {
	return responses.ResponseNewParamsInputUnion{OfString: openai.String(s)}
}

var echo = model(func(req *agent.Request, say func(string)) (agent.Message, error) { return pieces(seen(req), say), nil })

func TestResponsesContinueEarlierOnes(t *testing.T) {
	s := serve(t, echo)
	first, err := s.client.Responses.New(t.Context(), responses.ResponseNewParams{Model: "helper", Input: input("one"), Instructions: openai.String("Be brief.")})
	if err != nil {
		t.Fatal(err)
	}
	want := "user: one //Instructions of the calling program:/Be brief."
	if first.OutputText() != want || first.Status != "completed" || first.Usage.InputTokens != 100 || first.Usage.OutputTokensDetails.ReasoningTokens != 3 {
		t.Errorf("first = %s", first.RawJSON())
	}
	// The instructions do not hold for the next request. Two can continue the same.
	next := func(id, text string) (*responses.Response, error) {
		return s.client.Responses.New(t.Context(), responses.ResponseNewParams{Model: "helper", Input: input(text), PreviousResponseID: openai.String(id)})
	}
	for _, text := range []string{"two", "three"} {
		got, err := next(first.ID, text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("user: one\nassistant: "+want+"\nuser: "+text, got.OutputText()); diff != "" {
			t.Errorf("next (-want +got):\n%s", diff)
		}
	}
	private, err := s.client.Responses.New(t.Context(), responses.ResponseNewParams{Model: "helper", Input: input("one"), Store: openai.Bool(false)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := next(private.ID, "two"); err == nil {
		t.Error("the response was stored")
	}
}

func TestResponsesMakeRoom(t *testing.T) {
	s := serve(t, says(strings.Repeat("a", 2000)))
	s.handler.StoreBytes = 20_000
	var ids []string
	for range 8 {
		r, err := s.client.Responses.New(t.Context(), responses.ResponseNewParams{Model: "helper", Input: input("one")})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	after := func(id string) error {
		_, err := s.client.Responses.New(t.Context(), responses.ResponseNewParams{Model: "helper", Input: input("two"), PreviousResponseID: openai.String(id)})
		return err
	}
	if after(ids[0]) == nil {
		t.Error("the oldest response is still there")
	}
	if err := after(ids[7]); err != nil {
		t.Error(err)
	}
}

func TestResponsesStream(t *testing.T) {
	s := serve(t, model(traveller), clock)
	tools := []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: "weather", Parameters: map[string]any{"type": "object"}}}}
	params := responses.ResponseNewParams{Model: "helper", Tools: tools, Input: input("Where is it warm?")}
	names, first := streamed(t, s, params)
	want := []string{
		"response.created", "response.in_progress",
		"response.output_item.added", "response.content_part.added", "response.output_text.delta",
		"response.output_text.done", "response.content_part.done", "response.output_item.done",
		"response.output_item.added", "response.function_call_arguments.delta", "response.function_call_arguments.done", "response.output_item.done",
		"response.output_item.added", "response.function_call_arguments.delta", "response.function_call_arguments.done", "response.output_item.done",
		"response.completed",
	}
	if diff := cmp.Diff(want, slices.Compact(names)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if first.OutputText() != "One moment." || len(first.Output) != 3 || first.Output[2].Name != "weather" {
		t.Fatalf("first = %s", first.RawJSON())
	}
	params.PreviousResponseID = openai.String(first.ID)
	var items responses.ResponseInputParam
	for _, it := range first.Output[1:] {
		items = append(items, responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{CallID: openai.String(it.CallID),
			Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String("sun in " + it.Arguments.OfString)}}})
	}
	params.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: items}
	_, second := streamed(t, s, params)
	saw := `user: Where is it warm?
assistant: One moment. clock{}
tool: clock=noon
assistant: weather{"city":"Oslo"} weather{"city":"Rome"}
tool: weather=sun in {"city":"Oslo"} weather=sun in {"city":"Rome"}`
	if diff := cmp.Diff(saw, second.OutputText()); diff != "" || len(s.runs) != 1 {
		t.Errorf("%d runs; the model saw (-want +got):\n%s", len(s.runs), diff)
	}
	// The run is gone, and the conversation of the stored response is there. The next one
	// has what only the server saw, too.
	_, again := streamed(t, s, params)
	if diff := cmp.Diff(saw, again.OutputText()); diff != "" || len(s.runs) != 2 {
		t.Errorf("%d runs; the model saw (-want +got):\n%s", len(s.runs), diff)
	}
	params.PreviousResponseID, params.Input = openai.String(second.ID), input("Thanks.")
	s.agents[0].Provider = echo
	_, third := streamed(t, s, params)
	if got := third.OutputText(); !strings.HasPrefix(got, saw+"\nassistant: ") || !strings.HasSuffix(got, "\nuser: Thanks.") {
		t.Errorf("the next run saw\n%s", got)
	}
}

// streamed returns the names of the events and the response in the last.
func streamed(t *testing.T, s *server, params responses.ResponseNewParams) (names []string, last responses.Response) {
	t.Helper()
	events := s.client.Responses.NewStreaming(t.Context(), params)
	text := ""
	for events.Next() {
		e := events.Current()
		if e.SequenceNumber != int64(len(names)) {
			t.Errorf("%s has the number %d, want %d", e.Type, e.SequenceNumber, len(names))
		}
		names = append(names, e.Type)
		if e.Type == "response.output_text.delta" {
			text += e.Delta
		}
		last = e.Response
	}
	if err := events.Err(); err != nil {
		t.Fatal(err)
	}
	if last.OutputText() != text {
		t.Errorf("the pieces are %q, the text is %q", text, last.OutputText())
	}
	return names, last
}

// Without stored responses, the client sends the items of the conversation.
func TestResponsesOfAClientThatKeepsTheConversation(t *testing.T) {
	s := serve(t, model(traveller), clock)
	_, body, _ := s.post(t, "/v1/responses", `{"model":"helper","store":false,"input":[{"role":"developer","content":"Be brief."},{"role":"user","content":[{"type":"input_text","text":"Where?"}]}],
		"tools":[{"type":"function","name":"weather","parameters":{"type":"object"}}]}`)
	var first struct{ Output []map[string]any }
	if json.Unmarshal([]byte(body), &first) != nil || len(first.Output) != 3 {
		t.Fatalf("first = %s", body)
	}
	items := []map[string]any{{"role": "user", "content": "Where?"}}
	items = append(items, first.Output...)
	for _, it := range first.Output[1:] {
		items = append(items, map[string]any{"type": "function_call_output", "call_id": it["call_id"], "output": "sun"})
	}
	next, _ := json.Marshal(map[string]any{"model": "helper", "store": false, "input": items})
	_, body, _ = s.post(t, "/v1/responses", string(next))
	if !strings.Contains(body, "clock=noon") || !strings.Contains(body, "weather=sun weather=sun") || len(s.runs) != 1 {
		t.Errorf("%d runs; second = %s", len(s.runs), body)
	}
}

func TestRefusal(t *testing.T) {
	s := serve(t, model(func(*agent.Request, func(string)) (agent.Message, error) {
		return agent.Message{}, fmt.Errorf("%w: not my work", agent.ErrRefused)
	}))
	_, body, _ := s.post(t, "/v1/chat/completions", conversation("", question))
	if !strings.Contains(body, `"finish_reason":"content_filter"`) || !strings.Contains(body, `"refusal":"`) || !strings.Contains(body, `"status":"refused"`) {
		t.Errorf("chat = %s", body)
	}
	_, got := streamed(t, s, responses.ResponseNewParams{Model: "helper", Input: input("hi"), Reasoning: shared.ReasoningParam{Effort: "low"}})
	if got.Status != "incomplete" || got.IncompleteDetails.Reason != "content_filter" || got.Output[0].Content[0].Refusal == "" {
		t.Errorf("response = %s", got.RawJSON())
	}
}

// A response, also one in an event, has the keys that the schema of Open Responses requires
// (public/openapi/openapi.json, version 2026-04-24), and no null where the schema forbids it.
func TestResponsesHaveTheirRequiredKeys(t *testing.T) {
	values := []string{"id", "object", "created_at", "status", "model", "output", "tools", "tool_choice", "truncation", "parallel_tool_calls", "text", "top_p",
		"presence_penalty", "frequency_penalty", "top_logprobs", "temperature", "store", "background", "service_tier", "metadata"}
	nullable := []string{"completed_at", "incomplete_details", "previous_response_id", "instructions", "error", "reasoning", "usage", "max_output_tokens", "max_tool_calls", "safety_identifier", "prompt_cache_key"}
	check := func(name string, r map[string]any) {
		t.Helper()
		for _, key := range append(slices.Clone(values), nullable...) {
			if v, there := r[key]; !there || v == nil && slices.Contains(values, key) {
				t.Errorf("%s: %s is missing or null: %v", name, key, r)
			}
		}
		if (r["completed_at"] != nil) != (r["status"] == "completed") {
			t.Errorf("%s: status %v, completed_at %v", name, r["status"], r["completed_at"])
		}
		for _, tool := range r["tools"].([]any) {
			for _, key := range []string{"type", "name", "description", "parameters", "strict"} {
				if _, there := tool.(map[string]any)[key]; !there {
					t.Errorf("%s: a tool has no %s: %v", name, key, tool)
				}
			}
		}
		format := r["text"].(map[string]any)["format"].(map[string]any)
		for _, key := range []string{"name", "description", "schema", "strict"} {
			if _, there := format[key]; there != (format["type"] == "json_schema") {
				t.Errorf("%s: the format is %v", name, format)
			}
		}
	}
	short := int64(1)
	for name, c := range map[string]struct {
		model model
		turns *int64
		more  string
	}{
		"text":       {model(says("{}")), nil, ``},
		"null":       {model(says("{}")), nil, `,"tools":null,"tool_choice":null,"text":{"format":null}`},
		"tools":      {model(says("{}")), nil, `,"tools":[{"type":"function","name":"a"},{"type":"function","name":"b","strict":true,"parameters":{"type":"object"}}]`},
		"schema":     {model(says("{}")), nil, `,"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}}`},
		"object":     {model(says("{}")), nil, `,"text":{"format":{"type":"json_object"}}`},
		"call":       {model(func(*agent.Request, func(string)) (agent.Message, error) { return calls("", "a", "{}"), nil }), nil, `,"tools":[{"type":"function","name":"a"}]`},
		"incomplete": {model(func(*agent.Request, func(string)) (agent.Message, error) { return calls("So far.", "clock", "{}"), nil }), &short, ``},
		"failed": {model(func(_ *agent.Request, say func(string)) (agent.Message, error) {
			say("Well, ")
			return agent.Message{}, fmt.Errorf("no route")
		}), nil, ``},
	} {
		s := serve(t, c.model, clock)
		s.agents[0].Budget.Turns = c.turns
		for _, stream := range []string{"false", "true"} {
			status, body, _ := s.post(t, "/v1/responses", `{"model":"helper","input":"hi","stream":`+stream+c.more+`}`)
			seen := 0
			for line := range strings.Lines(body) {
				var r map[string]any
				line, event := strings.CutPrefix(line, "data: ")
				if json.Unmarshal([]byte(line), &r) != nil {
					continue
				}
				if event {
					r, _ = r["response"].(map[string]any)
				}
				if r != nil && status == 200 {
					check(name+", stream "+stream, r)
					seen++
				}
			}
			if strings.HasSuffix(body, "\n\ndata: [DONE]\n\n") != (stream == "true") {
				t.Errorf("%s, stream %s: the end of %s", name, stream, body)
			}
			if want := map[string]int{"false": 1, "true": 3}[stream]; seen != want && (name != "failed" || stream == "true") {
				t.Errorf("%s, stream %s: %d responses, want %d: %s", name, stream, seen, want, body)
			}
		}
	}
}

// TestAResponseHasTheSchemasOfItsRequest: digit by digit.
func TestAResponseHasTheSchemasOfItsRequest(t *testing.T) {
	s := serve(t, model(says("{}")), clock)
	const schema = `{"type":"object","properties":{"b":{"maximum":9007199254740993},"a":{"const":1.10}}}`
	_, body, _ := s.post(t, "/v1/responses", `{"model":"helper","input":"hi","tools":[{"type":"function","name":"a","parameters":`+schema+`}],"text":{"format":{"type":"json_schema","name":"n","schema":`+schema+`}}}`)
	if strings.Count(body, schema) != 2 {
		t.Errorf("the response has other schemas: %s", body)
	}
}
