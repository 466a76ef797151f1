package mcpserver_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
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
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// A site is a server that listens.
type site struct {
	t    *testing.T
	url  string
	http *http.Client
	stop context.CancelFunc
	done chan error
}

// open serves s on the loopback, or on l.
func open(t *testing.T, s *mcpserver.Server, opts mcpserver.HTTPOptions, l net.Listener, dial func(context.Context, string, string) (net.Conn, error)) *site {
	t.Helper()
	if l == nil {
		var err error
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &site{t: t, url: "http://localhost" + mcpserver.Path, stop: stop, done: make(chan error, 1),
		http: &http.Client{Transport: &http.Transport{DialContext: dial}}}
	if dial == nil {
		w.url = "http://" + l.Addr().String() + mcpserver.Path
	}
	go func() { w.done <- s.ServeListener(ctx, l, opts) }()
	t.Cleanup(func() {
		stop()
		w.http.CloseIdleConnections()
		if err := <-w.done; err != nil {
			t.Errorf("ServeListener: %v", err)
		}
	})
	return w
}

// A sent is an HTTP request; a header of "" is left out.
type sent struct {
	method, path, body string
	header             map[string]string
}

// do sends a request as a client of 2025-11-25 does. It may be called in any goroutine.
func (w *site) do(ctx context.Context, q sent) *http.Response {
	w.t.Helper()
	q.method = cmp.Or(q.method, http.MethodPost)
	url := w.url
	if q.path != "" {
		url = strings.TrimSuffix(url, mcpserver.Path) + q.path
	}
	r, err := http.NewRequestWithContext(ctx, q.method, url, strings.NewReader(q.body))
	if err != nil {
		w.t.Error(err)
		return &http.Response{Body: http.NoBody}
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	for k, v := range q.header {
		switch {
		case k == "Host":
			r.Host = v
		case v == "":
			r.Header.Del(k)
		default:
			r.Header.Set(k, v)
		}
	}
	resp, err := w.http.Do(r)
	if err != nil {
		w.t.Error(err)
		return &http.Response{Body: http.NoBody}
	}
	return resp
}

// post sends a request and reads its whole answer.
func (w *site) post(q sent) (status int, body string, header http.Header) {
	w.t.Helper()
	resp := w.do(context.Background(), q)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Error(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// greet begins a session.
func (w *site) greet() map[string]string {
	w.t.Helper()
	status, body, header := w.post(sent{body: greeting})
	id := header.Get("Mcp-Session-Id")
	if status != http.StatusOK || id == "" {
		w.t.Fatalf("initialize: %d %s", status, body)
	}
	return map[string]string{"Mcp-Session-Id": id}
}

// An events is a stream of events.
type events struct {
	t    *testing.T
	body *bufio.Reader
}

// next is the next message of the stream.
func (e *events) next() reply {
	e.t.Helper()
	for {
		line, err := e.body.ReadString('\n')
		if err != nil {
			e.t.Fatalf("read the stream: %v", err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && data != "\n" {
			var r reply
			if err := json.Unmarshal([]byte(data), &r); err != nil {
				e.t.Fatalf("the server wrote %q: %v", data, err)
			}
			return r
		}
	}
}

func TestHTTPMistakes(t *testing.T) {
	const token = "a-token-of-24-characters"
	w := open(t, newServer(mcpserver.Options{}, newAgent("echo", echo)), mcpserver.HTTPOptions{Tokens: []string{"another-one", token}}, nil, nil)
	auth := map[string]string{"Authorization": "Bearer " + token}
	_, _, header := w.post(sent{body: greeting, header: auth})
	id := header.Get("Mcp-Session-Id")
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	long := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", mcpserver.MaxLine) + `"}}`
	tests := []struct {
		name   string
		q      sent
		status int
		want   string
	}{
		{"well done", sent{body: ping}, 200, `{"id":1,"jsonrpc":"2.0","result":{}}`},
		{"no token", sent{body: ping, header: map[string]string{"Authorization": ""}}, 401, "a bearer token of this server is needed"},
		{"another token", sent{body: ping, header: map[string]string{"Authorization": "Bearer x" + token}}, 401, "bearer token"},
		{"another scheme", sent{body: ping, header: map[string]string{"Authorization": "Basic " + token}}, 401, "bearer token"},
		{"session of another token", sent{body: ping, header: map[string]string{"Authorization": "Bearer another-one"}}, 404, "there is no such session"},
		{"host of another site", sent{body: ping, header: map[string]string{"Host": "evil.example.com"}}, 403, `the host \"evil.example.com\" is not this server's`},
		{"address of another machine", sent{body: ping, header: map[string]string{"Host": "192.0.2.1:80"}}, 403, "is not this server's"},
		{"localhost", sent{body: ping, header: map[string]string{"Host": "LocalHost.:99", "Origin": "http://[::1]:7"}}, 200, "result"},
		{"page of another site", sent{body: ping, header: map[string]string{"Origin": "https://evil.example.com"}}, 403, "may not call this server"},
		{"page without a site", sent{body: ping, header: map[string]string{"Origin": "null"}}, 403, "may not call this server"},
		{"another path", sent{path: "/other", body: ping}, 404, "the protocol is spoken at /mcp"},
		{"another method", sent{method: "PUT", body: ping}, 405, "the method is POST, GET or DELETE"},
		{"another content type", sent{body: ping, header: map[string]string{"Content-Type": "text/plain"}}, 415, "application/json"},
		{"answers as JSON alone", sent{body: ping, header: map[string]string{"Accept": "application/json"}}, 406, "text/event-stream"},
		{"answers of any kind", sent{body: ping, header: map[string]string{"Accept": "*/*"}}, 200, "result"},
		{"a stream as JSON", sent{method: "GET", header: map[string]string{"Accept": "application/json"}}, 406, "text/event-stream"},
		{"no session", sent{body: ping, header: map[string]string{"Mcp-Session-Id": ""}}, 400, "start a session with initialize"},
		{"unknown session", sent{body: ping, header: map[string]string{"Mcp-Session-Id": "x"}}, 404, "there is no such session"},
		{"stream of an unknown session", sent{method: "GET", header: map[string]string{"Mcp-Session-Id": "x"}}, 404, "there is no such session"},
		{"end of an unknown session", sent{method: "DELETE", header: map[string]string{"Mcp-Session-Id": "x"}}, 404, "there is no such session"},
		{"unknown version", sent{body: ping, header: map[string]string{"MCP-Protocol-Version": "2020-01-01"}}, 400, "2020-01-01 is not known here"},
		{"no JSON", sent{body: `{"jsonrpc":`}, 400, `"code":-32700`},
		{"nothing", sent{body: ""}, 400, "there is no message"},
		{"a batch", sent{body: "[" + ping + "]"}, 400, "batches are not supported"},
		{"no method", sent{body: `{"jsonrpc":"2.0","id":7}`}, 400, `"id":7`},
		{"too long", sent{body: long}, 413, "longer than 16777216 bytes"},
		{"unknown method", sent{body: `{"jsonrpc":"2.0","id":2,"method":"nope"}`}, 200, `"code":-32601`},
		{"unknown tool", sent{body: call("3", "nobody", "{}")}, 200, "unknown tool: nobody"},
		{"initialize with wrong parameters", sent{body: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":7}}`}, 400, `"error"`},
		{"notification", sent{body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`}, 202, ""},
		{"answer to nothing", sent{body: `{"jsonrpc":"2.0","id":"server-1","result":{}}`}, 202, ""},
		{"stream in 2026-07-28", sent{method: "GET", header: map[string]string{"MCP-Protocol-Version": "2026-07-28"}}, 405, "only POST"},
		{"2026-07-28 without _meta", sent{body: ping, header: map[string]string{"MCP-Protocol-Version": "2026-07-28"}}, 400, `"code":-32602`},
		{"2026-07-28 without its header", sent{body: `{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{` + modernMeta + `}}`}, 400, `"code":-32020`},
		{"2026-07-28 with another method in the header", sent{body: `{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{` + modernMeta + `}}`,
			header: map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}}, 400, `"code":-32020`},
		{"2026-07-28 with an unknown method", sent{body: `{"jsonrpc":"2.0","id":4,"method":"ping","params":{` + modernMeta + `}}`,
			header: map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "ping"}}, 404, `"code":-32601`},
		{"still well done", sent{body: ping}, 200, "result"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			header := map[string]string{"Authorization": "Bearer " + token, "Mcp-Session-Id": id}
			for k, v := range tt.q.header {
				header[k] = v
			}
			tt.q.header = header
			status, body, _ := w.post(tt.q)
			if status != tt.status || !strings.Contains(body, tt.want) || tt.want == "" && body != "" {
				t.Errorf("%d %.300s, want %d and %s", status, body, tt.status, tt.want)
			}
		})
	}
}

func TestHTTPSessionEnds(t *testing.T) {
	w := open(t, newServer(mcpserver.Options{}, newAgent("echo", echo)), mcpserver.HTTPOptions{MaxClients: 2}, nil, nil)
	ping := func(header map[string]string) int {
		status, _, _ := w.post(sent{body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, header: header})
		return status
	}
	first := w.greet()
	if status, body, _ := w.post(sent{method: "DELETE", header: first}); status != http.StatusNoContent || body != "" {
		t.Errorf("DELETE: %d %s", status, body)
	}
	if got := ping(first); got != http.StatusNotFound {
		t.Errorf("after the end of the session: %d, want 404", got)
	}
	a, b := w.greet(), w.greet()
	ping(a)
	c := w.greet() // the third of two
	if got := [...]int{ping(a), ping(b), ping(c)}; got != [...]int{200, 404, 200} {
		t.Errorf("of three sessions %v, want the one gone that was not used for the longest time", got)
	}
	streams := []*http.Response{w.do(t.Context(), sent{method: "GET", header: a}), w.do(t.Context(), sent{method: "GET", header: c})}
	if status, body, header := w.post(sent{body: greeting}); status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("a session more than are possible: %d %s", status, body)
	}
	for _, s := range streams {
		s.Body.Close()
	}
}

// TestHTTPLargeRequestsOfATokenKeepNobodyOut: a token has a share of the places for large
// requests, and one too many is answered at once.
func TestHTTPLargeRequestsOfATokenKeepNobodyOut(t *testing.T) {
	slow, started, _ := slowTool()
	s := hosted(mcpserver.Options{}, nil)
	s.SetTools([]agent.Tool{slow, newTool("quick", func(context.Context, *agent.Invocation) (agent.Result, error) {
		return agent.Result{Parts: []agent.Part{agent.Text("done")}}, nil
	})})
	w := open(t, s, mcpserver.HTTPOptions{Tokens: []string{"one", "two", "three", "four"}}, nil, nil) // two places each
	begin := func(token string) map[string]string {
		_, _, header := w.post(sent{body: greeting, header: map[string]string{"Authorization": "Bearer " + token}})
		return map[string]string{"Authorization": "Bearer " + token, "Mcp-Session-Id": header.Get("Mcp-Session-Id")}
	}
	one, two := begin("one"), begin("two")
	large := func(id int, tool string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}%s`, id, tool, strings.Repeat(" ", 1<<20))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var open sync.WaitGroup
	for i := range 2 {
		open.Go(func() {
			q, _ := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(large(i, "slow")))
			q.Header.Set("Content-Type", "application/json")
			for k, v := range one {
				q.Header.Set(k, v)
			}
			if answer, err := w.http.Do(q); err == nil {
				answer.Body.Close()
			}
		})
		<-started
	}
	if status, body, header := w.post(sent{body: large(9, "quick"), header: one}); status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("one too many: %d %.200s", status, body)
	}
	if status, body, _ := w.post(sent{body: large(9, "quick"), header: two}); status != http.StatusOK || !strings.Contains(body, "done") {
		t.Errorf("another token: %d %.200s", status, body)
	}
	cancel()
	open.Wait()
}

// TestHTTPSessionsBelongToTheirToken: a client ends no session of another token.
func TestHTTPSessionsBelongToTheirToken(t *testing.T) {
	opts := mcpserver.HTTPOptions{MaxClients: 4, Tokens: []string{"one", "two"}}
	w := open(t, newServer(mcpserver.Options{}, newAgent("echo", echo)), opts, nil, nil)
	begin := func(token string) map[string]string {
		_, _, header := w.post(sent{body: greeting, header: map[string]string{"Authorization": "Bearer " + token}})
		return map[string]string{"Authorization": "Bearer " + token, "Mcp-Session-Id": header.Get("Mcp-Session-Id")}
	}
	ping := func(header map[string]string) int {
		status, _, _ := w.post(sent{body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, header: header})
		return status
	}
	quiet := begin("one")
	var last map[string]string
	for range 8 {
		last = begin("two")
	}
	if got := [...]int{ping(quiet), ping(last)}; got != [...]int{200, 200} {
		t.Errorf("the session of one token and the last of another answer %v, want 200 both", got)
	}
}

// TestHTTPClientsWithoutATokenKeepNobodyOut: their connections are closed after the
// refusal, and are few before it.
func TestHTTPClientsWithoutATokenKeepNobodyOut(t *testing.T) {
	w := open(t, newServer(mcpserver.Options{}, newAgent("echo", echo)), mcpserver.HTTPOptions{Tokens: []string{"secret"}}, nil, nil)
	address := strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), mcpserver.Path)
	dial := func() net.Conn {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		return c
	}
	for header, want := range map[string]string{"X: y": "401", "Origin: https://example.org": "403"} {
		c := dial()
		fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\n%s\r\nContent-Length: 0\r\n\r\n", header)
		text, err := io.ReadAll(c) // until the server closes it
		if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 "+want) {
			t.Errorf("with %s the connection ended with %v and %q, want %s", header, err, text, want)
		}
	}
	authorised := map[string]string{"Authorization": "Bearer secret"}
	if status, _, _ := w.post(sent{body: greeting, header: authorised}); status != http.StatusOK {
		t.Errorf("with the token: %d", status)
	}
	first := dial()
	for range 70 {
		dial()
	}
	if _, err := first.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the oldest of 71 silent connections: %v, want it closed", err)
	}
	if status, _, _ := w.post(sent{body: greeting, header: authorised}); status != http.StatusOK {
		t.Errorf("with the token, beside silent connections: %d", status)
	}
}

func TestHTTPCallStreamsItsProgress(t *testing.T) {
	s := hosted(mcpserver.Options{}, nil)
	s.SetTools([]agent.Tool{newTool("work", func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
		inv.Progress("half way")
		return agent.TextResult("done"), nil
	})})
	w := open(t, s, mcpserver.HTTPOptions{}, nil, nil)
	header := w.greet()
	status, body, got := w.post(sent{body: call("1", "work", "{}"), header: header})
	if status != 200 || got.Get("Content-Type") != "application/json" || !strings.Contains(body, `"text":"done"`) {
		t.Errorf("a call without progress: %d %s %s", status, got.Get("Content-Type"), body)
	}
	status, body, got = w.post(sent{header: header, body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work","_meta":{"progressToken":"p"}}}`})
	if status != 200 || got.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("a call with progress: %d %s %s", status, got.Get("Content-Type"), body)
	}
	e := &events{t, bufio.NewReader(strings.NewReader(body))}
	for _, want := range []string{"mcp-client: calls work", "mcp-client: work: half way"} {
		if r := e.next(); r.Params.Message != want {
			t.Errorf("progress %+v, want %q", r, want)
		}
	}
	if r := e.next(); r.text() != "done" {
		t.Errorf("answer %+v", r)
	}
}

// slowTool waits for its end and says why it ended.
func slowTool() (t agent.Tool, started chan struct{}, ended chan string) {
	started, ended = make(chan struct{}, 8), make(chan string, 8)
	return newTool("slow", func(ctx context.Context, _ *agent.Invocation) (agent.Result, error) {
		started <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx).Error()
		return agent.Result{}, ctx.Err()
	}), started, ended
}

func TestHTTPCallEnds(t *testing.T) {
	body := call("1", "slow", "{}")
	tests := map[string]struct {
		modern bool
		end    func(w *site, header map[string]string, drop func())
		want   string // why
		status int    // 0: nobody reads it
		answer string
	}{
		"the client goes away":               {false, func(_ *site, _ map[string]string, drop func()) { drop() }, "the client closed the connection before the answer", 0, ""},
		"the client of 2026-07-28 goes away": {true, func(_ *site, _ map[string]string, drop func()) { drop() }, "the client closed the connection before the answer", 0, ""},
		"the client cancels it": {false, func(w *site, header map[string]string, _ func()) {
			w.post(sent{body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, header: header})
		}, "the client cancelled the call", 202, ""},
		"the session ends": {false, func(w *site, header map[string]string, _ func()) { w.post(sent{method: "DELETE", header: header}) },
			"the client closed the connection", 200, `"isError":true`},
		"the server ends": {false, func(w *site, _ map[string]string, _ func()) { w.stop() }, "the client closed the connection", 200, `"isError":true`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			slow, started, ended := slowTool()
			s := hosted(mcpserver.Options{Linger: time.Millisecond}, nil)
			s.SetTools([]agent.Tool{slow})
			w := open(t, s, mcpserver.HTTPOptions{}, nil, nil)
			header, body := w.greet(), body
			if tt.modern {
				header = map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "slow"}
				body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow",` + modernMeta + `}}`
			}
			ctx, drop := context.WithCancel(t.Context())
			defer drop()
			r, err := http.NewRequestWithContext(ctx, "POST", w.url, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			for k, v := range header {
				r.Header.Set(k, v)
			}
			type answer struct {
				status int
				body   string
			}
			answered := make(chan answer, 1)
			go func() {
				resp, err := w.http.Do(r)
				if err != nil {
					answered <- answer{}
					return
				}
				defer resp.Body.Close()
				text, _ := io.ReadAll(resp.Body)
				answered <- answer{resp.StatusCode, string(text)}
			}()
			<-started
			tt.end(w, header, drop)
			if got := <-ended; !strings.HasPrefix(got, tt.want) {
				t.Errorf("the tool was ended because %q, want %q", got, tt.want)
			}
			if got := <-answered; got.status != tt.status || !strings.Contains(got.body, tt.answer) {
				t.Errorf("answered %+v, want %d %q", got, tt.status, tt.answer)
			}
		})
	}
}

func TestHTTPServerLetsCallsEnd(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	s := hosted(mcpserver.Options{Linger: time.Hour}, nil)
	s.SetTools([]agent.Tool{newTool("work", func(context.Context, *agent.Invocation) (agent.Result, error) {
		close(started)
		<-release
		return agent.TextResult("done"), nil
	})})
	w := open(t, s, mcpserver.HTTPOptions{}, nil, nil)
	header := w.greet()
	stream := w.do(t.Context(), sent{method: "GET", header: header})
	defer stream.Body.Close()
	answered := make(chan string, 1)
	go func() {
		_, body, _ := w.post(sent{body: call("1", "work", "{}"), header: header})
		answered <- body
	}()
	<-started
	w.stop()
	if rest, err := io.ReadAll(stream.Body); err != nil || strings.Contains(string(rest), "data") {
		t.Errorf("the stream ended with %q, %v", rest, err)
	}
	close(release)
	if got := <-answered; !strings.Contains(got, "done") {
		t.Errorf("the call that ran: %s", got)
	}
}

func TestHTTPDuplicateIDIsRefused(t *testing.T) {
	slow, started, ended := slowTool()
	s := hosted(mcpserver.Options{}, nil)
	s.SetTools([]agent.Tool{slow})
	w := open(t, s, mcpserver.HTTPOptions{}, nil, nil)
	header, other := w.greet(), w.greet()
	for _, h := range []map[string]string{header, other} { // an id belongs to its session
		go w.post(sent{body: call("1", "slow", "{}"), header: h})
		<-started
	}
	if _, body, _ := w.post(sent{body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, header: header}); !strings.Contains(body, "not answered yet") {
		t.Errorf("second request with the id 1: %s", body)
	}
	for _, h := range []map[string]string{header, other} {
		w.post(sent{method: "DELETE", header: h})
		<-ended
	}
}

func TestHTTPStreamHearsOfChanges(t *testing.T) {
	s := hosted(mcpserver.Options{}, nil)
	s.SetTools([]agent.Tool{newTool("a", args)})
	w := open(t, s, mcpserver.HTTPOptions{MaxStreams: 2}, nil, nil)
	header := w.greet()
	first := w.do(t.Context(), sent{method: "GET", header: header})
	defer first.Body.Close()
	second := w.do(t.Context(), sent{method: "GET", header: header})
	defer second.Body.Close()
	if rest, err := io.ReadAll(first.Body); err != nil || strings.Contains(string(rest), "data") {
		t.Errorf("the first stream ended with %q, %v, want the second to take over", rest, err)
	}
	listen := w.do(t.Context(), sent{
		header: map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"},
		body:   `{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + modernMeta + `}}`,
	})
	defer listen.Body.Close()
	modern := &events{t, bufio.NewReader(listen.Body)}
	if r := modern.next(); r.Method != "notifications/subscriptions/acknowledged" {
		t.Fatalf("%+v", r)
	}
	if status, _, _ := w.post(sent{method: "GET", header: w.greet()}); status != http.StatusServiceUnavailable {
		t.Errorf("a stream more than are possible: %d, want 503", status)
	}
	s.SetTools([]agent.Tool{newTool("b", args)})
	legacy := &events{t, bufio.NewReader(second.Body)}
	if r := legacy.next(); r.Method != "notifications/tools/list_changed" || r.Params.Meta != nil {
		t.Errorf("%+v", r)
	}
	if r := modern.next(); r.Method != "notifications/tools/list_changed" || r.Params.Meta["io.modelcontextprotocol/subscriptionId"] != "sub" {
		t.Errorf("%+v", r)
	}
	w.stop()
	for {
		if r := modern.next(); r.Method == "" {
			break // the answer of the subscription comes last
		}
	}
}

// A memory is a listener without a network, for time that does not pass by itself.
type memory struct {
	conns chan net.Conn
	done  chan struct{}
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error {
	select {
	case <-m.done:
	default:
		close(m.done)
	}
	return nil
}

func (m *memory) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (m *memory) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	m.conns <- there
	return here, nil
}

func openInMemory(t *testing.T, s *mcpserver.Server) *site {
	m := &memory{conns: make(chan net.Conn), done: make(chan struct{})}
	return open(t, s, mcpserver.HTTPOptions{}, m, m.dial)
}

func TestHTTPSessionOfWhichNothingIsHeardEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openInMemory(t, newServer(mcpserver.Options{}, newAgent("echo", echo)))
		quiet, waiting := w.greet(), w.greet()
		stream := w.do(t.Context(), sent{method: "GET", header: waiting})
		defer stream.Body.Close()
		go io.Copy(io.Discard, stream.Body)
		time.Sleep(mcpserver.MaxIdle + mcpserver.MaxIdle/4)
		for want, header := range map[int]map[string]string{404: quiet, 200: waiting} {
			if status, body, _ := w.post(sent{body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, header: header}); status != want {
				t.Errorf("after %s: %d %s, want %d", mcpserver.MaxIdle, status, body, want)
			}
		}
		stream.Body.Close()
	})
}

func TestHTTPLongCallKeepsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosted(mcpserver.Options{}, nil)
		s.SetTools([]agent.Tool{newTool("long", func(context.Context, *agent.Invocation) (agent.Result, error) {
			time.Sleep(10 * time.Minute)
			return agent.TextResult("done"), nil
		})})
		w := openInMemory(t, s)
		_, body, header := w.post(sent{body: call("1", "long", "{}"), header: w.greet()})
		if header.Get("Content-Type") != "text/event-stream" || strings.Count(body, ":\n\n") < 30 {
			t.Errorf("%s %q, want a stream with comments", header.Get("Content-Type"), body)
		}
		if r := (&events{t, bufio.NewReader(strings.NewReader(body))}).next(); r.text() != "done" {
			t.Errorf("%+v", r)
		}
	})
}

// TestHTTPStreamIsResumed loses a connection in the middle of a call.
func TestHTTPStreamIsResumed(t *testing.T) {
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work","_meta":{"progressToken":"p"}}}`
	// begin makes a call, reads its first two reports, and closes the connection.
	begin := func(t *testing.T) (w *site, header map[string]string, proceed chan bool, ended chan error) {
		proceed, ended = make(chan bool), make(chan error, 1)
		s := hosted(mcpserver.Options{}, nil)
		s.SetTools([]agent.Tool{newTool("work", func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
			inv.Progress("one")
			select {
			case <-proceed:
			case <-ctx.Done():
			}
			ended <- context.Cause(ctx)
			inv.Progress("two")
			<-proceed
			return agent.TextResult("done"), nil
		})})
		w = openInMemory(t, s)
		header = w.greet()
		ctx, drop := context.WithCancel(t.Context())
		r := w.do(ctx, sent{body: body, header: header})
		e := &events{t, bufio.NewReader(r.Body)}
		if first, _ := e.body.ReadString('\n'); !strings.HasSuffix(first, "-0\n") {
			t.Errorf("the first line is %q, want the id of an event", first)
		}
		e.next()
		e.body.ReadString('\n') // the end of the event before
		id, _ := e.body.ReadString('\n')
		if got := e.next().Params.Message; got != "mcp-client: work: one" {
			t.Errorf("the second report is %q", got)
		}
		drop()
		synctest.Wait()
		header["Last-Event-ID"] = strings.TrimSpace(strings.TrimPrefix(id, "id: "))
		return w, header, proceed, ended
	}
	run := func(name string, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
	for _, answered := range []bool{false, true} {
		run(fmt.Sprint("answered before: ", answered), func(t *testing.T) {
			w, header, proceed, ended := begin(t)
			proceed <- true
			if err := <-ended; err != nil {
				t.Errorf("the call ended with its connection: %v", err)
			}
			if answered {
				proceed <- true
				synctest.Wait()
			}
			r := w.do(t.Context(), sent{method: "GET", header: header})
			defer r.Body.Close()
			e := &events{t, bufio.NewReader(r.Body)}
			if got := e.next().Params.Message; got != "mcp-client: work: two" {
				t.Errorf("after the connection was lost: %q", got)
			}
			if !answered {
				proceed <- true
			}
			if got := e.next(); got.text() != "done" {
				t.Errorf("the answer is %+v", got)
			}
			if rest, err := io.ReadAll(e.body); err != nil || strings.TrimSpace(string(rest)) != "" {
				t.Errorf("after the answer: %q, %v", rest, err)
			}
			if status, text, _ := w.post(sent{method: "GET", header: header}); status != 400 || !strings.Contains(text, "there is no stream") {
				t.Errorf("after the answer: %d %s", status, text)
			}
		})
	}
	run("nobody resumes it", func(t *testing.T) {
		_, _, proceed, ended := begin(t)
		began := time.Now()
		if err := <-ended; err == nil || err.Error() != "the client closed the connection before the answer" || time.Since(began) < 29*time.Second {
			t.Errorf("after %s the call ended because %v", time.Since(began), err)
		}
		close(proceed)
	})
	run("the session ends", func(t *testing.T) {
		w, header, proceed, ended := begin(t)
		w.post(sent{method: "DELETE", header: header})
		if err := <-ended; err == nil || !strings.HasPrefix(err.Error(), "the client closed the connection") {
			t.Errorf("the call ended because %v", err)
		}
		close(proceed)
	})
}

func TestHTTPClientThatDoesNotReadIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan string, 1)
		s := hosted(mcpserver.Options{}, nil)
		s.SetTools([]agent.Tool{newTool("chatty", func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
			inv.Progress("hello")
			<-ctx.Done()
			ended <- context.Cause(ctx).Error()
			return agent.Result{}, ctx.Err()
		})})
		m := &memory{conns: make(chan net.Conn), done: make(chan struct{})}
		w := open(t, s, mcpserver.HTTPOptions{}, m, m.dial)
		header := w.greet()
		conn, _ := m.dial(t.Context(), "", "")
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chatty","_meta":{"progressToken":1}}}`
		fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s",
			header["Mcp-Session-Id"], len(body), body)
		began := time.Now()
		if got := <-ended; got != "the client closed the connection before the answer" || time.Since(began) > time.Minute {
			t.Errorf("after %s the tool was ended because %q", time.Since(began), got)
		}
		conn.Close()
	})
}

// TestHTTPClientThatDoesNotReadKeepsNobodyWaiting: its session ends while an event is being
// written to it.
func TestHTTPClientThatDoesNotReadKeepsNobodyWaiting(t *testing.T) {
	s := hosted(mcpserver.Options{}, nil)
	s.SetTools([]agent.Tool{newTool("chatty", func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
		for ctx.Err() == nil {
			inv.Progress("hello")
			time.Sleep(time.Millisecond)
		}
		return agent.Result{}, ctx.Err()
	})})
	m := &memory{conns: make(chan net.Conn), done: make(chan struct{})}
	w := open(t, s, mcpserver.HTTPOptions{}, m, m.dial)
	header, other := w.greet(), w.greet()
	conn, _ := m.dial(t.Context(), "", "")
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chatty","_meta":{"progressToken":1}}}`
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s",
		header["Mcp-Session-Id"], len(body), body)
	if _, err := conn.Read(make([]byte, 16)); err != nil { // the stream has begun
		t.Fatal(err)
	}
	var ending sync.WaitGroup
	ending.Go(func() { w.do(context.Background(), sent{method: "DELETE", header: header}).Body.Close() })
	ping := func(header map[string]string) int {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		answer := w.do(ctx, sent{body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, header: header})
		answer.Body.Close()
		return answer.StatusCode
	}
	status := http.StatusOK
	for status == http.StatusOK {
		status = ping(header)
	}
	if got := [...]int{status, ping(other)}; got != [...]int{404, 200} {
		t.Errorf("the session that ends and another answer %v, want 404 and 200", got)
	}
	conn.Close()
	ending.Wait()
}

func TestHTTPLibraryClient(t *testing.T) {
	for _, version := range []string{"", mcp.ProtocolVersion20251125, mcp.ProtocolVersion20241105} {
		t.Run("version "+version, func(t *testing.T) {
			w := open(t, newServer(mcpserver.Options{Name: "agents", Version: "1"}, newAgent("echo", echo)), mcpserver.HTTPOptions{Tokens: []string{"secret"}}, nil, nil)
			var opts []client.ClientOption
			if version != "" {
				opts = append(opts, client.WithProtocolVersion(version))
			}
			over, err := transport.NewStreamableHTTP(w.url, transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer secret"}), transport.WithHTTPBasicClient(w.http))
			if err != nil {
				t.Fatal(err)
			}
			c := client.NewClient(over, opts...)
			ctx := t.Context()
			if err := c.Start(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Initialize(ctx, mcp.InitializeRequest{}); err != nil {
				t.Fatal(err)
			}
			request := mcp.CallToolRequest{}
			request.Params.Name, request.Params.Arguments = "echo", map[string]any{"prompt": "hello"}
			result, err := c.CallTool(ctx, request)
			if err != nil || result.IsError || result.Content[0].(mcp.TextContent).Text != "heard: hello" {
				t.Errorf("CallTool = %+v, %v", result, err)
			}
			want := version
			want = cmp.Or(want, mcp.LATEST_PROTOCOL_VERSION)
			if c.ProtocolVersion() != want {
				t.Errorf("spoken: %s, want %s", c.ProtocolVersion(), want)
			}
			c.Close()
		})
	}
}
