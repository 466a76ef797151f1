package mcpserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/mcpserver"
	"github.com/agents-exe/agents/pkg/host"
)

// newServer serves agents.
func newServer(opts mcpserver.Options, agents ...mcpserver.Agent) *mcpserver.Server {
	h := newHost()
	for _, a := range agents {
		h.Offers = append(h.Offers, host.Agent(a))
	}
	s := hosted(opts, h)
	s.SetAgents(agents)
	return s
}

// newHost keeps two conversations in memory.
func newHost() *host.Host {
	token := func(ctx context.Context) string { return strconv.Itoa(mcpserver.TokenOf(ctx)) }
	return &host.Host{Sessions: (&host.Memory{Max: 2, Owner: token}).Open}
}

// hosted returns a server whose runs and calls are those of h; nil is a host of its own.
func hosted(opts mcpserver.Options, h *host.Host) *mcpserver.Server {
	if h == nil {
		h = newHost()
	}
	h.Panicked = opts.Panicked
	if opts.Start == nil {
		opts.Start = h.Start
	}
	opts.Call = func(ctx context.Context, tool agent.Tool, args, traceparent string, observe func(agent.Event)) (agent.Result, error) {
		return h.Call(ctx, tool, args, host.CallOptions{Client: "mcp-client", Traceparent: traceparent, Observe: observe})
	}
	return mcpserver.New(opts)
}

func TestMistakesAreAnsweredAndTheServerGoesOn(t *testing.T) {
	w := connect(t, newServer(mcpserver.Options{}, newAgent("echo", echo)))
	tests := []struct {
		name, line string
		id         string
		code       int
		message    string
	}{
		{"call before initialize", call("1", "echo", `{"prompt":"x"}`), "1", -32600, "begins with initialize"},
		{"ping before initialize", `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "2", 0, ""},
		{"initialize", greeting, `"init"`, 0, ""},
		{"no JSON", `{"jsonrpc":`, "null", -32700, "parse error"},
		{"no UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", "null", -32700, "not valid UTF-8"},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "null", -32600, "batches"},
		{"no object", `7`, "null", -32600, "a message is a JSON object"},
		{"no version", `{"id":3,"method":"ping"}`, "3", -32600, "jsonrpc"},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, "null", -32600, "id:"},
		{"object id", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, "null", -32600, "id:"},
		{"no method", `{"jsonrpc":"2.0","id":4}`, "4", -32600, "method:"},
		{"method of another case", `{"jsonrpc":"2.0","id":4,"Method":"ping"}`, "4", -32600, "method:"},
		{"unknown method", `{"jsonrpc":"2.0","id":5,"method":"tools/nope"}`, "5", -32601, "not found"},
		{"params no object", `{"jsonrpc":"2.0","id":6,"method":"tools/list","params":[1]}`, "6", -32602, "params: it must be an object"},
		{"unknown tool", call("7", "nobody", `{}`), "7", -32602, "unknown tool: nobody"},
		{"no tool name", `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{}}`, "8", -32602, "params.name"},
		{"arguments no object", call("9", "echo", `"x"`), "9", -32602, "params.arguments: it must be an object"},
		{"params with many members", `{"jsonrpc":"2.0","id":6,"method":"tools/list","params":{"a":1` + strings.Repeat(`,"a":1`, 10_000) + `}}`, "6", -32602, "params: it has more than 10000 members"},
		{"_meta with many members", `{"jsonrpc":"2.0","id":6,"method":"tools/list","params":{"_meta":{"a":1` + strings.Repeat(`,"a":1`, 10_000) + `}}}`, "6", -32602, "params._meta: it has more than 10000 members"},
		{"capability that is not offered", `{"jsonrpc":"2.0","id":10,"method":"tasks/list"}`, "10", -32601, ""},
		{"large id", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, "9007199254740993", 0, ""},
		{"text id", `{"jsonrpc":"2.0","id":"a\"b","method":"ping"}`, `"a\"b"`, 0, ""},
	}
	for _, tt := range tests {
		w.send(tt.line)
		r := w.recv()
		code, message := 0, ""
		if r.Error != nil {
			code, message = r.Error.Code, r.Error.Message
		}
		if string(r.ID) != tt.id && !(tt.id == "null" && len(r.ID) == 4) || code != tt.code || !strings.Contains(message, tt.message) {
			t.Errorf("%s: id %s, error %d %q, want id %s, error %d %q", tt.name, r.ID, code, message, tt.id, tt.code, tt.message)
		}
	}
	w.send("", `{"jsonrpc":"2.0","method":"notifications/nope"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	if rest, err := w.end(); rest != "" || err != nil {
		t.Errorf("what wants no answer was answered %q, %v", rest, err)
	}
}

func TestArgumentsThatDoNotFitAreFailedResults(t *testing.T) {
	w := greet(t, newServer(mcpserver.Options{}, newAgent("echo", echo)))
	for args, want := range map[string]string{
		`{}`:                         `prompt`,
		`{"prompt":7}`:               `argument /prompt [type]`,
		`{"prompt":" "}`:             `the prompt is empty`,
		`{"prompt":"x","other":1}`:   `other`,
		`{"prompt":"x","prompt":""}`: `nothing ran`,
	} {
		w.send(call("1", "echo", args))
		if r := w.recv(); !r.Result.IsError || !strings.Contains(r.text(), want) || !strings.HasPrefix(r.text(), "nothing ran") {
			t.Errorf("arguments %s: %+v, want a failed result with %q", args, r, want)
		}
	}
}

func TestPrompts(t *testing.T) {
	s := newServer(mcpserver.Options{}, newAgent("echo", echo))
	s.SetPrompts([]mcpserver.Prompt{{Name: "shout", Description: "makes it loud", Args: []mcpserver.PromptArg{{Name: "content", Required: true}},
		Text: func(args map[string]string) (string, error) { return strings.ToUpper(args["content"]), nil }}})
	w := greet(t, s)
	for _, tt := range []struct{ params, want string }{
		{`{"name":"shout","arguments":{"content":"hello"}}`, `"messages":[{"role":"user","content":{"type":"text","text":"HELLO"}}]`},
		{`{"name":"shout"}`, `{"code":-32602,"message":"params.arguments: content is missing"}`},
		{`{"name":"shout","arguments":{"content":7}}`, `{"code":-32602,"message":"params.arguments: content must be a string"}`},
		{`{"name":"shout","arguments":7}`, `{"code":-32602,"message":"params.arguments: it must be an object"}`},
		{`{"name":"nobody"}`, `{"code":-32602,"message":"unknown prompt: nobody"}`},
		{`{}`, `{"code":-32602,"message":"params.name: it must be a string"}`},
	} {
		w.send(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":` + tt.params + `}`)
		if got, err := w.out.ReadString('\n'); err != nil || !strings.Contains(got, tt.want) {
			t.Errorf("prompts/get %s = %s, %v, want %s", tt.params, got, err, tt.want)
		}
	}
}

func TestLineThatIsTooLongIsRefusedByItsID(t *testing.T) {
	w := greet(t, newServer(mcpserver.Options{}, newAgent("echo", echo)))
	long := strings.Repeat("x", mcpserver.MaxLine)
	w.send(`{"method":"ping","params":{"id":9,"a":["` + long + `\"}"]},"jsonrpc":"2.0","id":"z"}`)
	if r := w.recv(); string(r.ID) != `"z"` || r.Error == nil || r.Error.Code != -32600 || !strings.Contains(r.Error.Message, "longer than 16777216 bytes") {
		t.Errorf("%+v", r)
	}
	w.send(call("2", "echo", `{"prompt":"`+long[:256<<10]+`"}`))
	if r := w.recv(); r.Error != nil || len(r.text()) < 256<<10 {
		t.Errorf("a long line within the limit: %v", r.Error)
	}
}

func TestOneShotInputGetsEveryAnswer(t *testing.T) {
	const n = 180
	slow := func(ctx context.Context, req *agent.Request) (*agent.Response, error) {
		time.Sleep(20 * time.Millisecond)
		return echo(ctx, req)
	}
	in := greeting
	for i := range n {
		in += "\n" + call(fmt.Sprint(i), "slow", `{"prompt":"x"}`) // the last without a newline
	}
	synctest.Test(t, func(t *testing.T) {
		s := newServer(mcpserver.Options{}, newAgent("slow", slow))
		var out bytes.Buffer
		if err := s.Serve(t.Context(), strings.NewReader(in), &out); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), `"heard: x"`); got != n {
			t.Errorf("%d of %d calls were answered", got, n)
		}
	})
}

func TestCallsRunAtTheSameTime(t *testing.T) {
	const n = 64
	var all sync.WaitGroup
	all.Add(n)
	together := func(ctx context.Context, req *agent.Request) (*agent.Response, error) {
		all.Done()
		all.Wait() // for ever, if one of them waits for another
		return echo(ctx, req)
	}
	w := greet(t, newServer(mcpserver.Options{}, newAgent("together", together)))
	for i := range n {
		w.send(call(fmt.Sprint(i), "together", `{"prompt":"x"}`))
	}
	for range n {
		if r := w.recv(); r.Result.IsError || r.Error != nil {
			t.Fatalf("%+v", r)
		}
	}
}

func TestPingAndDuplicatesWhileACallRuns(t *testing.T) {
	w := greet(t, newServer(mcpserver.Options{Linger: time.Millisecond}, newAgent("hang", hang)))
	w.send(call("1", "hang", `{"prompt":"x"}`), `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if r := w.recv(); string(r.ID) != "2" || r.Error != nil {
		t.Errorf("ping: %+v", r)
	}
	w.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if r := w.recv(); string(r.ID) != "1" || r.Error == nil || r.Error.Code != -32600 {
		t.Errorf("second request with the id 1: %+v, want error -32600", r)
	}
	w.send(`{"jsonrpc":"2.0","id":"1","method":"ping"}`)
	if r := w.recv(); r.Error != nil {
		t.Errorf(`request "1" beside 1: %+v`, r)
	}
}

func TestCancelledCallEndsWithoutAnAnswer(t *testing.T) {
	ended := make(chan string, 1)
	slow := newTool("slow", func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
		inv.Progress("started")
		<-ctx.Done()
		ended <- context.Cause(ctx).Error()
		return agent.Result{}, ctx.Err()
	})
	ask := func(context.Context, *agent.Request) (*agent.Response, error) {
		return &agent.Response{Message: agent.Message{Calls: []agent.ToolCall{{ID: "a", Name: "slow", Args: "{}"}}}}, nil
	}
	w := greet(t, newServer(mcpserver.Options{}, newAgent("a", ask, slow)))
	w.send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","arguments":{"prompt":"x"},"_meta":{"progressToken":1}}}`)
	for !strings.Contains(w.recv().Params.Message, "started") {
	}
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7"}}`) // another request
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	if got := <-ended; !strings.HasPrefix(got, "the client cancelled the call") {
		t.Errorf("the tool was ended because %q", got)
	}
	if rest, err := w.end(); rest != "" || err != nil {
		t.Errorf("after the cancellation: %q, %v", rest, err)
	}
}

func TestHowAConnectionEnds(t *testing.T) {
	tests := []struct {
		name string
		end  func(w *wire)
		want string
		err  error
	}{
		{"end of input", func(w *wire) { w.in.Close() }, "the client closed the connection", nil},
		{"end of the context", func(w *wire) { w.stop() }, "context canceled", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// In a bubble, in which the limits of time do not pass while the machine is busy.
			synctest.Test(t, func(t *testing.T) {
				w := greet(t, newServer(mcpserver.Options{Linger: time.Millisecond}, newAgent("hang", hang)))
				w.send(call("1", "hang", `{"prompt":"x"}`), `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
				w.recv()
				tt.end(w)
				r := w.recv()
				if !r.Result.IsError || r.Result.Meta[mcpserver.MetaStatus] != string(agent.StatusInterrupted) || !strings.Contains(r.text(), tt.want) {
					t.Errorf("the call was answered %+v, want interrupted and %q", r, tt.want)
				}
				if err := <-w.done; err != tt.err {
					t.Errorf("Serve: %v", err)
				}
			})
		})
	}
}

type brokenWriter struct{ after int }

func (b *brokenWriter) Write(p []byte) (int, error) {
	if b.after--; b.after < 0 {
		return 0, errors.New("nobody reads")
	}
	return len(p), nil
}

func TestClientThatWentAwayEndsItsCalls(t *testing.T) {
	r, in := io.Pipe()
	defer in.Close()
	done := make(chan error, 1)
	s := newServer(mcpserver.Options{Linger: time.Hour}, newAgent("hang", hang))
	go func() { done <- s.Serve(context.Background(), r, &brokenWriter{after: 1}) }()
	fmt.Fprintln(in, greeting)
	fmt.Fprintln(in, call("1", "hang", `{"prompt":"x"}`))
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if err := <-done; err == nil || err.Error() != "nobody reads" {
		t.Errorf("Serve: %v, want the writer's error", err)
	}
}

func TestClientThatDoesNotReadIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		inR, in := io.Pipe()
		outR, out := io.Pipe()
		done := make(chan error, 1)
		s := newServer(mcpserver.Options{}, newAgent("echo", echo))
		go func() { done <- s.Serve(ctx, inR, out) }()
		fmt.Fprintln(in, greeting)
		fmt.Fprintln(in, call("1", "echo", `{"prompt":"x"}`))
		synctest.Wait()
		cancel()
		if err := <-done; err == nil || err.Error() != "the client does not read its answers" {
			t.Errorf("Serve: %v", err)
		}
		in.Close()
		outR.Close()
	})
}

func TestProgressComesBeforeTheAnswer(t *testing.T) {
	sub := newAgent("sub", func(ctx context.Context, req *agent.Request) (*agent.Response, error) {
		if req.Turn == 1 {
			return &agent.Response{Message: agent.Message{Calls: []agent.ToolCall{{ID: "1", Name: "work", Args: "{}"}}}}, nil
		}
		return say("done"), nil
	}, newTool("work", func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
		inv.Progress("half way, key=hunter2")
		return agent.TextResult("ok"), nil
	}))
	root := newAgent("root", func(ctx context.Context, req *agent.Request) (*agent.Response, error) {
		if req.Turn == 1 {
			return &agent.Response{Message: agent.Message{Calls: []agent.ToolCall{{ID: "1", Name: "expert_sub", Args: `{"prompt":"x"}`}}}}, nil
		}
		return say("all done, key=hunter2"), nil
	}, &agent.Subagent{Name: "expert_sub", Agent: sub.Agent})
	hide := func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }
	w := greet(t, newServer(mcpserver.Options{Hide: hide}, root))
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"root","arguments":{"prompt":"x"},"_meta":{"progressToken":9007199254740993}}}`)
	var got []string
	for {
		r := w.recv()
		if r.Method == "" {
			if !strings.HasPrefix(r.text(), "all done, key=***|session: ") {
				t.Errorf("answer %q", r.text())
			}
			break
		}
		got = append(got, r.Params.Message)
		if string(r.Params.Token) != "9007199254740993" || r.Params.Progress != len(got) {
			t.Errorf("progress %+v, want number %d with the token", r.Params, len(got))
		}
	}
	want := []string{"root: turn 1", "root: calls expert_sub", "sub: turn 1", "sub: calls work", "sub: work: half way, key=***", "sub: turn 2", "root: turn 2"}
	if !slices.Equal(got, want) {
		t.Errorf("progress\n%q\nwant\n%q", got, want)
	}
	w.send(call("2", "root", `{"prompt":"x"}`))
	if r := w.recv(); r.Method != "" {
		t.Errorf("progress without a token: %+v", r)
	}
}

func TestUnsuccessfulRunIsTyped(t *testing.T) {
	again := func(context.Context, *agent.Request) (*agent.Response, error) {
		return &agent.Response{Message: agent.Message{Calls: []agent.ToolCall{{Name: "nothing", Args: "{}"}}}}, nil
	}
	cut := func(context.Context, *agent.Request) (*agent.Response, error) {
		r := say("half an ans")
		r.Finish = agent.FinishLength
		return r, nil
	}
	broken := func(context.Context, *agent.Request) (*agent.Response, error) {
		return nil, &agent.ModelError{Status: 401, Message: "bad key"}
	}
	limited := newAgent("limited", again)
	limited.Agent.MaxTurns = 1
	w := greet(t, newServer(mcpserver.Options{}, limited, newAgent("cut", cut), newAgent("broken", broken)))
	for _, tt := range []struct {
		name   string
		status agent.Status
		want   string
	}{
		{"limited", agent.StatusLimit, "[limit] agent limited did not answer: turn limit reached"},
		{"cut", agent.StatusFailed, "(finish_reason length)|half an ans|session: "},
		{"broken", agent.StatusFailed, "HTTP 401: bad key"},
	} {
		w.send(call("1", tt.name, `{"prompt":"x"}`))
		r := w.recv()
		if !r.Result.IsError || r.Result.Meta[mcpserver.MetaStatus] != string(tt.status) || !strings.Contains(r.text(), tt.want) {
			t.Errorf("%s: %+v, want %s and %q", tt.name, r.Result, tt.status, tt.want)
		}
	}
}

func TestConversationsAreContinuedAndBounded(t *testing.T) {
	count := func(_ context.Context, req *agent.Request) (*agent.Response, error) {
		return say(fmt.Sprintf("message %d", len(req.Messages))), nil
	}
	h, agents := newHost(), []mcpserver.Agent{newAgent("count", count), newAgent("other", count)}
	for _, a := range agents {
		h.Offers = append(h.Offers, host.Agent(a))
	}
	s := hosted(mcpserver.Options{}, h)
	s.SetAgents(agents)
	w := greet(t, s)
	ask := func(name, session string) reply {
		args := `{"prompt":"x"}`
		if session != "" {
			args = fmt.Sprintf(`{"prompt":"x","session":%q}`, session)
		}
		w.send(call("1", name, args))
		r := w.recv()
		if err := h.Wait(); err != nil { // an answer may come before its session is stored
			t.Error(err)
		}
		return r
	}
	first := ask("count", "").Result.Meta[mcpserver.MetaSession].(string)
	if r := ask("count", first); r.text() != "message 3|session: "+first {
		t.Errorf("continued: %+v", r)
	}
	if r := ask("other", first); !r.Result.IsError || !strings.Contains(r.text(), "other has no session") {
		t.Errorf("session of another agent: %+v", r)
	}
	ask("count", "")
	if r := ask("count", first); r.Result.IsError {
		t.Errorf("one of two sessions was dropped: %+v", r)
	}
	ask("count", "")
	ask("count", "")
	if r := ask("count", first); !r.Result.IsError || !strings.Contains(r.text(), "the last 2 sessions are kept") {
		t.Errorf("the oldest of three sessions: %+v", r)
	}
}

func TestSessionInUseIsRefused(t *testing.T) {
	release := make(chan struct{})
	m := func(ctx context.Context, req *agent.Request) (*agent.Response, error) {
		if len(req.Messages) > 1 {
			<-release
		}
		return say("ok"), nil
	}
	w := greet(t, newServer(mcpserver.Options{}, newAgent("a", m)))
	w.send(call("1", "a", `{"prompt":"x"}`))
	id := w.recv().Result.Meta[mcpserver.MetaSession]
	args := fmt.Sprintf(`{"prompt":"x","session":%q}`, id)
	w.send(call("1", "a", args), call("2", "a", args))
	// Which of the two comes first is not known; one of them is refused.
	if r := w.recv(); !r.Result.IsError || !strings.Contains(r.text(), "in use by another call") {
		t.Errorf("%+v", r)
	}
	close(release)
	if r := w.recv(); r.Result.IsError {
		t.Errorf("%+v", r)
	}
}

func TestLibraryClient(t *testing.T) {
	for _, version := range []string{"", mcp.ProtocolVersion20251125} {
		t.Run("version "+version, func(t *testing.T) {
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			s := newServer(mcpserver.Options{Name: "agents", Version: "1"}, newAgent("echo", echo))
			done := make(chan error, 1)
			go func() { done <- s.Serve(context.Background(), inR, outW); outW.Close() }()
			var opts []client.ClientOption
			if version != "" {
				opts = append(opts, client.WithProtocolVersion(version))
			}
			c := client.NewClient(transport.NewIO(outR, inW, nil), opts...)
			ctx := t.Context()
			if err := c.Start(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Initialize(ctx, mcp.InitializeRequest{}); err != nil {
				t.Fatal(err)
			}
			list, err := c.ListTools(ctx, mcp.ListToolsRequest{})
			if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "echo" || list.Tools[0].Description != "is echo" {
				t.Errorf("ListTools = %+v, %v", list, err)
			}
			request := mcp.CallToolRequest{}
			request.Params.Name, request.Params.Arguments = "echo", map[string]any{"prompt": "hello"}
			result, err := c.CallTool(ctx, request)
			if err != nil || result.IsError || result.Content[0].(mcp.TextContent).Text != "heard: hello" {
				t.Errorf("CallTool = %+v, %v", result, err)
			}
			if version == "" && c.ProtocolVersion() != mcp.LATEST_PROTOCOL_VERSION {
				t.Errorf("spoken: %s, want %s", c.ProtocolVersion(), mcp.LATEST_PROTOCOL_VERSION)
			}
			c.Close()
			inW.Close()
			if err := <-done; err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
	}
}
