package mcpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// TestTasksOfTheLibrary: a tool of 2025-11-25 that can be called only as a task.
func TestTasksOfTheLibrary(t *testing.T) {
	t.Parallel()
	s := server.NewMCPServer("tasks", "1", server.WithToolCapabilities(true), server.WithTaskCapabilities(true, true, true))
	begun, ended := make(chan struct{}, 1), make(chan struct{})
	add := func(name string, f libraryTool) {
		s.AddTool(mcp.NewTool(name, mcp.WithTaskSupport(mcp.TaskSupportRequired)), f)
	}
	add("slow", func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("slow " + r.GetString("text", "")), nil
	})
	add("wait", func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		begun <- struct{}{}
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	})
	r := newRig(t, "")
	r.server.Protocol = "2025-11-25"
	r.overHTTP(s)
	tools := r.tools(r.open())
	res, err := tools["slow"].Call(t.Context(), invocation(`{"text":"hi"}`))
	if err != nil || res.Text() != "slow hi" {
		t.Errorf("Call = %q, %v, want slow hi", res.Text(), err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-begun
		cancel(errors.New("enough"))
	}()
	if _, err := tools["wait"].Call(ctx, invocation(`{}`)); err == nil || !strings.HasSuffix(err.Error(), "enough") {
		t.Errorf("a cancelled Call = %v, want enough", err)
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the task was not cancelled at the server")
	}
}

// A tasker is a server of 2026-07-28 whose tool answers with a task. states are what it says of
// it, one after the other.
type tasker struct {
	mu      sync.Mutex
	states  []string
	updates []string
	headers []string
	created string // fields of the answer to the call
}

// got returns the updates.
func (s *tasker) got() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.updates, "\n")
}

func (s *tasker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var m struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
	}
	_ = json.NewDecoder(r.Body).Decode(&m)
	result := `{"resultType":"complete"}`
	switch m.Method {
	case "server/discover":
		result = `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	case "tools/list":
		result = `{"tools":[{"name":"slow","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		result = `{"resultType":"complete","content":[]}`
		if strings.Contains(string(m.Params), `"extensions":{"io.modelcontextprotocol/tasks":{}}`) {
			result = `{"resultType":"task","taskId":"t/1",` + cmp.Or(s.created, `"status":"working"`) + `,"ttlMs":60000,"pollIntervalMs":1}`
		}
	case "tasks/get":
		s.headers = append(s.headers, r.Header.Get("Mcp-Name"))
		result = s.states[0]
		if len(s.states) > 1 {
			s.states = s.states[1:]
		}
		if result == "" {
			http.Error(w, "restarting", http.StatusServiceUnavailable)
			return
		}
	case "tasks/update", "tasks/cancel":
		var p struct {
			InputResponses json.RawMessage
		}
		_ = json.Unmarshal(m.Params, &p)
		s.updates = append(s.updates, m.Method+" "+string(p.InputResponses))
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func TestTasksOfTheExtension(t *testing.T) {
	t.Parallel()
	working := `{"taskId":"t/1","status":"working","pollIntervalMs":1}`
	asks := `{"taskId":"t/1","status":"input_required","pollIntervalMs":1,"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object"}}}}}`
	done := `{"taskId":"t/1","status":"completed","result":{"content":[{"type":"text","text":"done"}]}}`
	for name, c := range map[string]struct {
		states  []string
		want    string // of the result or the error
		updates string
	}{
		"ended at once": {[]string{done}, "done", ""},
		"restart":       {[]string{"", "", done}, "done", ""},
		"completed":     {[]string{working, `{"taskId":"t/1","status":"completed","result":{"content":[{"type":"text","text":"done"}]}}`}, "done", ""},
		"a tool failed": {[]string{`{"taskId":"t/1","status":"completed","result":{"isError":true,"content":[{"type":"text","text":"bad"}]}}`}, "bad", ""},
		"failed":        {[]string{working, `{"taskId":"t/1","status":"failed","error":{"code":-32603,"message":"crashed"}}`}, "crashed (-32603)", ""},
		"cancelled":     {[]string{`{"taskId":"t/1","status":"cancelled"}`}, "the server cancelled the task", ""},
		"nonsense":      {[]string{`{"taskId":"t/1","status":"odd"}`}, `the task has the status "odd"`, ""},
		"no answer":     {[]string{strings.Replace(asks, "elicitation/create", "odd/method", 1)}, "odd/method", "tasks/cancel "},
		"why":           {[]string{`{"taskId":"t/1","status":"cancelled","statusMessage":"too late"}`}, "the server cancelled the task: too late", ""},
		"asks once": {[]string{asks, asks, `{"taskId":"t/1","status":"completed","result":{"content":[{"type":"text","text":"sure"}]}}`}, "sure",
			`tasks/update {"q":{"action":"accept","content":{"x":1}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &tasker{states: c.states}
			if name == "ended at once" {
				s.created = `"status":"completed"`
			}
			r := newRig(t, "")
			r.opts.Elicit = func(context.Context, Elicitation) (Answer, error) {
				return Answer{Action: Accept, Content: json.RawMessage(`{"x":1}`)}, nil
			}
			r.serve(s)
			res, err := r.tools(r.open())["slow"].Call(t.Context(), invocation(`{}`))
			got := res.Text()
			if err != nil {
				got += " " + err.Error()
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("Call = %q, want %q in it", got, c.want)
			}
			for range 1000 { // a task is cancelled in the background
				if updates := s.got(); updates == c.updates {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if got := s.got(); got != c.updates {
				t.Errorf("the server got %q, want %q", got, c.updates)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.headers[0] != "t/1" {
				t.Errorf("Mcp-Name = %q, want the task", s.headers[0])
			}
		})
	}
}
