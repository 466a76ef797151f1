package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/mcpserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const greeting = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`

// model is a provider made of a function.
type model func(ctx context.Context, req *agent.Request) (*agent.Response, error)

func (m model) Generate(ctx context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	return m(ctx, req)
}

func say(text string) *agent.Response {
	return &agent.Response{Message: agent.Message{Parts: []agent.Part{agent.Text(text)}}}
}

// echo answers with the last message.
func echo(_ context.Context, req *agent.Request) (*agent.Response, error) {
	return say("heard: " + req.Messages[len(req.Messages)-1].Text()), nil
}

// hang answers when it is told to end.
func hang(ctx context.Context, _ *agent.Request) (*agent.Response, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func newAgent(name string, m model, tools ...agent.Tool) mcpserver.Agent {
	return mcpserver.Agent{Name: name, Agent: &agent.Agent{Slug: name, Announce: "is " + name, Provider: m,
		Toolsets: []agent.Toolset{agent.ToolList(tools)}}}
}

// tool is a tool made of a function.
type tool struct {
	spec agent.ToolSpec
	call func(ctx context.Context, inv *agent.Invocation) (agent.Result, error)
}

func (t tool) Spec() agent.ToolSpec { return t.spec }
func (t tool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	return t.call(ctx, inv)
}

func newTool(name string, call func(context.Context, *agent.Invocation) (agent.Result, error)) tool {
	return tool{agent.ToolSpec{Name: name, Description: "is " + name, Schema: json.RawMessage(`{"type":"object"}`), Source: "test/" + name}, call}
}

// reply is a line of the server.
type reply struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress int
		Message  string
		Meta     map[string]any `json:"_meta"`
	}
	Error *struct {
		Code    int
		Message string
	}
	Result struct {
		Content []struct{ Type, Text string }
		IsError bool
		Meta    map[string]any `json:"_meta"`
		Tools   []struct{ Name, Description string }
	}
}

func (r reply) text() string {
	var texts []string
	for _, c := range r.Result.Content {
		texts = append(texts, c.Text)
	}
	return strings.Join(texts, "|")
}

// wire is a connection to a server.
type wire struct {
	t    *testing.T
	in   *io.PipeWriter
	out  *bufio.Reader
	stop context.CancelFunc
	done chan error
}

// connect serves s to the test, which closes what it does not.
func connect(t *testing.T, s *mcpserver.Server) *wire {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	w := &wire{t: t, in: inW, out: bufio.NewReader(outR), stop: stop, done: make(chan error, 1)}
	go func() {
		err := s.Serve(ctx, inR, outW)
		outW.Close()
		w.done <- err
	}()
	t.Cleanup(func() { stop(); inW.Close(); outR.Close() })
	return w
}

// greet is connect with initialize done.
func greet(t *testing.T, s *mcpserver.Server) *wire {
	t.Helper()
	w := connect(t, s)
	w.send(greeting)
	if r := w.recv(); string(r.ID) != `"init"` || r.Error != nil {
		t.Fatalf("initialize: %+v", r)
	}
	return w
}

func (w *wire) send(lines ...string) {
	w.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(w.in, l+"\n"); err != nil {
			w.t.Fatal(err)
		}
	}
}

// recv reads one line, which must be a message.
func (w *wire) recv() reply {
	w.t.Helper()
	l, err := w.out.ReadString('\n')
	if err != nil {
		w.t.Fatalf("read: %v", err)
	}
	var r reply
	if err := json.Unmarshal([]byte(l), &r); err != nil {
		w.t.Fatalf("the server wrote %q: %v", l, err)
	}
	return r
}

// end closes the input and returns what else was written and Serve's error.
func (w *wire) end() (rest string, err error) {
	w.t.Helper()
	w.in.Close()
	data, readErr := io.ReadAll(w.out)
	if readErr != nil {
		w.t.Fatal(readErr)
	}
	return string(data), <-w.done
}

func call(id, name, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, args)
}
