package acpserver

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/functool"
)

// fragile is a host with one session. What is called at panics, once.
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

func (f *fragile) List(context.Context, string) ([]acp.SessionInfo, error) {
	f.reach("list")
	return nil, nil
}
func (f *fragile) Open(context.Context, Opening) (Session, error) { f.reach("open"); return f, nil }
func (f *fragile) ID() string                                     { return "s" }
func (f *fragile) Past() iter.Seq2[agent.Event, error]            { return func(func(agent.Event, error) bool) {} }
func (f *fragile) Commands() []acp.Command                        { return []acp.Command{{Name: "cost"}} }
func (f *fragile) Modes() acp.Modes                               { return acp.Modes{Available: []acp.Mode{{ID: "ask"}}} }
func (f *fragile) SetMode(string)                                 { f.reach("mode") }
func (f *fragile) Redact(text string) string                      { f.reach("show"); return text }
func (f *fragile) Close()                                         {}
func (f *fragile) Command(context.Context, string, string) (string, error) {
	f.reach("command")
	return "x", nil
}
func (f *fragile) Answer(context.Context, agent.Event) (json.RawMessage, error) {
	f.reach("question")
	return json.RawMessage(`"allow"`), nil
}

func (f *fragile) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	m := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("done")}}
	if len(req.Messages) == 1 {
		m = agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "c", Name: "t", Args: `{"path":"x","content":"y"}`}}}
	}
	return &agent.Response{Message: m}, nil
}

func (f *fragile) Start(ctx context.Context, m agent.Message, watch func(agent.Event)) (*agent.Channel, func() (*agent.Outcome, error), error) {
	f.reach("start")
	t := functool.New("t", "", func(context.Context, args) (string, error) { return "x", nil })
	r := &agent.Runner{Agent: &agent.Agent{Slug: "a", Provider: f, Toolsets: []agent.Toolset{agent.ToolList{t}}}, Observe: watch,
		Policy: func(context.Context, *agent.Invocation) agent.Verdict {
			return agent.Verdict{Decision: agent.AskPerson}
		}}
	c := r.Start(ctx, agent.Start{Channel: agent.ChannelVersion, Args: json.RawMessage(`{"prompt":"go"}`)})
	return c, c.Wait, nil
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
		"list": {acp.MethodList, acp.ListRequest{}, false}, "open": {acp.MethodNew, opening, false}, "mode": {acp.MethodSetMode, acp.SetModeRequest{SessionID: "s", ModeID: "ask"}, false},
		"command": {acp.MethodPrompt, prompt("/cost"), false}, "start": {acp.MethodPrompt, prompt("go"), false}, "show": {acp.MethodPrompt, prompt("go"), false}, "question": {acp.MethodPrompt, prompt("go"), true},
	} {
		t.Run(at, func(t *testing.T) {
			var said strings.Builder
			f := &fragile{}
			s := &Server{Host: f, Panicked: func(text string) { said.WriteString(text) }}
			ours, toUs := io.Pipe()
			theirs, toThem := io.Pipe()
			client := acp.NewConn(theirs, toUs)
			var serving sync.WaitGroup
			serving.Go(func() { _ = s.Serve(t.Context(), ours, toThem); toThem.Close() })
			serving.Go(func() { _ = client.Serve(t.Context()) })
			defer serving.Wait()
			defer toUs.Close()
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
