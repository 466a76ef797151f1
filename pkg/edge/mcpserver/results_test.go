package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/mcpserver"
)

// writes is a tool that writes its result as the protocol has it.
func writes(name string, result func(args map[string]json.RawMessage) string) agent.Tool {
	t := newTool(name, func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
		var args map[string]json.RawMessage
		if err := json.Unmarshal([]byte(inv.Call.Args), &args); err != nil {
			return agent.Result{}, err
		}
		return agent.Result{Parts: []agent.Part{{Kind: agent.PartMedia, MIME: mcpserver.ResultType, Data: []byte(result(args))}}}, nil
	})
	t.spec.Schema = json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"},"inputResponses":{"type":"object"},"requestState":{"type":"string"}}}`)
	return t
}

// asker asks for a name and greets it.
func asker(args map[string]json.RawMessage) string {
	if string(args["requestState"]) == `"asked"` && strings.Contains(string(args["inputResponses"]), `"Ann"`) {
		return `{"content":[{"type":"text","text":"Hello, Ann!"}]}`
	}
	return `{"resultType":"input_required","requestState":"asked","inputRequests":{` +
		`"name":{"method":"elicitation/create","params":{"message":"Who are you?","requestedSchema":{"type":"object","properties":{"name":{"type":"string","default":"Eve"}}}}},` +
		`"guess":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":9}}}}`
}

func TestToolWritesItsResult(t *testing.T) {
	s := hosted(mcpserver.Options{Hide: func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }}, nil)
	const mixed = `{"content":[{"type":"text","text":"two, hunter2"},{"type":"resource","resource":{"uri":"lab://r","mimeType":"text/plain","text":"t"}}],"structuredContent":{"n":9007199254740993},"isError":true}`
	s.SetTools([]agent.Tool{writes("mixed", func(map[string]json.RawMessage) string { return mixed }),
		writes("broken", func(map[string]json.RawMessage) string { return "{" })})
	w := greet(t, s)
	w.send(call("1", "mixed", "{}"))
	line, err := w.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"text":"two, ***"`, `"uri":"lab://r"`, `9007199254740993`, `"isError":true`} {
		if !strings.Contains(line, want) {
			t.Errorf("the result is %s, want %s in it", line, want)
		}
	}
	w.send(call("2", "broken", "{}"))
	if r := w.recv(); !r.Result.IsError || !strings.Contains(r.text(), "the tool printed no result of the protocol") {
		t.Errorf("%+v", r)
	}
}

func TestToolAsksTheClientOnStreams(t *testing.T) {
	s := hosted(mcpserver.Options{}, nil)
	s.SetTools([]agent.Tool{writes("asker", asker)})
	w := connect(t, s)
	w.send(strings.Replace(greeting, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	w.recv()
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if line, err := w.out.ReadString('\n'); err != nil || strings.Contains(line, "inputResponses") || !strings.Contains(line, `"x"`) {
		t.Errorf("the client sees %s, %v", line, err)
	}
	w.send(call("2", "asker", `{"requestState":"asked","inputResponses":{"name":"Ann"}}`)) // not the client's to say
	line, err := w.out.ReadString('\n')
	if err != nil || !strings.Contains(line, `"method":"elicitation/create"`) || !strings.Contains(line, `"default":"Eve"`) {
		t.Fatalf("the server asks %s, %v", line, err)
	}
	var q struct{ ID string }
	if err := json.Unmarshal([]byte(line), &q); err != nil {
		t.Fatal(err)
	}
	w.send(`{"jsonrpc":"2.0","id":"` + q.ID + `","result":{"action":"accept","content":{"name":"Ann"}}}`)
	if r := w.recv(); r.text() != "Hello, Ann!" || string(r.ID) != "2" {
		t.Errorf("%+v", r)
	}
	w.send(call("3", "asker", "{}"))
	w.recv()
	w.send(`{"jsonrpc":"2.0","id":"server-2","error":{"code":-1,"message":"not now"}}`)
	if r := w.recv(); r.Error == nil || !strings.Contains(r.Error.Message, "the client answered: not now") {
		t.Errorf("a question that was refused: %+v", r)
	}
}

func TestClientThatCannotAnswerIsNotAsked(t *testing.T) {
	s := hosted(mcpserver.Options{}, nil)
	s.SetTools([]agent.Tool{writes("asker", asker)})
	w := greet(t, s)
	w.send(call("1", "asker", "{}"))
	line, err := w.out.ReadString('\n')
	if err != nil || !strings.Contains(line, `"code":-32021`) || !strings.Contains(line, `"requiredCapabilities":{"elicitation":{},"sampling":{}}`) {
		t.Errorf("%s, %v", line, err)
	}
}

func TestToolAsksTheClientOverHTTP(t *testing.T) {
	s := hosted(mcpserver.Options{}, nil)
	s.SetTools([]agent.Tool{writes("asker", asker), writes("other", asker)})
	w := open(t, s, mcpserver.HTTPOptions{}, nil, nil)

	status, _, got := w.post(sent{body: strings.Replace(greeting, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1)})
	if status != http.StatusOK {
		t.Fatal(status)
	}
	header := map[string]string{"Mcp-Session-Id": got.Get("Mcp-Session-Id")}
	resp := w.do(t.Context(), sent{body: call("1", "asker", "{}"), header: header})
	defer resp.Body.Close()
	stream := &events{t, bufio.NewReader(resp.Body)}
	q := stream.next()
	if q.Method != "elicitation/create" {
		t.Fatalf("the server asks %+v", q)
	}
	if status, _, _ := w.post(sent{body: `{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"accept","content":{"name":"Ann"}}}`, header: header}); status != http.StatusAccepted {
		t.Errorf("the answer is taken with %d", status)
	}
	if r := stream.next(); r.text() != "Hello, Ann!" {
		t.Errorf("%+v", r)
	}

	// Without sessions the client calls again, with what the server gave it.
	single := func(name, more string) (int, string) {
		meta := strings.Replace(modernMeta, `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}`, 1)
		status, body, _ := w.post(sent{
			header: map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name},
			body:   `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":{},` + more + meta + `}}`,
		})
		return status, body
	}
	status, body := single("asker", "")
	var asked struct {
		Result struct {
			RequestState  string
			InputRequests map[string]json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(body), &asked); err != nil || status != 200 || len(asked.Result.InputRequests) != 1 {
		t.Fatalf("%d %s: %v, want the one request that the client can answer", status, body, err)
	}
	answer := `"inputResponses":{"name":{"action":"accept","content":{"name":"Ann"}}},"requestState":"` + asked.Result.RequestState
	for _, tt := range []struct {
		name, more string
		status     int
		want       string
	}{
		{"asker", answer + `",`, 200, "Hello, Ann!"},
		{"asker", answer + `-changed",`, 400, `"code":-32602`},
		{"other", answer + `",`, 400, `"code":-32602`}, // the state of another tool
	} {
		if status, body := single(tt.name, tt.more); status != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s with %s: %d %s, want %d %s", tt.name, tt.more, status, body, tt.status, tt.want)
		}
	}
}

func TestWhatHappensIsLoggedAsTheClientWants(t *testing.T) {
	s := hosted(mcpserver.Options{}, nil)
	s.SetTools([]agent.Tool{newTool("args", args), newTool("broken", func(context.Context, *agent.Invocation) (agent.Result, error) {
		return agent.Result{}, context.DeadlineExceeded
	})})
	w := greet(t, s)
	logged := func(level, name string) string {
		if level != "" {
			w.send(`{"jsonrpc":"2.0","id":"l","method":"logging/setLevel","params":{"level":"` + level + `"}}`)
			if r := w.recv(); r.Error != nil {
				t.Fatalf("logging/setLevel: %+v", r)
			}
		}
		w.send(call("1", name, "{}"))
		var got []string
		for {
			line, err := w.out.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			var n struct {
				Method string
				Params struct{ Level, Data string }
			}
			if err := json.Unmarshal([]byte(line), &n); err != nil {
				t.Fatal(err)
			}
			if n.Method != "notifications/message" {
				return strings.Join(got, ", ")
			}
			got = append(got, n.Params.Level+" "+n.Params.Data)
		}
	}
	for _, tt := range []struct{ level, name, want string }{
		{"", "args", ""},
		{"debug", "args", "info mcp-client: calls args, info mcp-client: args ended"},
		{"notice", "args", ""},
		{"", "broken", "notice mcp-client: broken failed: context deadline exceeded"},
	} {
		if got := logged(tt.level, tt.name); got != tt.want {
			t.Errorf("at level %q, %s logs %q, want %q", tt.level, tt.name, got, tt.want)
		}
	}
	w.send(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"loud"}}`)
	if r := w.recv(); r.Error == nil || r.Error.Code != -32602 {
		t.Errorf("a level that there is not: %+v", r)
	}
}
