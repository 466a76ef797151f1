package a2aapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/a2aapi"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/functool"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A model is a provider that is a function of the messages.
type model func(ctx context.Context, req *agent.Request, say func(string)) (agent.Message, error)

func (m model) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	answer, err := m(ctx, req, func(s string) { delta(agent.Delta{Kind: agent.DeltaText, Text: s}) })
	return &agent.Response{Message: answer, Usage: agent.Usage{Requests: 1, InputTokens: 100, OutputTokens: 10}}, err
}

// text is an answer, shown in pieces of three bytes.
func text(s string, say func(string)) agent.Message {
	for rest := s; rest != ""; rest = rest[min(3, len(rest)):] {
		say(rest[:min(3, len(rest))])
	}
	return agent.Message{Parts: []agent.Part{agent.Text(s)}}
}

// seen is what a model sees of the conversation.
func seen(req *agent.Request) string {
	var b strings.Builder
	for _, m := range req.Messages {
		b.WriteString(string(m.Role) + ":" + m.Text())
		for _, p := range m.Parts {
			if p.Kind == agent.PartMedia {
				b.WriteString("<" + p.MIME + " " + string(p.Data) + ">")
			}
		}
		for _, r := range m.Results {
			b.WriteString(r.Text())
		}
		b.WriteString(" ")
	}
	return strings.TrimSpace(b.String())
}

// A host runs one agent, helper, and remembers its sessions.
type host struct {
	agent  *agent.Agent
	schema string

	mu       sync.Mutex
	sessions map[string]*agent.Session
}

func (h *host) Agents() []agent.ToolSpec {
	return []agent.ToolSpec{{Name: "helper", Description: "helps", Schema: json.RawMessage(h.schema)}}
}

func (h *host) Start(ctx context.Context, slug string, s agent.Start) (*runner.Channel, error) {
	if slug != "helper" {
		return nil, errors.New("unknown agent")
	}
	r := &runner.Runner{Agent: h.agent, Policy: func(_ context.Context, inv *agent.Invocation) agent.Verdict {
		if inv.Call.Name == "erase" {
			return agent.Verdict{Decision: agent.AskPerson, Reason: "it deletes"}
		}
		return agent.Verdict{Decision: agent.Allow}
	}}
	h.mu.Lock()
	if known := h.sessions[s.Session]; known != nil {
		r.From = &runner.Resume{Session: known}
	}
	h.mu.Unlock()
	c := r.Start(ctx, s)
	go func() {
		<-c.Done() // Wait drops events
		out, _ := c.Wait()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.sessions[out.Session] = r.Session()
	}()
	return c, nil
}

const promptSchema = `{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}`

// serve serves an agent and returns clients that found it by its card, for JSON-RPC and for
// HTTP+JSON.
func serveBoth(t *testing.T, schema string, m model, tools ...agent.Tool) (rpc, rest *a2aclient.Client, card *a2a.AgentCard) {
	t.Helper()
	api := &a2aapi.Handler{Host: &host{agent: &agent.Agent{Slug: "helper", Provider: m, Toolsets: []agent.Toolset{agent.ToolList(tools)}}, schema: schema, sessions: map[string]*agent.Session{}}, Version: "v1", Secured: true}
	if strings.Contains(schema, "city") {
		api.Host.(*host).agent.InputSchema = &agent.Shape{Schema: json.RawMessage(schema), Check: func(context.Context, json.RawMessage) error { return nil }}
	}
	server := httptest.NewServer(api)
	web := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() { web.CloseIdleConnections(); api.Close(); server.Close() })
	card, err := agentcard.NewResolver(web).Resolve(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if rpc, err = a2aclient.NewFromCard(t.Context(), card, a2aclient.WithDefaultsDisabled(), a2aclient.WithJSONRPCTransport(web)); err != nil {
		t.Fatal(err)
	}
	if rest, err = a2aclient.NewFromCard(t.Context(), card, a2aclient.WithDefaultsDisabled(), a2aclient.WithRESTTransport(web)); err != nil {
		t.Fatal(err)
	}
	return rpc, rest, card
}

// serve serves an agent and returns a client of it.
func serve(t *testing.T, schema string, m model, tools ...agent.Tool) (*a2aclient.Client, *a2a.AgentCard) {
	t.Helper()
	rpc, _, card := serveBoth(t, schema, m, tools...)
	return rpc, card
}

func user(parts ...*a2a.Part) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, parts...)}
}

// send sends a message and returns the task.
func send(t *testing.T, c *a2aclient.Client, req *a2a.SendMessageRequest) *a2a.Task {
	t.Helper()
	got, err := c.SendMessage(t.Context(), req)
	task, ok := got.(*a2a.Task)
	if err != nil || !ok {
		t.Fatalf("SendMessage = %T, %v", got, err)
	}
	return task
}

// answer is the text of a task's artifact.
func answer(task *a2a.Task) string {
	var b strings.Builder
	for _, artifact := range task.Artifacts {
		for _, p := range artifact.Parts {
			b.WriteString(p.Text())
		}
	}
	return b.String()
}

func echo(_ context.Context, req *agent.Request, say func(string)) (agent.Message, error) {
	return text(seen(req), say), nil
}

func TestAMessageIsATask(t *testing.T) {
	c, card := serve(t, promptSchema, echo)
	if card.Name != "helper" || card.Description != "helps" || card.Version != "v1" || !card.Capabilities.Streaming || card.SecuritySchemes["bearer"] == nil {
		t.Errorf("card = %+v", card)
	}
	file := a2a.NewRawPart([]byte("bytes"))
	file.MediaType = "image/png"
	task := send(t, c, user(a2a.NewTextPart("one"), a2a.NewDataPart(map[string]any{"n": 1}), file))
	if task.Status.State != a2a.TaskStateCompleted || answer(task) != "user:one\n\n{\"n\":1}<image/png bytes>" {
		t.Errorf("task = %s, %q", task.Status.State, answer(task))
	}
	if task.Metadata["status"] != "ok" || task.Metadata["session"] == "" {
		t.Errorf("metadata = %v", task.Metadata)
	}
	again := user(a2a.NewTextPart("two"))
	again.Message.ContextID = task.ContextID
	if next := send(t, c, again); next.ID == task.ID || !strings.Contains(answer(next), "assistant:") || !strings.HasSuffix(answer(next), "user:two") {
		t.Errorf("the second task of the context has %q", answer(next))
	}
	if other := send(t, c, user(a2a.NewTextPart("three"))); answer(other) != "user:three" {
		t.Errorf("another context has %q", answer(other))
	}
	if got, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: task.ID}); err != nil || got.Status.State != a2a.TaskStateCompleted {
		t.Errorf("GetTask = %v, %v", got, err)
	}
}

func TestAnAgentWithArgumentsOfItsOwn(t *testing.T) {
	c, card := serve(t, `{"type":"object","properties":{"city":{"type":"string"}}}`, echo)
	if !strings.Contains(card.Skills[0].Description, `"city"`) {
		t.Errorf("the card does not show the schema: %s", card.Skills[0].Description)
	}
	task := send(t, c, user(a2a.NewDataPart(map[string]any{"city": "Oslo"})))
	if answer(task) != `user:{"city":"Oslo"}` {
		t.Errorf("answer = %q", answer(task))
	}
}

// Text that is shown in the middle of a run does not remain in the answer.
func TestAStreamedTask(t *testing.T) {
	clock := functool.New("clock", "Tells the time.", func(context.Context, struct{}) (string, error) { return "noon", nil })
	c, _ := serve(t, promptSchema, func(_ context.Context, req *agent.Request, say func(string)) (agent.Message, error) {
		if len(req.Messages) == 1 {
			m := text("One moment.", say)
			m.Calls = []agent.ToolCall{{ID: "a", Name: "clock", Args: "{}"}}
			return m, nil
		}
		return text("It is noon.", say), nil
	}, clock)
	got, status := "", []string{}
	for e, err := range c.SendStreamingMessage(t.Context(), user(a2a.NewTextPart("time?"))) {
		if err != nil {
			t.Fatal(err)
		}
		switch e := e.(type) {
		case *a2a.TaskArtifactUpdateEvent:
			if !e.Append {
				got = ""
			}
			for _, p := range e.Artifact.Parts {
				got += p.Text()
			}
		case *a2a.TaskStatusUpdateEvent:
			status = append(status, string(e.Status.State))
			if e.Status.Message != nil && e.Status.Message.Parts[0].Text() != "calls clock" {
				t.Errorf("message %q", e.Status.Message.Parts[0].Text())
			}
		}
	}
	// The library may leave out what happens before it has subscribed the client.
	if got != "It is noon." || len(status) == 0 || status[len(status)-1] != "TASK_STATE_COMPLETED" {
		t.Errorf("streamed %q, states %v", got, status)
	}
}

// An asker is a tool that asks the person.
type asker struct{ question agent.Event }

var which = agent.Event{What: "ask", Text: "Which colour?", Choices: []string{"red", "blue"}}

func (a asker) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: "asker", Description: "Asks.", Schema: json.RawMessage(`{"type":"object"}`)}
}

func (a asker) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	answer, err := inv.Question(ctx, a.question)
	return agent.TextResult(string(answer)), err
}

// callsOnce calls a tool and then says what it sees.
func callsOnce(tool string) model {
	return func(_ context.Context, req *agent.Request, say func(string)) (agent.Message, error) {
		if len(req.Messages) == 1 {
			return agent.Message{Calls: []agent.ToolCall{{ID: "a", Name: tool, Args: "{}"}}}, nil
		}
		return text(seen(req), say), nil
	}
}

func TestAQuestionIsAnsweredByTheNextMessage(t *testing.T) {
	c, _ := serve(t, promptSchema, callsOnce("asker"), asker{which})
	task := send(t, c, user(a2a.NewTextPart("paint")))
	m := task.Status.Message
	if task.Status.State != a2a.TaskStateInputRequired || m == nil || m.Parts[0].Text() != "Which colour?" || len(m.Metadata["choices"].([]any)) != 2 {
		t.Fatalf("task = %+v", task.Status)
	}
	next := user(a2a.NewTextPart("blue"))
	next.Message.TaskID, next.Message.ContextID = task.ID, task.ContextID
	if task = send(t, c, next); task.Status.State != a2a.TaskStateCompleted || !strings.Contains(answer(task), `"blue"`) {
		t.Errorf("%s: %q", task.Status.State, answer(task))
	}
}

// The client may be a model, so it cannot allow a call that a person is to decide about.
func TestAClientCannotAllowACall(t *testing.T) {
	erased := false
	erase := functool.New("erase", "Deletes.", func(context.Context, struct{}) (string, error) { erased = true; return "gone", nil })
	c, _ := serve(t, promptSchema, callsOnce("erase"), erase)
	if task := send(t, c, user(a2a.NewTextPart("clean up"))); task.Status.State != a2a.TaskStateCompleted || erased || !strings.Contains(answer(task), "not run") && !strings.Contains(answer(task), "refused") {
		t.Errorf("%s, erased %v: %q", task.Status.State, erased, answer(task))
	}
}

func TestATaskIsCancelled(t *testing.T) {
	asked, ended := make(chan struct{}), make(chan struct{})
	c, _ := serve(t, promptSchema, func(ctx context.Context, _ *agent.Request, _ func(string)) (agent.Message, error) {
		close(asked)
		<-ctx.Done()
		close(ended)
		return agent.Message{}, ctx.Err()
	})
	req := user(a2a.NewTextPart("wait"))
	req.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
	task := send(t, c, req)
	<-asked
	got, err := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID})
	if err != nil || got.Status.State != a2a.TaskStateCanceled {
		t.Errorf("CancelTask = %+v, %v", got, err)
	}
	<-ended
}

// A task whose question is not answered is cancelled like any other.
func TestAWaitingTaskIsCancelled(t *testing.T) {
	c, _ := serve(t, promptSchema, callsOnce("asker"), asker{which})
	task := send(t, c, user(a2a.NewTextPart("clean up")))
	got, err := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID})
	if err != nil || got.Status.State != a2a.TaskStateCanceled {
		t.Errorf("CancelTask = %+v, %v", got, err)
	}
}

func TestWhatIsRefused(t *testing.T) {
	c, _ := serve(t, promptSchema, func(context.Context, *agent.Request, func(string)) (agent.Message, error) {
		return agent.Message{}, errors.New("no route")
	})
	if task := send(t, c, user(a2a.NewTextPart("go"))); task.Status.State != a2a.TaskStateFailed || !strings.Contains(task.Status.Message.Parts[0].Text(), "no route") {
		t.Errorf("task = %+v", task.Status)
	}
	if _, err := c.SendMessage(t.Context(), user(a2a.NewFileURLPart("http://x/y.png", "image/png"))); !errors.Is(err, a2a.ErrUnsupportedContentType) {
		t.Errorf("a URL = %v", err)
	}
	unknown := user(a2a.NewTextPart("go"))
	unknown.Message.TaskID = "0"
	if _, err := c.SendMessage(t.Context(), unknown); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Errorf("an unknown task = %v", err)
	}
}

// A form that asks for one field is filled in by a text.
func TestAFormIsAnswered(t *testing.T) {
	schema := `{"type":"object","properties":{"colour":{"type":"string"}}}`
	for name, c := range map[string]struct {
		schema string
		part   *a2a.Part
		want   string
	}{
		"text":      {schema, a2a.NewTextPart("blue"), `{"action":"accept","content":{"colour":"blue"}}`},
		"JSON":      {schema, a2a.NewTextPart(`{"colour":"red"}`), `{"action":"accept","content":{"colour":"red"}}`},
		"data":      {schema, a2a.NewDataPart(map[string]any{"colour": "red"}), `{"action":"accept","content":{"colour":"red"}}`},
		"declined":  {schema, a2a.NewDataPart(map[string]any{"action": "decline"}), `{"action":"decline"}`},
		"no fields": {`{"type":"object"}`, a2a.NewTextPart("blue"), `"blue"`},
	} {
		t.Run(name, func(t *testing.T) {
			c1, _ := serve(t, promptSchema, callsOnce("asker"), asker{agent.Event{What: "elicit", Text: "Which colour?", Schema: json.RawMessage(c.schema)}})
			task := send(t, c1, user(a2a.NewTextPart("paint")))
			next := user(c.part)
			next.Message.TaskID = task.ID
			if task = send(t, c1, next); !strings.HasSuffix(answer(task), c.want) {
				t.Errorf("answer = %q, want %s at its end", answer(task), c.want)
			}
		})
	}
}

// The handler corrects the library for both bindings.
func TestBothBindings(t *testing.T) {
	rpc, rest, card := serveBoth(t, promptSchema, callsOnce("asker"), asker{which})
	for name, c := range map[string]*a2aclient.Client{"JSON-RPC": rpc, "HTTP+JSON": rest} {
		t.Run(name, func(t *testing.T) {
			if list, err := c.ListTasks(t.Context(), &a2a.ListTasksRequest{ContextID: "none"}); err != nil || list.Tasks == nil {
				t.Errorf("a list without tasks = %+v, %v", list, err)
			}
			task := send(t, c, user(a2a.NewTextPart("paint")))
			if task.Status.State != a2a.TaskStateInputRequired {
				t.Fatalf("the task is %s", task.Status.State)
			}
			var events []a2a.Event
			for e, err := range c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: task.ID}) {
				if err != nil {
					t.Fatalf("subscribe to a task that waits: %v", err)
				}
				if events = append(events, e); len(events) > 1 {
					continue
				}
				next := user(a2a.NewTextPart("blue"))
				next.Message.TaskID, next.Config = task.ID, &a2a.SendMessageConfig{HistoryLength: new(int)}
				if done := send(t, c, next); done.Status.State != a2a.TaskStateCompleted || len(done.History) != 0 {
					t.Errorf("the task is %s with %d messages", done.Status.State, len(done.History))
				}
			}
			first, _ := events[0].(*a2a.Task)
			if first == nil || first.Status.State != a2a.TaskStateInputRequired || len(events) < 2 {
				t.Errorf("events = %v", events)
			}
			again := user(a2a.NewTextPart("more"))
			again.Message.TaskID = task.ID
			if _, err := c.SendMessage(t.Context(), again); !errors.Is(err, a2a.ErrUnsupportedOperation) {
				t.Errorf("a message for a task that has ended = %v", err)
			}
			for _, err := range c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: task.ID}) {
				if !errors.Is(err, a2a.ErrUnsupportedOperation) {
					t.Errorf("subscribe to a task that has ended = %v", err)
				}
			}
		})
	}
	post := func(path, body string, header ...string) (int, string) {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, card.SupportedInterfaces[0].URL+path, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(header[0], header[1])
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer http.DefaultClient.CloseIdleConnections()
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(text)
	}
	message := `{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"go"}]}}`
	if code, text := post("", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":`+message+`}`, "A2A-Version", "99.0"); code != 200 || !strings.Contains(text, "-32009") {
		t.Errorf("another version by JSON-RPC = %d %s", code, text)
	}
	if code, text := post("/message:send", message, "A2A-Version", "0.3"); code != 400 || !strings.Contains(text, "VERSION_NOT_SUPPORTED") {
		t.Errorf("another version by HTTP+JSON = %d %s", code, text)
	}
	if code, text := post("/message:send", message, "A2A-Version", "1.0.1"); code != 200 {
		t.Errorf("a patch of the version = %d %s", code, text)
	}
	if code, text := post("/message:send", message, "Content-Type", "text/plain"); code != 415 {
		t.Errorf("another content type = %d %s", code, text)
	}
}

func TestTheCardIsCached(t *testing.T) {
	server := httptest.NewServer(&a2aapi.Handler{Host: &host{schema: promptSchema}})
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	tag := ""
	for _, want := range []int{200, 304} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+a2aapi.CardPath, nil)
		req.Header.Set("If-None-Match", tag)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if tag = res.Header.Get("ETag"); res.StatusCode != want || tag == "" || !strings.Contains(res.Header.Get("Cache-Control"), "max-age") {
			t.Errorf("%s, %v, want %d", res.Status, res.Header, want)
		}
	}
}

func TestPathsThatAreNotThere(t *testing.T) {
	server := httptest.NewServer(&a2aapi.Handler{Host: &host{schema: promptSchema}})
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	for path, want := range map[string]int{"/a2a/other": 404, "/a2a/other/.well-known/agent-card.json": 404, "/a2a/helper": 405,
		"/a2a/helper/.well-known/agent-card.json": 200, "/.well-known/agent-card.json": 200} {
		res, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("GET %s = %s: %s", path, res.Status, text)
		}
	}
}
