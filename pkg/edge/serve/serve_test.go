package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/serve"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
	"github.com/agents-exe/agents/pkg/runner"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A host has agents without models: each run does what its function says.
type host struct {
	mu     sync.Mutex
	n      int
	agents map[string]agent.Provider
	watch  func(agent.Event)
	set    func(*runner.Runner)
	starts []agent.Start
}

func (h *host) Agents() []agent.ToolSpec {
	var list []agent.ToolSpec
	for _, name := range []string{"clock", "secret"} {
		if h.agents[name] != nil {
			list = append(list, (&agent.Subagent{Name: name, Agent: &agent.Agent{Slug: name, Announce: "agent " + name}}).Spec())
		}
	}
	return list
}

func (h *host) Start(ctx context.Context, slug string, s agent.Start) (*runner.Channel, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	h.starts = append(h.starts, s)
	id := fmt.Sprintf("S%d", h.n)
	r := &runner.Runner{Agent: &agent.Agent{Slug: slug, Provider: h.agents[slug]}, NewID: func() string { return id }, Observe: h.watch}
	if h.set != nil {
		h.set(r)
	}
	return r.Start(ctx, s), nil
}

// A model answers with what a function says.
type model func(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error)

func (m model) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	return m(ctx, req, delta)
}

func says(text string) *agent.Response {
	return &agent.Response{Message: agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(text)}}, Finish: agent.FinishStop, Usage: agent.Usage{Requests: 1, InputTokens: 5, OutputTokens: 2}}
}

func asks(tool, args string) *agent.Response {
	return &agent.Response{Message: agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "a", Name: tool, Args: args}}}, Finish: agent.FinishStop}
}

// hello answers at once.
func hello(context.Context, *agent.Request, func(agent.Delta)) (*agent.Response, error) {
	return says("hello"), nil
}

// A running server is one of a test.
type running struct {
	t    *testing.T
	addr string
	stop func()
}

// start starts a server, which ends with the test.
func start(t *testing.T, o serve.Options) *running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	s := serve.New(o)
	go func() { done <- s.ServeListener(ctx, l) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Errorf("ServeListener: %v", err)
		}
	})
	t.Cleanup(stop)
	return &running{t, l.Addr().String(), stop}
}

// get returns the answer to a GET request.
func (r *running) get(path, token string) (*http.Response, string) {
	r.t.Helper()
	return r.do("GET", path, token, nil)
}

func (r *running) do(method, path, token string, header http.Header) (*http.Response, string) {
	r.t.Helper()
	q, err := http.NewRequest(method, "http://"+r.addr+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for key := range header {
		q.Header.Set(key, header.Get(key))
	}
	if host := header.Get("Host"); host != "" {
		q.Host = host
	}
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := res.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return res, b.String()
		}
	}
}

// A client is a connection to a channel.
type client struct {
	t    *testing.T
	conn *wsconn.Conn
	ctx  context.Context
}

func (r *running) dial(slug, token string) *client {
	r.t.Helper()
	c, err := r.tryDial(slug, token)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *running) tryDial(slug, token string) (*client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	r.t.Cleanup(cancel)
	transport := &http.Transport{DisableKeepAlives: true}
	conn, err := wsconn.Dial(ctx, "ws://"+r.addr+"/v1/agents/"+slug+"/channel", wsconn.Options{Token: token, Client: &http.Client{Transport: transport}})
	if err != nil {
		return nil, err
	}
	r.t.Cleanup(conn.Abort)
	return &client{r.t, conn, ctx}, nil
}

func (c *client) send(format string, args ...any) {
	c.t.Helper()
	if err := c.conn.Send(c.ctx, fmt.Appendf(nil, format, args...)); err != nil {
		c.t.Fatal(err)
	}
}

// next returns the next event.
func (c *client) next() agent.Event {
	c.t.Helper()
	text, err := c.conn.Receive(c.ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	var e agent.Event
	if err := json.Unmarshal(text, &e); err != nil {
		c.t.Fatal(err)
	}
	return e
}

// tryNext is next in other goroutines.
func (c *client) tryNext() (e agent.Event, err error) {
	text, err := c.conn.Receive(c.ctx)
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	return e, err
}

// until returns the events up to the first of a kind.
func (c *client) until(kind agent.EventKind) []agent.Event {
	c.t.Helper()
	var list []agent.Event
	for {
		e := c.next()
		list = append(list, e)
		if e.Kind == kind && e.Depth == 0 {
			return list
		}
	}
}

// code returns with which code the server closes the connection.
func (c *client) code() wsconn.Code {
	for {
		switch _, err := c.conn.Receive(c.ctx); {
		case err == io.EOF:
			return wsconn.Normal
		case err != nil:
			return wsconn.CodeOf(err)
		}
	}
}

const begin = `{"kind":"start","channel":1,"args":{"prompt":"go"}%s}`

func numbers(t *testing.T, events []agent.Event, first int64) {
	t.Helper()
	for i, e := range events {
		if e.Seq != first+int64(i) {
			t.Errorf("event %d has the number %d: %v", first+int64(i), e.Seq, e.Kind)
		}
	}
}

func TestChannelRunsAnAgentWithToolsOfTheClient(t *testing.T) {
	clock := func(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
		if len(req.Messages) == 1 {
			return asks("now", "{}"), nil
		}
		return says("It is " + req.Messages[2].Results[0].Parts[0].Text), nil
	}
	s := start(t, serve.Options{Host: &host{agents: map[string]agent.Provider{"clock": model(clock)}}})
	c := s.dial("clock", "")
	c.send(begin, `,"tools":[{"name":"now","description":"The time.","schema":{"type":"object"}}]`)
	events := c.until(agent.EventClientCall)
	c.send(`{"kind":"result","key":%q,"parts":[{"kind":"text","text":"noon"}]}`, events[len(events)-1].Key)
	events = append(events, c.until(agent.EventEnd)...)
	numbers(t, events, 1)
	if end := events[len(events)-1]; end.Status != agent.StatusOK || end.Text != "It is noon" {
		t.Errorf("the end is %s %q %q", end.Status, end.Text, end.Error)
	}
	if code := c.code(); code != wsconn.Normal {
		t.Errorf("the connection is closed with %d", code)
	}
}

func TestTokensHaveAgents(t *testing.T) {
	h := &host{agents: map[string]agent.Provider{"clock": model(hello), "secret": model(hello)}}
	s := start(t, serve.Options{Host: h, Metrics: serve.NewMetrics(nil, nil, nil), Tokens: []serve.Token{
		{Name: "all", Secret: "token-for-everything"},
		{Name: "some", Secret: "token-for-the-clock", Agents: []string{"clock"}, Limited: true},
		{Name: "prometheus", Secret: "token-for-metrics", Limited: true, Metrics: true},
	}})
	for _, tt := range []struct {
		path, token string
		status      int
		text        string
	}{
		{"/healthz", "", 200, "ok"},
		{"/v1/agents", "", 401, "a bearer token of this server is needed"},
		{"/v1/agents", "token-for-everythinG", 401, "a bearer token of this server is needed"},
		{"/v1/agents", "token-for-everything", 200, "secret"},
		{"/v1/agents", "token-for-the-clock", 200, `{"agents":[{"name":"clock","description":"agent clock","schema":{`},
		{"/v1/agents/secret/channel", "token-for-the-clock", 403, `this token is not for the agent \"secret\"`},
		{"/v1/agents/none/channel", "token-for-the-clock", 403, `this token is not for the agent \"none\"`},
		{"/v1/agents/none/channel", "token-for-everything", 404, `there is no agent \"none\"`},
		{"/metrics", "token-for-the-clock", 403, "this token is not for the metrics"},
		{"/metrics", "token-for-metrics", 200, "agents_runs_in_progress 0"},
		{"/metrics", "token-for-everything", 200, "agents_connections "},
		{"/v1/agents", "token-for-metrics", 200, `{"agents":[]}`},
		{"/v1/none", "token-for-everything", 404, ""},
	} {
		res, text := s.get(tt.path, tt.token)
		if res.StatusCode != tt.status || !strings.Contains(text, tt.text) || tt.token == "token-for-the-clock" && strings.Contains(text, "agent secret") {
			t.Errorf("GET %s with %q: %d %s, want %d %s", tt.path, tt.token, res.StatusCode, text, tt.status, tt.text)
		}
	}
	{
		c := s.dial("secret", "token-for-everything")
		c.send(begin, "")
		if end := c.until(agent.EventEnd); end[len(end)-1].Text != "hello" {
			t.Errorf("the end is %+v", end)
		}
	}
}
