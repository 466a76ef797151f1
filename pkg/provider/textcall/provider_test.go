package textcall

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
)

// A speaker is a model that says one text after the other, and keeps what it is asked.
type speaker struct {
	t        *testing.T
	says     []string
	finish   agent.Finish // of the first answer
	requests []agent.Request
}

func (s *speaker) Generate(_ context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	if len(req.Tools) > 0 {
		s.t.Errorf("the request has %d tools", len(req.Tools))
	}
	for _, m := range req.Messages {
		if m.Role == agent.RoleTool || len(m.Calls)+len(m.Results) > 0 {
			s.t.Errorf("the request has the message %+v", m)
		}
	}
	s.requests = append(s.requests, *req)
	text := s.says[0]
	s.says = s.says[1:]
	for _, r := range text {
		delta(agent.Delta{Kind: agent.DeltaText, Text: string(r)})
	}
	resp := &agent.Response{Message: agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{{Kind: agent.PartReasoning, Text: "hm"}, agent.Text(text)}}, Finish: s.finish}
	s.finish = ""
	return resp, nil
}

// echo is a tool that returns its arguments.
type echo string

func (e echo) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: string(e), Description: "Repeats.", Schema: json.RawMessage(`{"type":"object","properties":{"x":{"type":"integer"}}}`)}
}

func (e echo) Call(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
	return agent.TextResult("args " + inv.Call.Args), nil
}

// converse runs a conversation. It returns the model, what was shown and the events.
func converse(t *testing.T, s *speaker) (shown string, events []agent.Event) {
	t.Helper()
	s.t = t
	r := &runner.Runner{Agent: &agent.Agent{Slug: "a", System: "Be kind.", Provider: &Provider{Provider: s, Dialect: JSON{}}, Toolsets: []agent.Toolset{agent.ToolList{echo("echo"), echo("other")}}},
		Observe: func(e agent.Event) {
			events = append(events, e)
			if e.Kind == agent.EventText {
				shown += e.Text
			}
		}}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	return shown, events
}

func texts(messages []agent.Message) (list []string) {
	for _, m := range messages {
		list = append(list, string(m.Role)+": "+m.Text())
	}
	return list
}

const call = "```json\n{\"tool\": \"echo\", \"args\": {\"x\": 1}}\n```\n"

func TestAConversationInText(t *testing.T) {
	s := &speaker{says: []string{"First.\n" + call + call + "Ignored.", "Then {\n```json\n{\"a\": 1}\n```\nit is done."}}
	shown, events := converse(t, s)
	if want := "First.\nThen {\n```json\n{\"a\": 1}\n```\nit is done."; shown != want {
		t.Errorf("shown: %q, want %q", shown, want)
	}
	first, second := s.requests[0], s.requests[1]
	if !strings.HasPrefix(first.System, "Be kind.\n\n# Tools\n") || !strings.Contains(first.System, "\necho: Repeats.\n{\"type\":\"object\"") || first.System != second.System {
		t.Errorf("system prompt: %s", first.System)
	}
	want := []string{"user: go", "assistant: First.\n" + call + call,
		"user: [result of echo]\nargs {\"x\": 1}\n\n[result of echo]\nargs {\"x\": 1}\n\n[What you wrote after the last call was ignored. End your answer with the call.]"}
	if diff := cmp.Diff(want, texts(second.Messages)); diff != "" {
		t.Errorf("second request (-want +got):\n%s", diff)
	}
	for _, e := range events {
		if e.Kind == agent.EventAnswer && e.Turn == 1 && (e.Message.Text() != "First.\n" || len(e.Message.Calls) != 2) {
			t.Errorf("the answer is recorded as %+v", e.Message)
		}
		if e.Kind == agent.EventEnd && !strings.HasSuffix(e.Text, "it is done.") {
			t.Errorf("the run ends with %+v", e)
		}
	}
}

func TestRequestsOnlyGrow(t *testing.T) {
	s := &speaker{says: []string{call, "text " + call, call + "after", "end"}}
	converse(t, s)
	for i := range s.requests[1:] {
		before, now := s.requests[i].Messages, s.requests[i+1].Messages
		if !reflect.DeepEqual(before, now[:len(before)]) || len(now) != len(before)+2 || s.requests[i].System != s.requests[i+1].System {
			t.Errorf("request %d: %q\nrequest %d: %q", i+1, texts(before), i+2, texts(now))
		}
	}
}

func TestCallsOfACutAnswerDoNotRun(t *testing.T) {
	s := &speaker{finish: agent.FinishLength, says: []string{strings.TrimSuffix(call, "\n```\n"), "end"}}
	converse(t, s)
	if got := s.requests[1].Messages[2].Text(); !strings.Contains(got, "not run: the answer broke off") {
		t.Errorf("the model reads %q", got)
	}
}

func TestACallThatCannotBeReadFails(t *testing.T) {
	s := &speaker{says: []string{"```json\n{\"tool\": \"echo\", \"args\": {\"x\": \"1}}\n```", "end"}}
	converse(t, s)
	if got := s.requests[1].Messages[2].Text(); !strings.HasPrefix(got, "[result of echo]\nerror: nothing ran: ") {
		t.Errorf("the model reads %q", got)
	}
}

func TestRolesAlternate(t *testing.T) {
	p := &Provider{Dialect: JSON{}}
	got := p.flatten([]agent.Message{
		agent.UserText("go"),
		{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{Name: "echo", Args: `{"x":1}`}, {Name: "echo", Args: `{`}}}, // of a model with function calling
		{Role: agent.RoleTool, Results: []agent.ToolResult{{Name: "echo", Parts: []agent.Part{agent.Text("1")}}, {Name: "echo", Failed: true, Parts: []agent.Part{agent.Text("error: no")}}}},
		agent.UserText("a message meanwhile"),
	})
	want := []string{"user: go", "assistant: \n```json\n{\"tool\": \"echo\", \"args\": {\"x\":1}}\n```\n\n```json\n{\"tool\": \"echo\", \"args\": \"{\"}\n```\n",
		"user: [result of echo]\n1\n\n[result of echo]\nerror: no\n\na message meanwhile"}
	if diff := cmp.Diff(want, texts(got)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestAnswersWithCallsStay(t *testing.T) {
	resp := &agent.Response{Message: agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(call)}, Calls: []agent.ToolCall{{Name: "other"}}}}
	p := &Provider{Provider: fixed{resp}, Dialect: JSON{}}
	req := &agent.Request{Tools: []agent.ToolSpec{echo("echo").Spec()}}
	for _, change := range []func(){func() {}, func() { resp.Message.Calls, req.Summary = nil, true }, func() { req.Summary, req.Tools = false, nil }} {
		change()
		if got, err := p.Generate(t.Context(), req, func(agent.Delta) {}); got != resp || err != nil {
			t.Errorf("Generate = %+v, %v, want the answer as it is", got, err)
		}
	}
}

type fixed struct{ resp *agent.Response }

func (f fixed) Generate(context.Context, *agent.Request, func(agent.Delta)) (*agent.Response, error) {
	return f.resp, nil
}

// Text that begins like a call is shown in the end if no calls are read from it.
func TestAnswersThatAreNotReadAreShown(t *testing.T) {
	tools := []agent.ToolSpec{echo("echo").Spec()}
	for name, c := range map[string]struct {
		req   agent.Request
		calls []agent.ToolCall
	}{"no tools": {}, "a summary": {req: agent.Request{Tools: tools, Summary: true}}, "calls of the protocol": {agent.Request{Tools: tools}, []agent.ToolCall{{Name: "echo"}}}} {
		for _, text := range []string{"So:\n```json\n{\"a\": 1}\n```\nis it.", call, "{", "So:\n``", "It is sunny.\n\n"} {
			for _, piece := range []int{1, 7, 1000} {
				shown := ""
				p := &Provider{Dialect: JSON{}, Provider: pieces{piece, agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(text)}, Calls: c.calls}}}
				if _, err := p.Generate(t.Context(), &c.req, func(d agent.Delta) { shown += d.Text }); err != nil || shown != text {
					t.Errorf("%s, in pieces of %d: shown is %q, %v, want %q", name, piece, shown, err, text)
				}
			}
		}
	}
}

// pieces is a model that answers with a message, in pieces of so many bytes.
type pieces struct {
	size    int
	message agent.Message
}

func (p pieces) Generate(_ context.Context, _ *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	for piece := range slices.Chunk([]byte(p.message.Text()), p.size) {
		delta(agent.Delta{Kind: agent.DeltaText, Text: string(piece)})
	}
	return &agent.Response{Message: p.message}, nil
}

func TestARetryShowsTheAnswerAgain(t *testing.T) {
	var shown []string
	d := &display{dialect: JSON{}, delta: func(d agent.Delta) { shown = append(shown, string(d.Kind)+" "+d.Text) }}
	for _, piece := range []agent.Delta{{Kind: agent.DeltaText, Text: "a\n``"}, {Kind: agent.DeltaRetry}, {Kind: agent.DeltaText, Text: "b\n``"}, {Kind: agent.DeltaReasoning, Text: "r"}, {Kind: agent.DeltaText, Text: "`go\nc"}} {
		d.piece(piece)
	}
	d.rest()
	if diff := cmp.Diff([]string{"text a\n", "retry ", "text b\n", "reasoning r", "text ```go\n", "text c"}, shown); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
}

// TestHostileTexts: texts that are costly for a careless reader. Eight times the length takes eight
// times as long, and 64 times if the time grows with the square.
func TestHostileTexts(t *testing.T) {
	tools := []agent.ToolSpec{echo("echo").Spec()}
	for _, piece := range []string{" ", "\t", "`", "```json", "{", "\n{", "\n[\"", "\n{\"tool\":\"", "```json\n{\"tool\": \"echo\", \"args\": {\"x\": \"", "x: {", "{\"function\":", "[", "words and "} {
		read := func(length int) time.Duration {
			text := strings.Repeat(piece, length/len(piece))
			var shown strings.Builder
			d := &display{dialect: JSON{}, delta: func(d agent.Delta) { shown.WriteString(d.Text) }}
			begin := time.Now()
			for i := range text {
				d.piece(agent.Delta{Kind: agent.DeltaText, Text: text[i : i+1]})
			}
			JSON{}.Read(text, tools)
			d.rest()
			if shown.String() != text {
				t.Errorf("%q many times: %d of %d bytes were shown", piece, shown.Len(), len(text))
			}
			return time.Since(begin)
		}
		const length = 8_000
		// A busy machine may stop one of the two for a while.
		for try := 1; ; try++ {
			short, long := read(length), read(8*length)
			if long < 24*short || long < 200*time.Millisecond {
				break
			}
			if try == 5 {
				t.Errorf("%q many times: %d bytes took %v, 8 times as many %v", piece, length, short, long)
				break
			}
		}
	}
}

// What costs little in a short answer does not keep a call in it from being found.
func TestCallAfterBrokenLists(t *testing.T) {
	text := strings.Repeat("[\"a\n", 100) + "\n```json\n{\"tool\": \"echo\", \"args\": {}}\n```\n"
	if a := (JSON{}).Read(text, []agent.ToolSpec{echo("echo").Spec()}); len(a.Calls) != 1 {
		t.Errorf("Read(%.20q…) = the calls %v, want one", text, a.Calls)
	}
}
