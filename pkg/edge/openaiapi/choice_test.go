package openaiapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// A tool that must be called is called, with arguments that its schema accepts.
func TestToolChoice(t *testing.T) {
	const pick = `{"type":"function","function":{"name":"pick","description":"Picks.","parameters":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"required":["n"],"$defs":{"n":{"type":"integer"}}}}}`
	const other = `{"type":"function","function":{"name":"other","parameters":{"type":"object","properties":{}}}}`
	for _, c := range []struct {
		name, tools, choice string
		answers             []string // of the model
		want                string
	}{
		{"named", pick + "," + other, `{"type":"function","function":{"name":"pick"}}`, []string{`{"n":"one"}`, `{"n":1}`}, `pick {"n":1}`},
		{"required of one", pick, `"required"`, []string{`{"n":1}`}, `pick {"n":1}`},
		{"required of several", pick + "," + other, `"required"`, []string{`{"name":"pick","arguments":{}}`, `{"name":"nothing","arguments":{}}`, `{"name":"pick","arguments":{"n":2}}`}, `pick {"n":2}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := 0
			s := serve(t, model(func(_ *agent.Request, say func(string)) (agent.Message, error) {
				n++
				return pieces(c.answers[min(n, len(c.answers))-1], say), nil
			}))
			for _, stream := range []string{"", `"stream":true,`} {
				n = 0
				status, body, _ := s.post(t, "/v1/chat/completions", conversation(`"tools":[`+c.tools+`],"tool_choice":`+c.choice+`,`+stream, question))
				name, args, _ := strings.Cut(c.want, " ")
				quoted, _ := json.Marshal(args)
				if status != 200 || !strings.Contains(body, `"function":{"arguments":`+string(quoted)+`,"name":"`+name+`"}`) || !strings.Contains(body, `"finish_reason":"tool_calls"`) || n != len(c.answers) {
					t.Errorf("status %d after %d answers: %s", status, n, body)
				}
			}
		})
	}
}

// The result of a call that was required begins a run which has the call.
func TestResultOfARequiredCall(t *testing.T) {
	s := serve(t, model(func(req *agent.Request, say func(string)) (agent.Message, error) {
		if len(req.Messages) == 1 {
			return pieces(`{"n":1}`, say), nil
		}
		return pieces(seen(req), say), nil
	}))
	tools := []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: "pick", Parameters: map[string]any{"type": "object"}}}}
	first, err := s.client.Responses.New(t.Context(), responses.ResponseNewParams{Model: "helper", Input: input("hi"), Tools: tools,
		ToolChoice: responses.ResponseNewParamsToolChoiceUnion{OfFunctionTool: &responses.ToolChoiceFunctionParam{Name: "pick"}}})
	if err != nil {
		t.Fatal(err)
	}
	call := first.Output[0]
	_, body, _ := s.post(t, "/v1/responses", `{"model":"helper","previous_response_id":"`+first.ID+`","input":[{"type":"function_call_output","call_id":"`+call.CallID+`","output":"done"}]}`)
	var second responses.Response
	if err := json.Unmarshal([]byte(body), &second); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("user: hi\nassistant: pick{\"n\":1}\ntool: pick=done", second.OutputText()); diff != "" {
		t.Errorf("the model saw (-want +got):\n%s\n%s", diff, body)
	}
}

// The text ends before the first stop text, wherever the pieces of a stream are divided.
func TestStop(t *testing.T) {
	for _, c := range []struct{ text, stop, want string }{
		{"One. Two. END of it", `"END"`, "One. Two. "},
		{"One. Two. EN", `"END"`, "One. Two. EN"},
		{"aaab", `"aab"`, "a"},
		{"one two three", `["three","two"]`, "one "},
		{"one", `[]`, "one"},
		{"one", `["",null]`, "one"},
		{"END", `"END"`, ""},
		{"Größe ändern", `"ä"`, "Größe "},
	} {
		t.Run(c.text+" "+c.stop, func(t *testing.T) {
			s := serve(t, says(c.text))
			_, body, _ := s.post(t, "/v1/chat/completions", conversation(`"stop":`+c.stop+`,`, question))
			var whole openai.ChatCompletion
			if err := json.Unmarshal([]byte(body), &whole); err != nil || len(whole.Choices) != 1 || whole.Choices[0].Message.Content != c.want || whole.Choices[0].FinishReason != "stop" {
				t.Errorf("%v: %s, want %q", err, body, c.want)
			}
			_, body, _ = s.post(t, "/v1/chat/completions", conversation(`"stream":true,"stop":`+c.stop+`,`, question))
			var streamed strings.Builder
			for line := range strings.SplitSeq(body, "\n") {
				var chunk openai.ChatCompletionChunk
				if text, ok := strings.CutPrefix(line, "data: {"); ok && json.Unmarshal([]byte("{"+text), &chunk) == nil && len(chunk.Choices) > 0 {
					streamed.WriteString(chunk.Choices[0].Delta.Content)
				}
			}
			if streamed.String() != c.want {
				t.Errorf("the stream has %q, want %q", streamed.String(), c.want)
			}
		})
	}
}

// A stored response can be read, with its input, and deleted.
func TestStoredResponses(t *testing.T) {
	s := serve(t, says("Hello."))
	made, err := s.client.Responses.New(t.Context(), responses.ResponseNewParams{Model: "helper", Input: input("hi")})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.client.Responses.Get(t.Context(), made.ID, responses.ResponseGetParams{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(made.RawJSON()), strings.TrimSpace(got.RawJSON())); diff != "" {
		t.Errorf("the stored response (-made +stored):\n%s", diff)
	}
	items, err := s.client.Responses.InputItems.List(t.Context(), made.ID, responses.InputItemListParams{})
	if err != nil || len(items.Data) != 1 || items.Data[0].Type != "message" || items.Data[0].ID == "" || !strings.Contains(items.Data[0].RawJSON(), `{"text":"hi","type":"input_text"}`) {
		t.Errorf("input = %s, %v", items.RawJSON(), err)
	}
	if err := s.client.Responses.Delete(t.Context(), made.ID); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"", "/input_items"} {
		if resp, err := s.Client().Get(s.URL + "/v1/responses/" + made.ID + path); err != nil || resp.StatusCode != 404 {
			t.Errorf("after the deletion: %v, %v", resp, err)
		} else {
			resp.Body.Close()
		}
	}
	if err := s.client.Responses.Delete(t.Context(), made.ID); err == nil {
		t.Error("it was deleted twice")
	}
	if s.handler.StoredBytes() != 0 {
		t.Errorf("%d bytes are counted for nothing", s.handler.StoredBytes())
	}
}

// The pages of the input of a response.
func TestPagesOfInput(t *testing.T) {
	s := local(t, says("Hello."))
	var items []string
	for _, id := range strings.Split("abcde", "") {
		items = append(items, `{"id":"`+id+`","role":"user","content":"hi"}`)
	}
	_, body := s.do("POST", "/v1/responses", `{"model":"helper","input":[`+strings.Join(items, ",")+`]}`)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(body), &made); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"": "edcba", "?order=asc": "abcde", "?limit=2": "ed+", "?limit=2&after=d": "cb+", "?limit=5": "edcba", "?order=asc&after=e": "",
		"?after=x": "400", "?limit=0": "400", "?limit=101": "400", "?limit=x": "400",
	} {
		status, body := s.do("GET", "/v1/responses/"+made.ID+"/input_items"+query, "")
		var page struct {
			Data    []struct{ ID string }
			HasMore bool `json:"has_more"`
		}
		got := "400"
		if status == 200 {
			got = ""
			_ = json.Unmarshal([]byte(body), &page)
			for _, it := range page.Data {
				got += it.ID
			}
			if page.HasMore {
				got += "+"
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", query, body, want)
		}
	}
}

// A request with results that asks for an answer of another form than the run that waits for
// them gets it, in a new run. One with the same form, and other stop texts, continues the run.
func TestResultsWithAnotherForm(t *testing.T) {
	const tools = `"tools":[{"type":"function","function":{"name":"weather"}},{"type":"function","function":{"name":"pick","parameters":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}}],`
	const pick = `"tool_choice":{"type":"function","function":{"name":"pick"}},`
	const object = `"response_format":{"type":"json_object"},`
	for _, c := range []struct{ name, first, second, want string }{
		{"a call", "", pick, `"function":{"arguments":"{\"n\":1}","name":"pick"}`},
		{"an object", "", object, `"content":"{\"n\":1}"`},
		{"a text", object, "", `"content":"{\"n\":1}"`},
		{"an object again", object, object, `"content":"{\"n\":1}"`},
		{"a stop text", "", `"stop":"1",`, `"content":"{\"n\":"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, model(func(req *agent.Request, say func(string)) (agent.Message, error) {
				if len(req.Messages) == 1 {
					return calls("", "weather", `{}`), nil
				}
				return pieces(`{"n":1}`, say), nil
			}))
			_, body, _ := s.post(t, "/v1/chat/completions", conversation(tools+c.first, question))
			var first openai.ChatCompletion
			if err := json.Unmarshal([]byte(body), &first); err != nil || len(first.Choices) != 1 || len(first.Choices[0].Message.ToolCalls) != 1 {
				t.Fatalf("%v: %s", err, body)
			}
			id := first.Choices[0].Message.ToolCalls[0].ID
			call := `{"role":"assistant","tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"weather","arguments":"{}"}}]}`
			_, body, _ = s.post(t, "/v1/chat/completions", conversation(tools+c.second, question, call, result(id, "warm")))
			same := c.first == c.second || strings.HasPrefix(c.second, `"stop"`)
			if !strings.Contains(body, c.want) || strings.Contains(body, `"rebuilt":true`) == same {
				t.Errorf("%s; want %s, in the same run: %v", body, c.want, same)
			}
		})
	}
}
