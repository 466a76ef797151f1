package acpserver

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/functool"
)

// fragile panics once, where at says.
type fragile struct {
	mu sync.Mutex
	at string
}

func (f *fragile) reach(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == name {
		f.at = ""
		panic(name)
	}
}

func (f *fragile) list(context.Context, string) ([]acp.SessionInfo, error) {
	f.reach("list")
	return nil, nil
}

func (f *fragile) open(_ context.Context, o Opening) (*Session, error) {
	f.reach("open")
	t := functool.New("t", "", func(context.Context, args) (string, error) { return "x", nil })
	h := &host.Host{Sessions: (&host.Memory{Max: 1}).Open, Policy: func(context.Context, *agent.Invocation) agent.Verdict {
		return agent.Verdict{Decision: agent.AskPerson}
	}}
	h.Offers = []host.Agent{{Name: "a", Agent: &agent.Agent{Slug: "a", Provider: f, Toolsets: []agent.Toolset{agent.ToolList{t}}}}}
	return &Session{
		Start: func(ctx context.Context, s agent.Start, watch func(agent.Event)) (*runner.Channel, error) {
			f.reach("start")
			options := host.Options{Observe: watch}
			if s.Session == "" {
				options.ID = o.ID
			}
			return h.Run(ctx, "a", s, options)
		},
		Wait: h.Wait,
		Answer: func(context.Context, agent.Event) (json.RawMessage, error) {
			f.reach("question")
			return json.RawMessage(`"allow"`), nil
		},
		Commands: []acp.Command{{Name: "cost"}},
		Command:  func(context.Context, string, string) (string, error) { f.reach("command"); return "x", nil },
		Hide:     func(text string) string { f.reach("show"); return text },
		Close:    func() {},
	}, nil
}

func (f *fragile) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	m := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("done")}}
	if len(req.Messages) == 1 {
		m = agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "c", Name: "t", Args: `{"path":"x","content":"y"}`}}}
	}
	return &agent.Response{Message: m}, nil
}

// connect serves a client until end.
func connect(t *testing.T, s *Server) (client *acp.Conn, end func()) {
	ours, toUs := io.Pipe()
	theirs, toThem := io.Pipe()
	client = acp.NewConn(theirs, toUs)
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(t.Context(), ours, toThem); toThem.Close() })
	serving.Go(func() { _ = client.Serve(t.Context()) })
	return client, func() {
		toUs.Close()
		serving.Wait()
	}
}

// A panic in one request ends it with a report; the session and the connection stay.
func TestAPanicEndsOneRequest(t *testing.T) {
	prompt := func(text string) acp.PromptRequest {
		return acp.PromptRequest{SessionID: "s", Prompt: []acp.Block{*acp.TextBlock(text)}}
	}
	opening := acp.SessionRequest{CWD: t.TempDir(), MCPServers: []acp.MCPServer{}}
	for at, call := range map[string]struct {
		method string
		params any
		ok     bool // the request itself does not fail
	}{
		"list": {acp.MethodList, acp.ListRequest{}, false}, "open": {acp.MethodNew, opening, false}, "command": {acp.MethodPrompt, prompt("/cost"), false},
		"start": {acp.MethodPrompt, prompt("go"), false}, "show": {acp.MethodPrompt, prompt("go"), false}, "question": {acp.MethodPrompt, prompt("go"), true},
	} {
		t.Run(at, func(t *testing.T) {
			var said strings.Builder
			f := &fragile{}
			s := &Server{Open: f.open, List: f.list, NewID: func() string { return "s" }, Panicked: func(text string) { said.WriteString(text) }}
			client, end := connect(t, s)
			defer end()
			if err := client.Call(t.Context(), acp.MethodNew, opening, nil); err != nil {
				t.Fatal(err)
			}
			f.mu.Lock()
			f.at = at
			f.mu.Unlock()
			err := client.Call(t.Context(), call.method, call.params, nil)
			if (err == nil) != call.ok || err != nil && !strings.Contains(err.Error(), "internal error") || !strings.HasPrefix(said.String(), "internal error: "+at+"\n") {
				t.Errorf("%s: %v\n%s", call.method, err, said.String())
			}
			var r acp.PromptResponse
			if err := client.Call(t.Context(), acp.MethodPrompt, prompt("again"), &r); err != nil || r.StopReason != acp.EndTurn {
				t.Errorf("the next prompt: %+v, %v", r, err)
			}
		})
	}
}

type args struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}
