package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/mcpserver"
)

// tasksMeta is the _meta of a client with tasks.
var tasksMeta = strings.Replace(modernMeta, `Capabilities":{}`, `Capabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)

// A state is the answer to a request about a task.
type state struct {
	Result struct {
		ResultType, TaskID, Status, StatusMessage string
		TTLMs                                     *int
		Result                                    struct {
			Content []struct{ Text string }
			IsError bool
		}
		Error         struct{ Code int }
		InputRequests map[string]struct{ Method string }
		Content       []struct{ Text string }
	}
	Error struct {
		Code    int
		Message string
	}
}

// A taskClient calls tools as tasks over HTTP.
type taskClient struct {
	*site
	token, meta string
}

func (c *taskClient) request(method, name, params string) (s state) {
	c.t.Helper()
	_, body, _ := c.post(sent{
		header: map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name, "Authorization": "Bearer " + c.token},
		body:   `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,` + c.meta + `}}`,
	})
	if i := strings.Index(body, "data: "); i >= 0 { // a stream
		body = body[i+len("data: "):]
	}
	if err := json.NewDecoder(strings.NewReader(body)).Decode(&s); err != nil {
		c.t.Fatalf("%s: the server answered %q: %v", method, body, err)
	}
	return s
}

func (c *taskClient) call(tool string) state {
	c.t.Helper()
	return c.request("tools/call", tool, `"name":"`+tool+`","arguments":{}`)
}

// begin calls a tool, whose call becomes a task.
func (c *taskClient) begin(tool string) (id string) {
	c.t.Helper()
	s := c.call(tool).Result
	if s.ResultType != "task" || s.Status != "working" || s.TaskID == "" || s.TTLMs != nil {
		c.t.Fatalf("a call of %s is %+v, want a task", tool, s)
	}
	return s.TaskID
}

func (c *taskClient) get(id string) state {
	c.t.Helper()
	return c.request("tasks/get", id, `"taskId":"`+id+`"`)
}

// wait returns the state after status.
func (c *taskClient) wait(id, status string) state {
	c.t.Helper()
	for range 100 {
		if s := c.get(id); s.Result.Status != status {
			return s
		}
		time.Sleep(time.Second)
	}
	c.t.Fatalf("the task is still %s", status)
	return state{}
}

// withTasks calls f with a client, and another of another token, of a server in a bubble.
func withTasks(t *testing.T, f func(t *testing.T, c, other *taskClient), tools ...agent.Tool) {
	synctest.Test(t, func(t *testing.T) {
		s := hosted(mcpserver.Options{TaskAfter: time.Second, Linger: time.Minute}, nil)
		s.SetTools(tools)
		m := &memory{conns: make(chan net.Conn), done: make(chan struct{})}
		one, two := strings.Repeat("a", 16), strings.Repeat("b", 16)
		w := open(t, s, mcpserver.HTTPOptions{Tokens: []string{one, two}}, m, m.dial)
		f(t, &taskClient{w, one, tasksMeta}, &taskClient{w, two, tasksMeta})
	})
}

// sleeper takes a minute and reports progress.
func sleeper(name string) tool {
	return newTool(name, func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
		inv.Progress("begun")
		select {
		case <-time.After(time.Minute):
			inv.Progress("almost done")
			return agent.TextResult("slept"), nil
		case <-ctx.Done():
			return agent.Result{}, context.Cause(ctx)
		}
	})
}

func TestLongCallContinuesAsATask(t *testing.T) {
	withTasks(t, func(t *testing.T, c, other *taskClient) {
		id := c.begin("slow")
		if s := c.get(id).Result; s.ResultType != "complete" || s.Status != "working" || !strings.HasSuffix(s.StatusMessage, "slow: begun") {
			t.Errorf("the task is %+v, want its progress", s)
		}
		if s := c.wait(id, "working").Result; s.Status != "completed" || s.Result.Content[0].Text != "slept" || s.TTLMs == nil || *s.TTLMs < 3_600_000 {
			t.Errorf("the task ended as %+v", s)
		}
		if s := c.call("quick").Result; s.ResultType != "complete" || s.Content[0].Text != "{}" {
			t.Errorf("a call that takes no time is %+v", s)
		}
		if s := c.wait(c.begin("fails"), "working").Result; s.Status != "completed" || !s.Result.IsError {
			t.Errorf("a failed call is %+v", s)
		}
		plain := &taskClient{c.site, c.token, modernMeta}
		if s := plain.call("slow").Result; s.ResultType != "complete" || s.Content[0].Text != "slept" {
			t.Errorf("a client without tasks gets %+v", s)
		}
		for what, s := range map[string]struct {
			got  state
			code int
		}{
			"the task of another token":  {other.get(id), -32602},
			"no task":                    {c.get("none"), -32602},
			"a client without tasks":     {plain.get(id), -32021},
			"a tool that requires tasks": {plain.call("long"), -32021},
			"another task in the header": {c.request("tasks/get", "none", `"taskId":"`+id+`"`), -32020},
			"no answers":                 {c.request("tasks/update", id, `"taskId":"`+id+`","inputResponses":7`), -32602},
			"a method of 2025-11-25":     {c.request("tasks/result", id, `"taskId":"`+id+`"`), -32601},
			"notifications without them": {plain.request("subscriptions/listen", "", `"notifications":{"taskIds":["`+id+`"]}`), -32021},
		} {
			if s.got.Error.Code != s.code {
				t.Errorf("%s: error %d %s, want %d", what, s.got.Error.Code, s.got.Error.Message, s.code)
			}
		}
		time.Sleep(time.Hour)
		if s := c.get(id); s.Error.Code != -32602 {
			t.Errorf("an hour later the task is %+v", s)
		}
	}, sleeper("slow"), newTool("quick", args), required(sleeper("long")), newTool("fails", func(context.Context, *agent.Invocation) (agent.Result, error) {
		time.Sleep(2 * time.Second)
		return agent.Result{}, fmt.Errorf("broken")
	}))
}

func required(t tool) tool {
	t.spec.Task = agent.TaskRequired
	return t
}

func TestTaskIsCancelled(t *testing.T) {
	tool, _, ended := slowTool()
	withTasks(t, func(t *testing.T, c, other *taskClient) {
		id := c.begin("slow")
		cancel := `"taskId":"` + id + `"`
		if s := other.request("tasks/cancel", id, cancel); s.Error.Code != -32602 {
			t.Errorf("another client cancels it: %+v", s)
		}
		for range 2 { // the second time it has ended
			if s := c.request("tasks/cancel", id, cancel).Result; s.ResultType != "complete" || s.TaskID != "" {
				t.Errorf("tasks/cancel is answered with %+v", s)
			}
			if s := c.wait(id, "working").Result; s.Status != "cancelled" {
				t.Errorf("the task is %+v", s)
			}
		}
		if why := <-ended; why != "the client cancelled the task" {
			t.Errorf("the call ended because of %q", why)
		}
	}, tool)
}

// slowAsker is asker after two seconds.
func slowAsker(args map[string]json.RawMessage) string {
	time.Sleep(2 * time.Second)
	return strings.Replace(asker(args), `"guess":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":9}}`,
		`"why":{"method":"elicitation/create","params":{"message":"Why?","requestedSchema":{"type":"object","properties":{}}}}`, 1)
}

func TestTaskAsksTheClient(t *testing.T) {
	withTasks(t, func(t *testing.T, c, _ *taskClient) {
		id := c.begin("asker")
		update := func(answers string) {
			t.Helper()
			if s := c.request("tasks/update", id, `"taskId":"`+id+`","inputResponses":{`+answers+`}`).Result; s.ResultType != "complete" || s.Status != "" {
				t.Errorf("tasks/update is answered with %+v", s)
			}
		}
		s := c.wait(id, "working").Result
		if s.Status != "input_required" || len(s.InputRequests) != 2 || s.InputRequests["1.name"].Method != "elicitation/create" {
			t.Fatalf("the task is %+v, want its questions", s)
		}
		update(`"name":{"action":"accept"},"1.name":{"action":"accept","content":{"name":"Bob"}}`) // there is no question of the first key
		if s := c.get(id).Result; s.Status != "input_required" || len(s.InputRequests) != 1 || s.InputRequests["1.why"].Method == "" {
			t.Errorf("after one answer the task is %+v, want the other question", s)
		}
		update(`"1.why":{"action":"decline"}`)
		if s := c.wait(id, "working").Result; s.Status != "input_required" || s.InputRequests["2.name"].Method == "" {
			t.Fatalf("after a wrong answer the task is %+v, want the question again with another key", s)
		}
		update(`"2.why":{"action":"decline"},"2.name":{"action":"accept","content":{"name":"Ann"}}`)
		if s := c.wait(id, "working").Result; s.Status != "completed" || s.Result.Content[0].Text != "Hello, Ann!" {
			t.Errorf("the task ended as %+v", s)
		}

		id = c.begin("asker")
		time.Sleep(time.Hour + time.Minute)
		if s := c.get(id).Result; s.Status != "cancelled" || s.StatusMessage != "the client did not answer for an hour" {
			t.Errorf("without an answer the task is %+v", s)
		}
		if s := c.wait(c.begin("lister"), "working").Result; s.Status != "failed" || s.Error.Code != -32021 {
			t.Errorf("a task that asks what the client cannot answer is %+v", s)
		}
		c.begin("asker") // it does not hold up the end of the server
		time.Sleep(time.Minute)
		start := time.Now()
		c.stop()
		err := <-c.done
		c.done <- err
		if waited := time.Since(start); waited > 5*time.Second {
			t.Errorf("the server ends after %s", waited)
		}
	}, writes("asker", slowAsker), writes("lister", func(map[string]json.RawMessage) string {
		time.Sleep(2 * time.Second)
		return `{"resultType":"input_required","inputRequests":{"roots":{"method":"roots/list"}}}`
	}))
}

// TestTasksOfAToken: more calls than a token can have as tasks run as long as their requests.
func TestTasksOfAToken(t *testing.T) {
	withTasks(t, func(t *testing.T, c, other *taskClient) {
		for range 128 {
			c.begin("slow")
		}
		other.begin("slow")
		if s := c.call("slow").Result; s.ResultType != "complete" || s.Content[0].Text != "slept" {
			t.Errorf("one more call is %+v, want its result", s)
		}
	}, sleeper("slow"))
}

func TestTasksLingerAtTheEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		tool agent.Tool
		want time.Duration
	}{
		"ends by itself": {sleeper("slow"), time.Minute - 2*time.Second},
		"is ended": {newTool("slow", func(ctx context.Context, _ *agent.Invocation) (agent.Result, error) {
			<-ctx.Done()
			return agent.Result{}, ctx.Err()
		}), time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hosted(mcpserver.Options{TaskAfter: 2 * time.Second, Linger: time.Hour}, nil)
				s.SetTools([]agent.Tool{tt.tool})
				w := connect(t, s)
				w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":1,` + strings.TrimPrefix(tasksMeta, `"_meta":{`) + `}}`)
				for {
					line, err := w.out.ReadString('\n')
					if err != nil {
						t.Fatal(err)
					}
					if strings.Contains(line, `"resultType":"task"`) {
						break
					}
				}
				start := time.Now()
				if rest, err := w.end(); rest != "" || err != nil {
					t.Errorf("after the end of the input it wrote %q, %v", rest, err)
				}
				if waited := time.Since(start); waited != tt.want {
					t.Errorf("the server ends after %s, want %s", waited, tt.want)
				}
			})
		})
	}
}
