package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/google/go-cmp/cmp"
)

// The file has what agents-exe reads of its own older versions: turns that had not
// ended with completedResponses, results of any form, usage under other names.
func TestAgentsExeOlderForms(t *testing.T) {
	data, err := os.ReadFile("testdata/agents-exe-older.json")
	if err != nil {
		t.Fatal(err)
	}
	events, err := collect(Read(bytes.NewReader(data)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replayed(events); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, turn := range turnsOf(all(events)) {
		for _, p := range turn.Prompts {
			got = append(got, fmt.Sprintf("user: %s (%d parts)", p.Text(), len(p.Parts)))
		}
		u := turn.Answer.Usage
		got = append(got, fmt.Sprintf("turn %d: %s (%d in, %d cached, %d out)", turn.N, turn.Answer.Message.Text(), u.InputTokens, u.CachedTokens, u.OutputTokens))
		for _, c := range turn.Calls {
			got = append(got, fmt.Sprintf("%s = %s %s(failed %v)", c.ID, c.Result.Parts[0].Kind, c.Result.Text(), c.Failed()))
		}
	}
	want := []string{
		"user: try them (1 parts)", "turn 1:  (0 in, 0 cached, 0 out)",
		"c1 = text wrapped(failed false)", `c2 = text {"rows":2}(failed false)`, `c3 = text {"type":"text","content":7}(failed false)`,
		`c4 = text {"type":"media","url":"x"}(failed false)`, `c5 = text {"type":"mixed","count":2}(failed false)`, "c6 = text [1,null](failed false)",
		"turn 2: Six kinds. (50 in, 0 cached, 5 out)", "user: listen (2 parts)", "turn 3:  (70 in, 64 cached, 8 out)",
		"d1 = media (failed false)", "d2 = text " + errNoResult + "(failed true)",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// An older version wrote the contents of a turn and their byte counts as a pair.
func TestAgentsExeTurnsWithByteCounts(t *testing.T) {
	const file = `{"sessionId":"s","turnId":"t","turns":[
{"tag":"LlmTurn","contents":[{"llmResponse":{"responseText":"done","responseThinking":null,"rawResponse":{}},"llmToolCalls":[]},{"stepInputBytes":0}]},
{"tag":"UserTurn","contents":[{"userPrompt":"","userTools":[],"userQuery":"go","userToolResponses":[]},null]}]}`
	events, err := collect(Read(strings.NewReader(file)))
	if err != nil {
		t.Fatal(err)
	}
	if turn := turnsOf(all(events))[0]; turn.Prompts[0].Text() != "go" || turn.Answer.Message.Text() != "done" {
		t.Errorf("got %+v", turn)
	}
}

func TestAgentsExeSaysThatATrackedCallFailed(t *testing.T) {
	const file = `{"sessionId":"s","turnId":"t","turns":[
{"tag":"PartialUserTurn","contents":{"userPrompt":"","userTools":[],"trackedToolCalls":[{"id":"1","call":{"id":"a","function":{"name":"x","arguments":""}},"state":"Failed","policy":{},"result":{"type":"text","content":"no disk"}}]}},
{"tag":"LlmTurn","contents":{"llmResponse":{"responseText":null,"responseThinking":null,"rawResponse":{}},"llmToolCalls":[{"id":"a","function":{"name":"x","arguments":""}}]}},
{"tag":"UserTurn","contents":{"userPrompt":"","userTools":[],"userQuery":"go","userToolResponses":[]}}]}`
	events, err := collect(Read(strings.NewReader(file)))
	if err != nil {
		t.Fatal(err)
	}
	if c := turnsOf(all(events))[0].Calls[0]; !c.Failed() || c.Result.Text() != "no disk" {
		t.Errorf("the call's result is %+v", c.Result)
	}
}

// The tools that an imported session has activated are there when it continues.
func TestAgentsExeToolgroups(t *testing.T) {
	const file = `{"sessionId":"s","turnId":"t","turns":[
{"tag":"UserTurn","contents":{"userPrompt":"","userTools":[],"userToolResponses":[[{"id":"a"},"Toolgroup 'files' activated"],[{"id":"b"},"Toolgroup 'web' deactivated"],[{"id":"c"},"ok"]]}},
{"tag":"LlmTurn","contents":{"llmResponse":{"responseText":null,"responseThinking":null,"rawResponse":{}},"llmToolCalls":[
 {"id":"a","function":{"name":"meta_activate_tool","arguments":"{\"toolgroup\":\"files\"}"}},{"id":"b","function":{"name":"meta_deactivate_tool","arguments":"{\"toolgroup\":\"web\"}"}},{"id":"c","function":{"name":"other","arguments":"{\"toolgroup\":\"no\"}"}}]}},
{"tag":"UserTurn","contents":{"userPrompt":"","userTools":[],"userQuery":"go","userToolResponses":[]}}]}`
	events, err := collect(Read(strings.NewReader(file)))
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := replayed(events)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(agent.Toolgroups{"files": true, "web": false}, sessions[events[0].Session].Toolgroups); d != "" {
		t.Error(d)
	}
}

// What agents-exe asks of a file, by its FromJSON instances and by what it sends
// to a model when it resumes: see exeProblems.
func TestAgentsExeCanReadWhatIsWritten(t *testing.T) {
	events := sample()
	for i := range events {
		if m := events[i].Message; events[i].Kind == agent.EventMessage && m != nil {
			with := *m
			with.Parts = append(append([]agent.Part{}, m.Parts...), agent.Part{Kind: agent.PartMedia, MIME: "image/png", Data: []byte("hello")})
			events[i].Message = &with
		}
	}
	interrupted := []agent.Event{
		{Kind: agent.EventSession, Session: "s", Agent: "a"},
		{Kind: agent.EventMessage, Session: "s", Message: &agent.Message{Role: agent.RoleUser, Parts: []agent.Part{agent.Text("go")}}},
		{Kind: agent.EventAnswer, Session: "s", Turn: 1, Message: &agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "1", Name: "draw"}}}},
		{Kind: agent.EventCallEnded, Session: "s", Turn: 1, N: 1, CallID: "1", Tool: "draw", Key: "s.1.1",
			Result: &agent.ToolResult{CallID: "1", Name: "draw", Parts: []agent.Part{{Kind: agent.PartMedia, MIME: "image/png", Data: []byte("hello")}}}},
		{Kind: agent.EventMessage, Session: "s", Message: &agent.Message{Role: agent.RoleUser, Parts: []agent.Part{agent.Text("and then?")}}},
		{Kind: agent.EventAnswer, Session: "s", Turn: 2, Message: &agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("done")}}},
	}
	for name, list := range map[string][]agent.Event{"whole": events, "a prompt behind results": interrupted, "no turn": interrupted[:1]} {
		var b bytes.Buffer
		if err := ToAgentsExe(&b, all(list)); err != nil {
			t.Fatal(err)
		}
		for _, problem := range exeProblems(b.Bytes()) {
			t.Errorf("%s: %s\n%s", name, problem, b.String())
		}
	}
}

// A exeCheck goes through a file as agents-exe does.
type exeCheck struct{ problems []string }

func exeProblems(data []byte) []string {
	var c exeCheck
	var file any
	if err := json.Unmarshal(data, &file); err != nil {
		return []string{err.Error()}
	}
	c.text(file, "sessionId")
	c.text(file, "turnId")
	for _, key := range []string{"sessionId", "turnId"} {
		if id, _ := file.(map[string]any)[key].(string); uuid(id) != id {
			c.add("%s %q is no UUID", key, id)
		}
	}
	for _, turn := range c.list(file, "turns") {
		contents := c.member(turn, "contents")
		switch tag := c.text(turn, "tag"); tag {
		case "UserTurn":
			c.user(contents)
		case "LlmTurn":
			c.answer(contents)
		default:
			c.add("a turn %q", tag)
		}
	}
	return c.problems
}

func (c *exeCheck) user(u any) {
	c.text(u, "userPrompt")
	for _, tool := range c.list(u, "userTools") {
		if c.text(tool, "tag") != "V1" {
			c.add("a tool that is not V1")
		}
		v1 := c.member(tool, "contents")
		c.text(v1, "name")
		c.text(v1, "llmName")
		c.text(v1, "description")
		c.list(v1, "properties")
		c.member(v1, "raw")
	}
	responses := c.list(u, "userToolResponses")
	for _, r := range responses {
		pair, ok := r.([]any)
		if !ok || len(pair) != 2 {
			c.add("a response that is no pair: %v", r)
			continue
		}
		c.call(pair[0])
		c.response(pair[1])
	}
	switch q := c.member(u, "userQuery").(type) {
	case nil:
		return
	case map[string]any:
		c.text(q, "text")
		for _, m := range c.list(q, "media") {
			c.media(m)
		}
	case string:
	default:
		c.add("userQuery is %v", q)
	}
	if len(responses) > 0 {
		c.add("a turn with results and a query: the query would be sent in front of the results")
	}
}

func (c *exeCheck) answer(l any) {
	r := c.member(l, "llmResponse")
	c.member(r, "responseText")
	c.member(r, "responseThinking")
	choices := c.list(c.member(r, "rawResponse"), "choices") // what is sent when it resumes
	if len(choices) == 0 {
		c.add("rawResponse has no choices")
		return
	}
	c.member(c.member(choices[0], "message"), "content")
	for _, call := range c.list(l, "llmToolCalls") {
		c.call(call)
	}
}

func (c *exeCheck) call(v any) {
	c.text(v, "id")
	f := c.member(v, "function")
	c.text(f, "name")
	c.text(f, "arguments")
}

func (c *exeCheck) response(v any) {
	switch kind := c.text(v, "type"); kind {
	case "text":
		c.text(v, "content")
	case "mixed":
		for _, p := range c.list(v, "parts") {
			if c.text(p, "type") == "media" {
				c.media(c.member(p, "content"))
			} else {
				c.text(p, "content")
			}
		}
	default:
		c.add("a response %q", kind)
	}
}

func (c *exeCheck) media(v any) {
	c.text(v, "mimeType")
	c.text(v, "base64Data")
	c.member(v, "filename") // null will do
}

func (c *exeCheck) add(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *exeCheck) member(v any, key string) any {
	o, ok := v.(map[string]any)
	got, there := o[key]
	if !ok || !there {
		c.add("%q is missing in %v", key, v)
	}
	return got
}

func (c *exeCheck) text(v any, key string) string {
	s, ok := c.member(v, key).(string)
	if !ok {
		c.add("%q is no text in %v", key, v)
	}
	return s
}

func (c *exeCheck) list(v any, key string) []any {
	l, ok := c.member(v, key).([]any)
	if !ok {
		c.add("%q is no list in %v", key, v)
	}
	return l
}
