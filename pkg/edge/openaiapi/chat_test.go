package openaiapi_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/functool"
	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
)

var weather = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
	Name: "weather", Parameters: openai.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}},
})}

// clock is a tool of the agent.
var clock = functool.New("clock", "Tells the time.", func(context.Context, struct{}) (string, error) { return "noon", nil })

// traveller asks its own clock, then the client's tool weather for two cities at the same
// time, and answers with what it saw.
func traveller(req *agent.Request, say func(string)) (agent.Message, error) {
	last := req.Messages[len(req.Messages)-1]
	switch {
	case last.Role == agent.RoleUser:
		return calls(pieces("One moment.", say).Text(), "clock", `{}`), nil
	case last.Results[0].Name == "clock":
		return calls("", "weather", `{"city":"Oslo"}`, "weather", `{"city":"Rome"}`), nil
	}
	return pieces(seen(req), say), nil
}

func TestChatCompletion(t *testing.T) {
	s := serve(t, says("Hello, Ada."))
	got, err := s.client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: "helper", Temperature: openai.Float(0.3),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")}})
	if err != nil {
		t.Fatal(err)
	}
	if c := got.Choices[0]; c.Message.Content != "Hello, Ada." || c.FinishReason != "stop" || got.Model != "helper" || got.Object != "chat.completion" {
		t.Errorf("completion = %s", got.RawJSON())
	}
	if u := got.Usage; u.PromptTokens != 100 || u.CompletionTokens != 10 || u.TotalTokens != 110 || u.PromptTokensDetails.CachedTokens != 40 || u.CompletionTokensDetails.ReasoningTokens != 3 {
		t.Errorf("usage = %+v", u)
	}
	if !strings.Contains(got.RawJSON(), `"agents":{"status":"ok","session":"`) {
		t.Errorf("%s does not say how the run ended", got.RawJSON())
	}
}

func TestModels(t *testing.T) {
	s := serve(t, says(""))
	page, err := s.client.Models.List(t.Context())
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != "helper" {
		t.Errorf("models = %v, %v", page, err)
	}
	if one, err := s.client.Models.Get(t.Context(), "helper"); err != nil || one.ID != "helper" {
		t.Errorf("model = %v, %v", one, err)
	}
	if _, err := s.client.Models.Get(t.Context(), "other"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("unknown model: %v", err)
	}
}

// The stream has the text of all turns of the root, and the calls of the client's tools.
func TestChatStreamWithToolsOfTheClient(t *testing.T) {
	s := serve(t, model(traveller), clock)
	params := openai.ChatCompletionNewParams{Model: "helper", Tools: weather, Messages: []openai.ChatCompletionMessageParamUnion{
		openai.SystemMessage("Be brief."), openai.UserMessage("Where is it warm?")},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}}
	first := stream(t, s, params)
	message := first.Choices[0].Message
	if message.Content != "One moment." || first.Choices[0].FinishReason != "tool_calls" || len(message.ToolCalls) != 2 || first.Usage.PromptTokens != 200 {
		t.Fatalf("first = %+v", first)
	}
	params.Messages = append(params.Messages, message.ToParam())
	for _, c := range message.ToolCalls {
		params.Messages = append(params.Messages, openai.ToolMessage("sun in "+c.Function.Arguments, c.ID))
	}
	second := stream(t, s, params)
	want := `user: Where is it warm? //Instructions of the calling program:/Be brief.
assistant: One moment. clock{}
tool: clock=noon
assistant: weather{"city":"Oslo"} weather{"city":"Rome"}
tool: weather=sun in {"city":"Oslo"} weather=sun in {"city":"Rome"}`
	if diff := cmp.Diff(want, second.Choices[0].Message.Content); diff != "" {
		t.Errorf("what the model saw (-want +got):\n%s", diff)
	}
	if second.Choices[0].FinishReason != "stop" || second.Usage.PromptTokens != 100 {
		t.Errorf("second = %+v, want what was used since the first", second)
	}
	if n := len(s.runs); n != 1 {
		t.Errorf("%d runs, want one that both requests are for", n)
	}
	// The same conversation, in the next run: what only the server saw is not there.
	params.Messages = append(params.Messages, second.Choices[0].Message.ToParam(), openai.UserMessage("Thanks."))
	s.agents[0].Provider = model(func(req *agent.Request, say func(string)) (agent.Message, error) { return pieces(seen(req), say), nil })
	third := stream(t, s, params)
	if got := third.Choices[0].Message.Content; !strings.HasPrefix(got, `user: Where is it warm? //Instructions of the calling program:/Be brief.
assistant: One moment. weather{"city":"Oslo"} weather{"city":"Rome"}
tool: weather=sun in {"city":"Oslo"} weather=sun in {"city":"Rome"}
assistant: user: Where`) || !strings.HasSuffix(got, "user: Thanks.") {
		t.Errorf("the next run saw\n%s", got)
	}
}

// stream returns what a client puts together of the chunks.
func stream(t *testing.T, s *server, params openai.ChatCompletionNewParams) openai.ChatCompletionAccumulator {
	t.Helper()
	var acc openai.ChatCompletionAccumulator
	chunks := s.client.Chat.Completions.NewStreaming(t.Context(), params)
	for chunks.Next() {
		if !acc.AddChunk(chunks.Current()) {
			t.Fatalf("the chunk does not fit: %s", chunks.Current().RawJSON())
		}
	}
	if err := chunks.Err(); err != nil {
		t.Fatal(err)
	}
	return acc
}

// conversation is the body of a request with these messages.
func conversation(extra string, messages ...string) string {
	tool := `{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}`
	return `{"model":"helper","tools":[` + tool + `],` + extra + `"messages":[` + strings.Join(messages, ",") + `]}`
}

const question = `{"role":"user","content":"Where is it warm?"}`

// asked sends the question, and returns the message with the calls and their ids.
func asked(t *testing.T, s *server, extra string) (message string, ids []string) {
	t.Helper()
	status, body, _ := s.post(t, "/v1/chat/completions", conversation(extra, question))
	var got struct {
		Choices []struct {
			Message json.RawMessage
		}
	}
	var m struct {
		Calls []struct{ ID string } `json:"tool_calls"`
	}
	if json.Unmarshal([]byte(body), &got) != nil || len(got.Choices) != 1 || json.Unmarshal(got.Choices[0].Message, &m) != nil || len(m.Calls) == 0 {
		t.Fatalf("status %d, want calls: %s", status, body)
	}
	for _, c := range m.Calls {
		ids = append(ids, c.ID)
	}
	return string(got.Choices[0].Message), ids
}

func result(id, content string) string {
	return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%q}`, id, content)
}

func TestResultsOfCalls(t *testing.T) {
	s := serve(t, model(traveller), clock)
	message, ids := asked(t, s, "")
	complete := conversation("", question, message, result(ids[1], "cold"), result(ids[0], "warm"))

	t.Run("only some", func(t *testing.T) {
		status, body, _ := s.post(t, "/v1/chat/completions", conversation("", question, message, result(ids[0], "warm")))
		if status != 400 || !strings.Contains(body, "these have none: "+ids[1]) {
			t.Errorf("status %d: %s", status, body)
		}
	})
	t.Run("one twice", func(t *testing.T) {
		status, body, _ := s.post(t, "/v1/chat/completions", conversation("", question, message, result(ids[0], "warm"), result(ids[0], "hot"), result(ids[1], "cold")))
		if status != 400 || !strings.Contains(body, "two results") {
			t.Errorf("status %d: %s", status, body)
		}
	})
	t.Run("no such call", func(t *testing.T) {
		status, body, _ := s.post(t, "/v1/chat/completions", conversation("", question, result("call_x", "warm")))
		if status != 400 || !strings.Contains(body, "no message before it") {
			t.Errorf("status %d: %s", status, body)
		}
	})
	t.Run("all", func(t *testing.T) {
		status, body, _ := s.post(t, "/v1/chat/completions", complete)
		if status != 200 || !strings.Contains(body, "weather=warm weather=cold") || strings.Contains(body, "rebuilt") {
			t.Errorf("status %d: %s", status, body)
		}
	})
	// The run has ended: the client wants the same answer again, or another one.
	t.Run("again", func(t *testing.T) {
		status, body, _ := s.post(t, "/v1/chat/completions", complete)
		if status != 200 || !strings.Contains(body, "weather=warm weather=cold") || !strings.Contains(body, `"rebuilt":true`) || strings.Contains(body, "clock") {
			t.Errorf("status %d: %s", status, body)
		}
	})
}

// While a run continues with the results of calls, others for the same calls are refused.
func TestSecondResultOfACall(t *testing.T) {
	working, goOn := make(chan bool), make(chan bool)
	s := serve(t, model(func(req *agent.Request, say func(string)) (agent.Message, error) {
		if req.Messages[len(req.Messages)-1].Role == agent.RoleUser {
			return calls("", "weather", `{}`), nil
		}
		working <- true
		<-goOn
		return pieces("Done.", say), nil
	}))
	message, ids := asked(t, s, "")
	body := conversation("", question, message, result(ids[0], "warm"))
	first := make(chan int)
	go func() {
		status, _, _ := s.post(t, "/v1/chat/completions", body)
		first <- status
	}()
	<-working
	if status, body, _ := s.post(t, "/v1/chat/completions", body); status != 409 || !strings.Contains(body, "call_answered") {
		t.Errorf("second: status %d: %s", status, body)
	}
	close(goOn)
	if status := <-first; status != 200 {
		t.Errorf("first: status %d", status)
	}
}

// With "parallel_tool_calls": false, a response has one call; the others of the same answer
// come after it.
func TestOneCallAtATime(t *testing.T) {
	s := serve(t, model(traveller), clock)
	message, ids := asked(t, s, `"parallel_tool_calls":false,`)
	if len(ids) != 1 {
		t.Fatalf("calls = %v, want one", ids)
	}
	_, body, _ := s.post(t, "/v1/chat/completions", conversation("", question, message, result(ids[0], "warm")))
	_, id, _ := strings.Cut(body, `"id":"call_`)
	id, _, ok := strings.Cut(id, `"`)
	if !ok || "call_"+id == ids[0] {
		t.Fatalf("want the other call: %s", body)
	}
	second := fmt.Sprintf(`{"role":"assistant","tool_calls":[{"id":"call_%s","type":"function","function":{"name":"weather","arguments":"{}"}}]}`, id)
	_, body, _ = s.post(t, "/v1/chat/completions", conversation("", question, message, result(ids[0], "warm"), second, result("call_"+id, "cold")))
	if !strings.Contains(body, "weather=warm weather=cold") && !strings.Contains(body, "weather=cold weather=warm") {
		t.Errorf("answer = %s", body)
	}
}

// A call that the schema refuses does not reach the client, and the response does not
// wait for it.
func TestCallThatIsRefused(t *testing.T) {
	s := serve(t, model(func(req *agent.Request, say func(string)) (agent.Message, error) {
		if req.Messages[len(req.Messages)-1].Role == agent.RoleUser {
			return calls("", "weather", `{"city":1}`, "weather", `{"city":"Rome"}`), nil
		}
		return pieces("Done.", say), nil
	}))
	acc := stream(t, s, openai.ChatCompletionNewParams{Model: "helper", Tools: weather, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}})
	if list := acc.Choices[0].Message.ToolCalls; len(list) != 1 || list[0].Function.Arguments != `{"city":"Rome"}` {
		t.Errorf("calls = %+v", list)
	}
}

func TestMediaOfTheClient(t *testing.T) {
	s := serve(t, model(func(req *agent.Request, say func(string)) (agent.Message, error) { return pieces(seen(req), say), nil }))
	data := base64.StdEncoding.EncodeToString([]byte("abc"))
	status, body, _ := s.post(t, "/v1/chat/completions", `{"model":"helper","messages":[{"role":"user","content":[
		{"type":"image_url","image_url":{"url":"data:image/png;base64,`+data+`"}},{"type":"text","text":"What is this?"},
		{"type":"input_audio","input_audio":{"format":"mp3","data":"`+data+`"}},
		{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,`+data+`"}}]}]}`)
	if want := `user: What is this? <image/png  abc> <audio/mpeg  abc> <application/pdf a.pdf abc>`; status != 200 || !strings.Contains(body, want) {
		t.Errorf("status %d: %s, want %s", status, body, want)
	}
	status, body, _ = s.post(t, "/v1/chat/completions", `{"model":"helper","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://169.254.169.254/"}}]}]}`)
	if status != 400 || !strings.Contains(body, `"param":"messages[0].content[0].image_url"`) {
		t.Errorf("an address: status %d: %s", status, body)
	}
}

// An agent whose arguments are not a prompt gets those in the last message.
func TestAgentWithArguments(t *testing.T) {
	s := serve(t, says("x"))
	s.schema = `{"type":"object","properties":{"city":{"type":"string"}}}`
	status, body, _ := s.post(t, "/v1/chat/completions", `{"model":"helper","messages":[{"role":"user","content":"Rome"}]}`)
	if status != 400 || !strings.Contains(body, "takes arguments") {
		t.Errorf("status %d: %s", status, body)
	}
}

func TestRunThatWaitsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := local(t, model(traveller), clock)
		status, body := s.do("POST", "/v1/chat/completions", conversation("", question))
		if status != 200 || !strings.Contains(body, "tool_calls") {
			t.Fatalf("status %d: %s", status, body)
		}
		time.Sleep(5 * time.Minute)
		if got := s.ended(t, 0); got != agent.StatusInterrupted {
			t.Errorf("the run ended as %s", got)
		}
	})
}

// The run that waits for the longest time makes room for another.
func TestTooManyRunsWait(t *testing.T) {
	s := serve(t, model(traveller), clock)
	s.handler.MaxWaiting = 2
	for range 3 {
		asked(t, s, "")
	}
	if got := s.ended(t, 0); got != agent.StatusInterrupted {
		t.Errorf("the first run ended as %s", got)
	}
	s.handler.Close()
	for n := range 2 {
		if got := s.ended(t, n+1); got != agent.StatusInterrupted {
			t.Errorf("run %d ended as %s", n+1, got)
		}
	}
	if status, body, _ := s.post(t, "/v1/chat/completions", conversation("", question)); status != 503 {
		t.Errorf("after Close: status %d: %s", status, body)
	}
}
