package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/mcpserver"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/agents-exe/agents/pkg/runner"
)

func args(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
	return agent.TextResult(inv.Call.Args), nil
}

func echoed(context.Context, *agent.Invocation) (agent.Result, error) {
	return agent.TextResult("another b"), nil
}

func TestToolsGetTheArgumentsAsTheyCame(t *testing.T) {
	policy := func(_ context.Context, inv *agent.Invocation) agent.Verdict {
		if inv.Call.Name == "forbidden" {
			return agent.Verdict{Decision: agent.Deny, Reason: "not for clients"}
		}
		return agent.Verdict{Decision: agent.Allow}
	}
	s := hosted(mcpserver.Options{}, &host.Host{Policy: policy})
	sub := newAgent("sub", echo)
	s.SetTools([]agent.Tool{newTool("args", args), newTool("forbidden", args),
		newTool("broken", func(context.Context, *agent.Invocation) (agent.Result, error) {
			return agent.TextResult("what it printed"), errors.New("exit status 3")
		}), &agent.Subagent{Name: "expert_sub", Agent: sub.Agent}})
	w := greet(t, s)
	for _, tt := range []struct {
		name, args, want string
		failed           bool
	}{
		{"args", `{"n": 9007199254740993, "s":"<&>","e":1.0}`, `{"n": 9007199254740993, "s":"<&>","e":1.0}`, false},
		{"forbidden", `{}`, "not for clients", true},
		{"broken", `{}`, "error: exit status 3\n|what it printed", true},
		{"expert_sub", `{"prompt":"hello"}`, "heard: hello", false},
	} {
		w.send(call("1", tt.name, tt.args))
		if r := w.recv(); !strings.Contains(r.text(), tt.want) || r.Result.IsError != tt.failed {
			t.Errorf("%s: %+v, want %q", tt.name, r, tt.want)
		}
	}
}

func TestClientsHearOfChangedTools(t *testing.T) {
	s := hosted(mcpserver.Options{}, nil)
	release := make(chan struct{})
	s.SetTools([]agent.Tool{newTool("a", args), newTool("b", func(context.Context, *agent.Invocation) (agent.Result, error) {
		<-release
		return agent.TextResult("old b"), nil
	})})
	w := greet(t, s)
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"b","_meta":{"progressToken":"p"}}}`)
	for !strings.Contains(w.recv().Params.Message, "calls b") {
	}
	changed := newTool("b", args)
	changed.spec.Description = "is another b"
	changed.spec.Effects = agent.EffectsNone
	idle := s.SetTools([]agent.Tool{changed, newTool("c", args)})
	heard := 0
	for heard < 2 { // one for what is gone, one for what is new
		if r := w.recv(); r.Method == "notifications/tools/list_changed" {
			heard++
		}
	}
	w.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	var names []string
	for _, tool := range w.recv().Result.Tools {
		names = append(names, tool.Name+": "+tool.Description)
	}
	if got := strings.Join(names, ", "); got != "b: is another b, c: is c" {
		t.Errorf("tools: %s", got)
	}
	again := s.SetTools([]agent.Tool{changed, newTool("c", args)})
	for _, done := range []<-chan struct{}{idle, again} {
		select {
		case <-done:
			t.Error("the old tools are idle while one is called")
		default:
		}
	}
	close(release)
	if r := w.recv(); r.text() != "old b" {
		t.Errorf("the call that was running: %+v", r)
	}
	<-idle
	<-again
}

func TestNewestClientsHearWhatTheyAskedFor(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	s := hosted(mcpserver.Options{}, nil)
	s.SetTools([]agent.Tool{newTool("a", args)})
	w := connect(t, s)
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},` + meta + `}}`)
	if r := w.recv(); r.text() != "{}" {
		t.Fatalf("call without initialize: %+v", r)
	}
	s.SetTools([]agent.Tool{newTool("b", args)}) // nobody asked to hear of it
	w.send(`{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + meta + `}}`)
	if r := w.recv(); r.Method != "notifications/subscriptions/acknowledged" {
		t.Fatalf("%+v", r)
	}
	s.SetTools([]agent.Tool{newTool("b", echoed)}) // looks the same: nothing to hear of
	s.SetTools([]agent.Tool{newTool("b", echoed), newTool("c", args)})
	if r := w.recv(); r.Method != "notifications/tools/list_changed" || r.Params.Meta["io.modelcontextprotocol/subscriptionId"] != "sub" {
		t.Errorf("%+v", r)
	}
	w.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"b",` + meta + `}}`)
	if r := w.recv(); r.text() != "another b" {
		t.Errorf("b was replaced by what looks the same: %+v", r)
	}
	rest, err := w.end()
	if err != nil || strings.Count(rest, "\n") != 1 || !json.Valid([]byte(rest)) || !strings.Contains(rest, `"id":"sub"`) {
		t.Errorf("at the end %q, %v, want the answer of the subscription", rest, err)
	}
}

// A panic in one request is answered with an error and reported; the server goes on, and the
// id of the request can be used again.
func TestAPanicFailsOneRequest(t *testing.T) {
	var mu sync.Mutex
	var said string
	s := newServer(mcpserver.Options{
		Panicked: func(text string) {
			mu.Lock()
			defer mu.Unlock()
			said = text
		},
		Start: func(context.Context, string, agent.Start) (*runner.Channel, error) { panic("the start") },
	}, newAgent("echo", echo))
	s.SetResources([]mcpserver.Collection{{Prefix: "x://", Variable: "v", Name: "x",
		List: func(context.Context) ([]mcpserver.Item, error) { panic("the list") },
		Read: func(context.Context, string) (string, error) { panic("the resource") },
	}})
	w := greet(t, s)
	for _, c := range []struct{ request, at string }{
		{call("1", "echo", `{"prompt":"x"}`), "the start"},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x://a"}}`, "the resource"},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/list"}`, "the list"},
	} {
		w.send(c.request)
		r := w.recv()
		failed := r.text()
		if r.Error != nil {
			failed = r.Error.Message
		}
		mu.Lock()
		if string(r.ID) != "1" || failed != guard.ErrPanic.Error() || !strings.HasPrefix(said, "internal error: "+c.at+"\n") {
			t.Errorf("%s: %+v; reported %s", c.request, r, said)
		}
		mu.Unlock()
	}
	if rest, err := w.end(); rest != "" || err != nil {
		t.Errorf("the server ends with %q, %v", rest, err)
	}
}
