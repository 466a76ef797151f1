package hosttest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/acp/acptest"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/edge/a2aapi"
	"github.com/agents-exe/agents/pkg/edge/acpserver"
	"github.com/agents-exe/agents/pkg/edge/mcpserver"
	"github.com/agents-exe/agents/pkg/edge/openaiapi"
	"github.com/agents-exe/agents/pkg/edge/serve"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/host/hosttest"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
	"github.com/agents-exe/agents/pkg/runner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEdges(t *testing.T) {
	edges := map[string]func(*testing.T, *host.Host) hosttest.Client{
		"In Go": inGo, "channel": overPipes, "WebSocket": overWebSocket, "OpenAI": openAI, "OpenAI over WebSocket": openAISocket, "A2A": a2a, "MCP": mcpStdio, "MCP over HTTP": mcpHTTP, "ACP": overACP,
	}
	for name, open := range edges {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			hosttest.Test(t, hosttest.Edge{Name: name, Open: func(t *testing.T, files map[string]string) hosttest.Client { return open(t, hosttest.Host(t, files)) }})
		})
	}
}

// TestTheManualHasTheTable compares docs/nesting.md with Table.
func TestTheManualHasTheTable(t *testing.T) {
	text, err := os.ReadFile("../../../docs/nesting.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := hosttest.Markdown(); !strings.Contains(string(text), want) {
		t.Errorf("docs/nesting.md does not have this table:\n%s", want)
	}
}

// received is what a client has read.
type received struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (r *received) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Write(p)
}

func (r *received) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.String()
}

// start is a request as the channel has it.
func start(q hosttest.Request) agent.Start {
	args, _ := json.Marshal(map[string]string{"prompt": q.Prompt}) // a string always encodes
	person := q.Approve != nil
	return agent.Start{Args: args, Media: q.Media, Session: q.Session, Context: q.Context, OutputSchema: q.Schema, Person: &person}
}

// A goClient is in the same program.
type goClient struct {
	h     *host.Host
	leave context.CancelFunc
	gone  context.Context
}

func inGo(t *testing.T, h *host.Host) hosttest.Client {
	c := &goClient{h: h}
	c.gone, c.leave = context.WithCancel(context.Background())
	t.Cleanup(c.leave)
	return c
}

func (c *goClient) Leave() { c.leave() }

func (c *goClient) Ask(ctx context.Context, q hosttest.Request) hosttest.Reply {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.gone, cancel)()
	run, err := c.h.Start(ctx, "helper", start(q))
	if err != nil {
		return hosttest.Reply{Failed: true, All: err.Error()}
	}
	var all received
	r := hosttest.Follow(q, func(yield func(agent.Event, error) bool) {
		for e := range run.Events() {
			text, _ := json.Marshal(e)
			_, _ = all.Write(text)
			if !yield(e, nil) {
				return
			}
		}
	}, run.Reply, run.Direct)
	out, err := run.Wait()
	if err != nil {
		_, _ = all.Write([]byte(err.Error()))
	}
	r.Answer, r.Session, r.All = out.Answer, out.Session, all.String()
	return r
}

// A channelClient holds a run over a connection, which dial opens.
type channelClient struct {
	dial func(ctx context.Context) (io.ReadWriteCloser, error)
	mu   sync.Mutex
	conn io.Closer
}

func (c *channelClient) Leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.conn.Close()
}

func (c *channelClient) Ask(ctx context.Context, q hosttest.Request) hosttest.Reply {
	conn, err := c.dial(ctx)
	if err != nil {
		return hosttest.Reply{Failed: true, All: err.Error()}
	}
	c.mu.Lock()
	c.conn = conn
	c.mu.Unlock()
	var all received
	run := channel.Open(io.TeeReader(conn, &all), conn, start(q))
	defer run.Close()
	defer context.AfterFunc(ctx, func() { _ = run.Cancel("enough") })()
	r := hosttest.Follow(q, run.Events(), func(id string, answer json.RawMessage) { _ = run.Reply(id, answer) }, func(d agent.Directive) { _ = run.Direct(d) })
	_ = conn.Close()
	r.All = all.String()
	return r
}

// A pipe is both ends of standard input and output.
type pipe struct {
	io.Reader
	io.WriteCloser
}

func overPipes(t *testing.T, h *host.Host) hosttest.Client {
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	return &channelClient{dial: func(context.Context) (io.ReadWriteCloser, error) {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		s := &channel.Server{In: in, Out: out, Start: func(ctx context.Context, start agent.Start) (*runner.Channel, error) {
			return h.Start(ctx, "helper", start)
		}}
		serving.Go(func() {
			_, _ = s.Serve(context.Background())
			_ = in.Close()
			_ = out.Close()
		})
		return pipe{fromServer, toServer}, nil
	}}
}

func overWebSocket(t *testing.T, h *host.Host) hosttest.Client {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve.New(serve.Options{Host: h, Detached: 1}).ServeListener(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Errorf("ServeListener: %v", err)
		}
	})
	return &channelClient{dial: func(context.Context) (io.ReadWriteCloser, error) {
		web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		conn, err := wsconn.Dial(context.Background(), "ws://"+l.Addr().String()+"/v1/agents/helper/channel", wsconn.Options{Client: web})
		if err != nil {
			return nil, err
		}
		return conn, nil
	}}
}

// An httpClient posts JSON.
type httpClient struct {
	t    *testing.T
	url  string
	web  *http.Client
	gone context.Context
	stop context.CancelFunc
	ask  func(ctx context.Context, c *httpClient, q hosttest.Request, all *received) hosttest.Reply
}

// serving serves a handler and returns a client that asks with a function.
func serving(t *testing.T, handler http.Handler, ask func(context.Context, *httpClient, hosttest.Request, *received) hosttest.Reply, ended ...func()) hosttest.Client {
	server := httptest.NewServer(handler)
	c := &httpClient{t: t, url: server.URL, web: &http.Client{Transport: &http.Transport{}}, ask: ask}
	c.gone, c.stop = context.WithCancel(context.Background())
	t.Cleanup(func() {
		c.stop()
		c.web.CloseIdleConnections()
		for _, f := range ended {
			f()
		}
		server.Close()
	})
	return c
}

func (c *httpClient) Leave() { c.stop() }

func (c *httpClient) Ask(ctx context.Context, q hosttest.Request) hosttest.Reply {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.gone, cancel)()
	var all received
	r := c.ask(ctx, c, q, &all)
	r.All = all.String()
	return r
}

// post sends a request, and yields the data of each event of its stream, or its whole body.
func (c *httpClient) post(ctx context.Context, path, body string, header http.Header, all *received) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, strings.NewReader(body))
		if err != nil {
			c.t.Error(err)
			return
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		for k := range header {
			req.Header.Set(k, header.Get(k))
		}
		res, err := c.web.Do(req)
		if err != nil {
			if ctx.Err() == nil {
				c.t.Error(err)
			}
			return
		}
		defer res.Body.Close()
		for k := range res.Header {
			if header != nil && strings.EqualFold(k, "Mcp-Session-Id") {
				header.Set(k, res.Header.Get(k))
			}
		}
		text := io.TeeReader(res.Body, all)
		if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
			whole, _ := io.ReadAll(text)
			yield(whole)
			return
		}
		for lines := bufio.NewReader(text); ; {
			line, err := lines.ReadBytes('\n')
			if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && len(bytes.TrimSpace(data)) > 0 && !yield(bytes.TrimSpace(data)) || err != nil {
				return
			}
		}
	}
}

// decode reads a message of a server.
func decode[T any](t *testing.T, text []byte) (v T) {
	if err := json.Unmarshal(text, &v); err != nil {
		t.Errorf("the server sent %q: %v", text, err)
	}
	return v
}

func openAI(t *testing.T, h *host.Host) hosttest.Client {
	api := &openaiapi.Handler{Host: h, Linger: 1}
	return serving(t, api, askOpenAI, api.Close)
}

func askOpenAI(ctx context.Context, c *httpClient, q hosttest.Request, all *received) (r hosttest.Reply) {
	content := []map[string]any{{"type": "text", "text": q.Prompt}}
	for _, p := range q.Media {
		content = append(content, map[string]any{"type": "image_url", "image_url": map[string]string{"url": "data:" + p.MIME + ";base64," + base64.StdEncoding.EncodeToString(p.Data)}})
	}
	body := map[string]any{"model": "helper", "stream": true, "stream_options": map[string]bool{"include_usage": true}, "messages": []map[string]any{{"role": "user", "content": content}}}
	if q.Schema != nil {
		body["response_format"] = map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "answer", "schema": q.Schema, "strict": true}}
	}
	text, _ := json.Marshal(body) // plain values
	for data := range c.post(ctx, "/v1/chat/completions", string(text), nil, all) {
		if string(data) == "[DONE]" {
			break
		}
		chunk := decode[struct {
			Choices []struct{ Delta struct{ Content string } }
			Usage   *struct {
				Prompt     int `json:"prompt_tokens"`
				Completion int `json:"completion_tokens"`
			}
			Agents *struct {
				Status  agent.Status
				Session string
			}
			Error json.RawMessage
		}](c.t, data)
		for _, choice := range chunk.Choices {
			r.Answer += choice.Delta.Content
		}
		if chunk.Usage != nil {
			r.Usage.InputTokens, r.Usage.OutputTokens = chunk.Usage.Prompt, chunk.Usage.Completion
		}
		if chunk.Agents != nil {
			r.Status, r.Session = chunk.Agents.Status, chunk.Agents.Session
		}
		r.Failed = r.Failed || chunk.Error != nil
	}
	r.Failed = r.Failed || r.Status != agent.StatusOK && r.Status != ""
	return r
}

func openAISocket(t *testing.T, h *host.Host) hosttest.Client {
	api := &openaiapi.Handler{Host: h, Linger: 1}
	return serving(t, api, askSocket, api.Close)
}

func askSocket(ctx context.Context, c *httpClient, q hosttest.Request, all *received) (r hosttest.Reply) {
	conn, err := wsconn.Dial(context.Background(), c.url+"/v1/responses", wsconn.Options{Client: c.web})
	if err != nil {
		c.t.Error(err)
		return r
	}
	defer conn.Abort()
	defer context.AfterFunc(ctx, conn.Abort)()
	content := []map[string]any{{"type": "input_text", "text": q.Prompt}}
	for _, p := range q.Media {
		content = append(content, map[string]any{"type": "input_image", "image_url": "data:" + p.MIME + ";base64," + base64.StdEncoding.EncodeToString(p.Data)})
	}
	body := map[string]any{"type": "response.create", "model": "helper", "store": false, "input": []map[string]any{{"role": "user", "content": content}}}
	if q.Schema != nil {
		body["text"] = map[string]any{"format": map[string]any{"type": "json_schema", "name": "answer", "schema": q.Schema}}
	}
	text, _ := json.Marshal(body) // plain values
	if err := conn.Send(ctx, text); err != nil && ctx.Err() == nil {
		c.t.Error(err)
	}
	for {
		text, err := conn.Receive(context.Background())
		if err != nil {
			if ctx.Err() == nil {
				c.t.Error(err)
			}
			r.Failed = true
			return r
		}
		_, _ = all.Write(text)
		e := decode[struct {
			Type, Delta string
			Response    struct {
				Usage struct {
					Input  int `json:"input_tokens"`
					Output int `json:"output_tokens"`
				}
				Agents struct {
					Status  agent.Status
					Session string
				}
			}
		}](c.t, text)
		switch e.Type {
		case "response.output_text.delta":
			r.Answer += e.Delta
		case "error", "response.failed":
			r.Failed = true
			return r
		case "response.completed", "response.incomplete":
			r.Usage.InputTokens, r.Usage.OutputTokens = e.Response.Usage.Input, e.Response.Usage.Output
			r.Status, r.Session = e.Response.Agents.Status, e.Response.Agents.Session
			r.Failed = r.Status != agent.StatusOK
			return r
		}
	}
}

func a2a(t *testing.T, h *host.Host) hosttest.Client {
	api := &a2aapi.Handler{Host: h}
	return serving(t, api, askA2A, api.Close)
}

// A task is what of a task its updates say.
type task struct {
	ID        string
	ContextID string `json:"contextId"`
	TaskID    string `json:"taskId"`
	Append    bool
	Status    struct {
		State   string
		Message *struct{ Parts []struct{ Text string } }
	}
	Artifact struct{ Parts []struct{ Text string } }
	Metadata map[string]json.RawMessage
}

func askA2A(ctx context.Context, c *httpClient, q hosttest.Request, all *received) (r hosttest.Reply) {
	parts := []map[string]any{{"text": q.Prompt}}
	for _, p := range q.Media {
		parts = append(parts, map[string]any{"raw": p.Data, "mediaType": p.MIME})
	}
	message := map[string]any{"messageId": "1", "role": "ROLE_USER", "parts": parts}
	if q.Session != "" {
		message["contextId"] = q.Session
	}
	text, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": map[string]any{"message": message}}) // plain values
	header := http.Header{"A2a-Version": {"1.0"}, "A2a-Extensions": {"https://github.com/agents-exe/agents/blob/main/docs/a2a.md#usage"}}
	path := a2aapi.Path + "helper"
	id := make(chan string, 1)
	known := sync.OnceFunc(func() { close(id) })
	defer known()
	cancelled := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cancelled)
		if c.gone.Err() != nil {
			return
		}
		if task := <-id; task != "" {
			for range c.post(context.Background(), path, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"CancelTask","params":{"id":%q}}`, task), header, &received{}) {
			}
		}
	})
	defer func() {
		if !stop() {
			known()
			<-cancelled
		}
	}()
	for data := range c.post(c.gone, path, string(text), header, all) {
		m := decode[struct {
			Error  json.RawMessage
			Result struct {
				Task, StatusUpdate, ArtifactUpdate *task
			}
		}](c.t, data)
		r.Failed = r.Failed || m.Error != nil
		if u := m.Result.Task; u != nil {
			select {
			case id <- u.ID:
			default:
			}
			r.Session = u.ContextID
		}
		if u := m.Result.ArtifactUpdate; u != nil {
			if !u.Append {
				r.Answer = ""
			}
			for _, p := range u.Artifact.Parts {
				r.Answer += p.Text
			}
		}
		if u := m.Result.StatusUpdate; u != nil {
			r.Failed = r.Failed || u.Status.State == "TASK_STATE_FAILED"
			if u.Status.State == "TASK_STATE_WORKING" && u.Status.Message != nil && q.Started != nil {
				q.Started()
			}
			if s, ok := u.Metadata["status"]; ok {
				_ = json.Unmarshal(s, &r.Status)
			}
			for name, value := range u.Metadata {
				if strings.Contains(name, "usage") {
					_ = json.Unmarshal(value, &r.Usage)
				}
			}
		}
	}
	return r
}

// served returns a server of MCP with the agents of h.
func served(h *host.Host) *mcpserver.Server {
	s := mcpserver.New(mcpserver.Options{Start: h.Start, Hide: h.Hide, Linger: 1})
	var list []mcpserver.Agent
	for _, a := range h.Offers {
		list = append(list, mcpserver.Agent(a))
	}
	s.SetAgents(list)
	return s
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`

// toolCall is the request for a call of the agent.
func toolCall(id int, q hosttest.Request) string {
	args := map[string]string{"prompt": q.Prompt}
	if q.Session != "" {
		args["session"] = q.Session
	}
	text, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": map[string]any{"name": "helper", "arguments": args, "_meta": map[string]any{"progressToken": "p"}}}) // plain values
	return string(text)
}

// mcpReply takes a message of a server. done is true for the response to a call.
func mcpReply(t *testing.T, q hosttest.Request, text []byte, r *hosttest.Reply) (done bool) {
	m := decode[struct {
		Method string
		Error  json.RawMessage
		Result *struct {
			IsError bool
			Content []struct {
				Text        string
				Annotations *struct{ Audience []string }
			}
			Meta struct {
				Session string       `json:"agents-exe/session"`
				Status  agent.Status `json:"agents-exe/status"`
				Usage   agent.Usage  `json:"agents-exe/usage"`
			} `json:"_meta"`
		}
	}](t, text)
	if m.Method == "notifications/progress" && q.Started != nil {
		q.Started()
	}
	if m.Result == nil && m.Error == nil {
		return false
	}
	if r.Failed = m.Error != nil || m.Result.IsError; m.Result == nil {
		return true
	}
	for _, c := range m.Result.Content {
		if c.Annotations == nil {
			r.Answer += c.Text
		}
	}
	r.Session, r.Status, r.Usage = m.Result.Meta.Session, m.Result.Meta.Status, m.Result.Meta.Usage
	return true
}

// A stdioClient speaks MCP over pipes.
type stdioClient struct {
	t   *testing.T
	in  *io.PipeWriter
	out *bufio.Reader
	all received
	n   int
}

func mcpStdio(t *testing.T, h *host.Host) hosttest.Client {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = served(h).Serve(context.Background(), in, out)
		_ = in.Close()
		_ = out.Close()
	}()
	c := &stdioClient{t: t, in: toServer}
	c.out = bufio.NewReader(io.TeeReader(fromServer, &c.all))
	t.Cleanup(func() { c.Leave(); _ = fromServer.Close(); <-done })
	c.send(initialize)
	_, _ = c.out.ReadString('\n')
	return c
}

func (c *stdioClient) Leave() { _ = c.in.Close() }

func (c *stdioClient) send(line string) { _, _ = io.WriteString(c.in, line+"\n") }

func (c *stdioClient) Ask(ctx context.Context, q hosttest.Request) (r hosttest.Reply) {
	c.n++
	c.send(toolCall(c.n, q))
	cancelled := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cancelled)
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, c.n))
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"after-%d","method":"ping"}`, c.n)) // a cancelled request has no response
	})
	defer func() {
		if !stop() {
			<-cancelled
		}
	}()
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil || mcpReply(c.t, q, line, &r) {
			r.All = c.all.String()
			return r
		}
	}
}

func mcpHTTP(t *testing.T, h *host.Host) hosttest.Client {
	ctx, end := context.WithCancel(context.Background())
	handler, stop := served(h).Handler(ctx)
	return serving(t, handler, askMCP, func() { end(); stop() })
}

func askMCP(ctx context.Context, c *httpClient, q hosttest.Request, all *received) (r hosttest.Reply) {
	header := http.Header{"Mcp-Session-Id": {""}}
	header.Del("Mcp-Session-Id")
	for range c.post(context.Background(), mcpserver.Path, initialize, header, all) {
	}
	cancelled := make(chan struct{})
	ended, end := context.WithCancel(context.Background())
	defer end()
	stop := context.AfterFunc(ctx, func() {
		defer close(cancelled)
		for range c.post(context.Background(), mcpserver.Path, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, header, &received{}) {
		}
		end()
	})
	defer func() {
		if !stop() {
			<-cancelled
		}
	}()
	for data := range c.post(ended, mcpserver.Path, toolCall(1, q), header, all) {
		if mcpReply(c.t, q, data, &r) {
			break
		}
	}
	return r
}

// An editor speaks ACP over pipes.
type editor struct {
	t    *testing.T
	in   *io.PipeWriter
	conn *acp.Conn
	all  received

	mu    sync.Mutex
	asked hosttest.Request // the request in progress
	said  strings.Builder
}

func overACP(t *testing.T, h *host.Host) hosttest.Client {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	c := &editor{t: t, in: toServer}
	check, err := acptest.New(func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	c.conn = acp.NewConn(io.TeeReader(fromServer, io.MultiWriter(check.Ours(), &c.all)), io.MultiWriter(check.Theirs(), toServer))
	c.conn.Notify, c.conn.Request = c.update, c.permission
	s := &acpserver.Server{Open: func(_ context.Context, o acpserver.Opening) (*acpserver.Session, error) {
		answer := func(ctx context.Context, q agent.Event) (json.RawMessage, error) {
			scope, _, err := o.Client.Approve(ctx, q, []string{"yes"})
			return json.RawMessage(map[bool]string{true: `"allow"`, false: `"deny"`}[scope == "yes"]), err
		}
		return &acpserver.Session{Wait: h.Wait, Answer: answer, Hide: h.Hide, Close: func() {},
			Start: func(ctx context.Context, s agent.Start, watch func(agent.Event)) (*runner.Channel, error) {
				options := host.Options{Observe: watch}
				if s.Session == "" {
					options.ID = o.ID
				}
				return h.Run(ctx, "helper", s, options)
			}}, nil
	}}
	var serving sync.WaitGroup
	serving.Go(func() {
		_ = s.Serve(context.Background(), in, out)
		_ = in.Close()
		_ = out.Close()
	})
	serving.Go(func() { _ = c.conn.Serve(context.Background()) })
	t.Cleanup(func() { c.Leave(); serving.Wait() })
	return c
}

func (c *editor) Leave() { _ = c.in.Close() }

func (c *editor) update(_ string, params json.RawMessage) {
	u := decode[acp.Notification](c.t, params).Update
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case u.Kind == acp.AgentChunk:
		c.said.WriteString(*decode[acp.Block](c.t, u.Content).Text)
	case u.Kind == acp.ToolCall && c.asked.Started != nil:
		c.asked.Started()
	}
}

func (c *editor) permission(_ string, params json.RawMessage) acp.Answer {
	return acp.With(params, func(_ context.Context, r *acp.PermissionRequest) (any, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.asked.Approve(r.ToolCall.Title) {
			return acp.Choose("yes"), nil
		}
		return acp.Choose("no"), nil
	})
}

func (c *editor) Ask(ctx context.Context, q hosttest.Request) (r hosttest.Reply) {
	defer func() { r.All = c.all.String() }()
	if r.Session = q.Session; r.Session == "" {
		var opened acp.SessionResponse
		if err := c.conn.Call(context.Background(), acp.MethodNew, acp.SessionRequest{CWD: c.t.TempDir(), MCPServers: []acp.MCPServer{}}, &opened); err != nil {
			return hosttest.Reply{Failed: true}
		}
		r.Session = opened.SessionID
	}
	p := acp.PromptRequest{SessionID: r.Session, Prompt: []acp.Block{*acp.TextBlock(q.Prompt)}}
	for _, m := range q.Media {
		p.Prompt = append(p.Prompt, acp.Block{Type: "image", MIMEType: m.MIME, Data: base64.StdEncoding.EncodeToString(m.Data)})
	}
	c.mu.Lock()
	c.asked = q
	c.said.Reset()
	c.mu.Unlock()
	defer context.AfterFunc(ctx, func() { _ = c.conn.Send(acp.MethodCancel, acp.SessionID{SessionID: r.Session}) })()
	var answer acp.PromptResponse
	err := c.conn.Call(context.Background(), acp.MethodPrompt, p, &answer)
	if ctx.Err() != nil && answer.StopReason != acp.Cancelled {
		c.t.Errorf("a prompt that was cancelled: %+v, %v", answer, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Answer, r.Failed = c.said.String(), err != nil || answer.StopReason != acp.EndTurn
	if u := answer.Usage; u != nil {
		r.Usage.InputTokens, r.Usage.OutputTokens = u.Input, u.Output
	}
	return r
}

// TestACompactionHasNoSecret: what the client gets is the encoded conversation of the run.
func TestACompactionHasNoSecret(t *testing.T) {
	h := hosttest.Host(t, map[string]string{
		"keys.json":   fmt.Sprintf(`{"keys":[{"id":"test","value":%q}]}`, hosttest.Secret),
		"agent.json":  `{"tag":"OpenAIAgentDescription","contents":{"slug":"helper","flavor":"scripted","script":"script.json"}}`,
		"script.json": `{"rules":[{"answer":{"text":"the key is ` + hosttest.Secret + `"}}]}`,
	})
	api := &openaiapi.Handler{Host: h, Linger: 1}
	c := serving(t, api, askOpenAI, api.Close).(*httpClient)
	var items []byte
	for text := range c.post(t.Context(), "/v1/responses/compact", `{"model":"helper","input":[{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user","content":"three"}]}`, nil, &received{}) {
		r := decode[struct {
			Output []struct {
				Content string `json:"encrypted_content"`
			}
		}](t, text)
		if len(r.Output) == 1 {
			_, encoded, _ := strings.Cut(r.Output[0].Content, ".")
			items, _ = base64.StdEncoding.DecodeString(encoded)
		}
	}
	if !strings.Contains(string(items), "the key is [secret]") || strings.Contains(string(items), hosttest.Secret) {
		t.Errorf("the client has %s", items)
	}
}
