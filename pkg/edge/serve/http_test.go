package serve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/serve"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/runner"
)

// endless is the body of a request that never ends.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read.Add(int64(len(p)))
	return len(p), nil
}

// A body with too many values is refused while it is read, for every protocol.
func TestBodyHasTooManyValues(t *testing.T) {
	reader := func(runner.Starter) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			if many := (*jsondoc.MeterError)(nil); errors.As(err, &many) {
				w.WriteHeader(many.StatusCode())
			}
		})
	}
	s := start(t, serve.Options{Host: &host{agents: map[string]agent.Provider{}}, Mounts: []serve.Mount{{Pattern: "POST /read", New: reader}}})
	for n, want := range map[int]int{jsondoc.MaxContainers - 2: 200, jsondoc.MaxContainers: 413} {
		res, err := http.Post("http://"+s.addr+"/read", "application/json", strings.NewReader("["+strings.Repeat("{},", n)+"{}]"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%d objects: status %d, want %d", n, res.StatusCode, want)
		}
	}
}

// A handler whose last write nobody gets is told so by its flush.
func TestFlushToAClientThatIsGone(t *testing.T) {
	flushed := make(chan error, 1)
	mount := func(runner.Starter) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			_, _ = io.WriteString(w, "a reply")
			flushed <- http.NewResponseController(w).Flush()
		})
	}
	s := start(t, serve.Options{Host: &host{agents: map[string]agent.Provider{}}, Mounts: []serve.Mount{{Pattern: "GET /late", New: mount}}})
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "GET /late HTTP/1.1\r\nHost: %s\r\n\r\n", s.addr)
	_ = c.(*net.TCPConn).SetLinger(0) // the connection is reset
	c.Close()
	if err := <-flushed; err == nil {
		t.Error("the flush has no error")
	}
}

// Without a token, a body says what it is: a page of another site can send one that does not,
// and the browser asks nobody.
func TestBodyWithoutAType(t *testing.T) {
	reader := func(runner.Starter) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	}
	for _, c := range []struct {
		name, token, kind, body string
		want                    int
	}{
		{"no token", "", "", "{}", 415},
		{"no token, with a type", "", "application/json", "{}", 200},
		{"no token, without a body", "", "", "", 200},
		{"token", "a-token-of-a-client", "", "{}", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := serve.Options{Host: &host{agents: map[string]agent.Provider{}}, Mounts: []serve.Mount{{Pattern: "POST /read", New: reader}}}
			if c.token != "" {
				o.Tokens = []serve.Token{{Name: "a", Secret: c.token}}
			}
			s := start(t, o)
			for _, chunked := range []bool{false, true} {
				q, err := http.NewRequest("POST", "http://"+s.addr+"/read", strings.NewReader(c.body))
				if err != nil {
					t.Fatal(err)
				}
				if chunked && c.body != "" {
					q.ContentLength = -1
				}
				q.Header.Set("Authorization", "Bearer "+c.token)
				if c.kind != "" {
					q.Header.Set("Content-Type", c.kind)
				}
				res, err := http.DefaultClient.Do(q)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if res.StatusCode != c.want {
					t.Errorf("chunked %v: status %d, want %d", chunked, res.StatusCode, c.want)
				}
			}
		})
	}
}

// A body of 1 GB is refused after 16 MiB, whatever its length is said to be.
func TestBodyIsTooLarge(t *testing.T) {
	const size = 1 << 30
	var mu sync.Mutex
	var got []int64
	reader := func(runner.Starter) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			mu.Lock()
			defer mu.Unlock()
			got = append(got, n)
			if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
			}
		})
	}
	s := start(t, serve.Options{Host: &host{agents: map[string]agent.Provider{}}, Mounts: []serve.Mount{{Pattern: "POST /read", New: reader}}})
	for _, length := range []int64{size, -1} {
		body := &endless{}
		q, err := http.NewRequest("POST", "http://"+s.addr+"/read", io.LimitReader(body, size))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		q.ContentLength = length
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := c.Do(q)
		if err == nil { // else the connection was closed while the body was sent
			res.Body.Close()
			if res.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("a body of length %d: status %d", length, res.StatusCode)
			}
		}
		if n := body.read.Load(); n > 100<<20 {
			t.Errorf("of a body of length %d, %d bytes were sent", length, n)
		}
	}
	s.stop()
	for _, n := range got {
		if n > 16<<20 {
			t.Errorf("the handler read %d bytes", n)
		}
	}
	if len(got) != 2 {
		t.Errorf("%d requests were handled", len(got))
	}
}

// Pages of other sites, and other names of this machine, cannot use the server.
func TestOrigins(t *testing.T) {
	s := start(t, serve.Options{Host: &host{agents: map[string]agent.Provider{"clock": model(hello)}}, Origins: []string{"https://agents.example"},
		Tokens: []serve.Token{{Name: "a", Secret: "token-of-a-page"}}})
	for _, tt := range []struct {
		method, host, origin, token string
		status                      int
		allowed                     bool
	}{
		{"GET", "", "", "token-of-a-page", 200, false},
		{"GET", "", "http://127.0.0.1:8000", "token-of-a-page", 200, true},
		{"GET", "", "https://agents.example", "token-of-a-page", 200, true},
		{"GET", "agents.example", "https://agents.example", "token-of-a-page", 200, true},
		{"OPTIONS", "", "https://agents.example", "", 204, true},
		{"GET", "", "https://agents.example", "", 401, true},
		{"GET", "", "https://evil.example", "token-of-a-page", 403, false},
		{"OPTIONS", "", "https://evil.example", "", 403, false},
		{"GET", "", "null", "token-of-a-page", 403, false},
		{"GET", "evil.example", "", "token-of-a-page", 403, false},
	} {
		header := http.Header{}
		if tt.origin != "" {
			header.Set("Origin", tt.origin)
		}
		if tt.host != "" {
			header.Set("Host", tt.host)
		}
		res, text := s.do(tt.method, "/v1/agents", tt.token, header)
		if res.StatusCode != tt.status || (res.Header.Get("Access-Control-Allow-Origin") != "") != tt.allowed {
			t.Errorf("%s of %q at %q: %d, allowed for %q: %s", tt.method, tt.origin, tt.host, res.StatusCode, res.Header.Get("Access-Control-Allow-Origin"), text)
		}
	}
}

// The metrics are valid, name what happened, and have no labels that clients choose.
func TestMetrics(t *testing.T) {
	m := serve.NewMetrics([]string{"clock"}, []string{"bash_count"}, []string{"first", `a "model"`})
	for i := range 3 {
		session := fmt.Sprint("S", i)
		m.Observe(agent.Event{Kind: agent.EventRequest, Session: session, Agent: "clock", Model: "first"})
		m.Observe(agent.Event{Kind: agent.EventRetry, Session: session, Agent: "clock"})
		m.Observe(agent.Event{Kind: agent.EventRetry, Session: session, Agent: "clock", Fallback: "fast", Model: `a "model"`})
		m.Observe(agent.Event{Kind: agent.EventAnswer, Session: session, Agent: "clock", Model: "a-model-20260101", Millis: 700, Usage: &agent.Usage{Requests: 1, InputTokens: 10, OutputTokens: 3, Cost: agent.Dollar / 4, Priced: 1}})
		m.Observe(agent.Event{Kind: agent.EventCallEnded, Session: session, Agent: "clock", Tool: "bash_count", Millis: 20, Result: &agent.ToolResult{Failed: i == 0}})
		m.Observe(agent.Event{Kind: agent.EventCallEnded, Session: session, Agent: "clock", Tool: fmt.Sprint("client-tool-", i), Result: &agent.ToolResult{}})
		m.Observe(agent.Event{Kind: agent.EventEnd, Session: session, Agent: "clock", Status: agent.StatusOK, Millis: 2000})
	}
	m.Observe(agent.Event{Kind: agent.EventFailure, Session: "T", Agent: "stranger"})
	s := start(t, serve.Options{Host: &host{agents: map[string]agent.Provider{}}, Metrics: m})
	res, text := s.get("/metrics", "")
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Errorf("the type is %s", res.Header.Get("Content-Type"))
	}
	for _, line := range []string{
		`agents_runs_total{agent="clock",status="ok"} 3`,
		`agents_run_seconds_bucket{agent="clock",le="1"} 0`,
		`agents_run_seconds_bucket{agent="clock",le="5"} 3`,
		`agents_run_seconds_bucket{agent="clock",le="+Inf"} 3`,
		`agents_run_seconds_sum{agent="clock"} 6`,
		`agents_turns_total{agent="clock",model="a \"model\""} 3`,
		`agents_model_retries_total{agent="clock"} 6`,
		`agents_model_errors_total{agent="other"} 1`,
		`agents_tokens_total{agent="clock",model="a \"model\"",kind="input"} 30`,
		`agents_cost_dollars_total{agent="clock",model="a \"model\""} 0.75`,
		`agents_tool_calls_total{agent="clock",tool="bash_count",status="failed"} 1`,
		`agents_tool_calls_total{agent="clock",tool="bash_count",status="ok"} 2`,
		`agents_tool_calls_total{agent="clock",tool="other",status="ok"} 3`,
		`agents_runs_in_progress 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("the metrics have no line %s", line)
		}
	}
	if strings.Contains(text, "client-tool") || strings.Contains(text, "stranger") || strings.Contains(text, "2026") {
		t.Error("a name that is not known is a label")
	}
	if t.Failed() {
		t.Log(text)
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: apt-get install prometheus")
	}
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("promtool check metrics: %v: %s", err, out)
	}
}

// A thousand clients at once are served without an error; with the race detector, which
// makes them slow, two hundred.
func TestThousandClients(t *testing.T) {
	n := 1000
	if raceDetector {
		n = 200
	}
	pieces := model(func(_ context.Context, _ *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
		for range 5 {
			delta(agent.Delta{Kind: agent.DeltaText, Text: "piece"})
		}
		return says("done"), nil
	})
	s := start(t, serve.Options{Host: &host{agents: map[string]agent.Provider{"clock": pieces}}, Runs: 100, Queue: n})
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c, err := s.tryDial("clock", "")
			if err != nil {
				errs[i] = err
				return
			}
			c.ctx = t.Context()
			if errs[i] = c.conn.Send(c.ctx, fmt.Appendf(nil, begin, "")); errs[i] != nil {
				return
			}
			for seq := int64(1); ; seq++ {
				e, err := c.tryNext()
				if err != nil || e.Seq != seq || e.Kind == agent.EventEnd {
					if err != nil || e.Seq != seq || e.Text != "done" {
						errs[i] = fmt.Errorf("event %d is %+v: %w", seq, e, err)
					}
					break
				}
			}
			_ = c.conn.Close() // the server closes it too
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("%.1000s", err)
	}
}

// There are only so many connections, and those that are closed do not count.
func TestConnections(t *testing.T) {
	s := start(t, serve.Options{Host: &host{agents: map[string]agent.Provider{"clock": model(hello)}}, Connections: 2, Tokens: []serve.Token{{Name: "a", Secret: "token-of-a"}}})
	first, second := s.dial("clock", "token-of-a"), s.dial("clock", "token-of-a")
	res, text := s.get("/v1/agents", "token-of-a")
	if res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "too many connections are open") || res.Header.Get("Retry-After") == "" {
		t.Errorf("a third connection: %d %s", res.StatusCode, text)
	}
	first.conn.Abort()
	second.conn.Abort()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if res, _ := s.get("/v1/agents", "token-of-a"); res.StatusCode == 200 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("closed connections still count")
		}
	}
}

// No path, with a token or without, keeps a connection for a body that trickles.
func TestBodyThatTricklesIsClosed(t *testing.T) {
	reader := func(runner.Starter) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			w.WriteHeader(http.StatusBadRequest)
		})
	}
	s := start(t, serve.Options{Host: &host{}, BodyTime: 50 * time.Millisecond, Tokens: []serve.Token{{Name: "a", Secret: "token"}}, Mounts: []serve.Mount{{Pattern: "POST /read", New: reader}}})
	for _, request := range []string{"POST /read", "GET /healthz", "GET /v1/agents", "GET /v1/runs", "POST /nothing", "GET /v1/agents/clock/channel"} {
		for _, token := range []string{"token", "none"} {
			t.Run(request+" "+token, func(t *testing.T) {
				c, err := net.Dial("tcp", s.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n", request, token)
				closed := make(chan struct{})
				go func() { defer close(closed); _, _ = io.Copy(io.Discard, c) }()
				for late := time.After(20 * time.Second); ; {
					select {
					case <-closed:
						return
					case <-late:
						t.Fatal("the connection is still open")
					case <-time.After(20 * time.Millisecond):
						_, _ = io.WriteString(c, "x")
					}
				}
			})
		}
	}
}

// panics is a host whose first runs panic, at their start or in the model.
type panics struct {
	host
	mu    sync.Mutex
	first bool
}

func (p *panics) Start(ctx context.Context, slug string, s agent.Start) (*runner.Channel, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.first {
		p.first = true
		panic("the start")
	}
	return p.host.Start(ctx, slug, s)
}

// A panic in one request or run ends it with a report; the server, its places and the other
// runs stay.
func TestAPanicEndsOneRequest(t *testing.T) {
	var mu sync.Mutex
	var said string
	report := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		said += text
	}
	n := 0
	h := &panics{host: host{agents: map[string]agent.Provider{"clock": model(func(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
		if n++; n == 1 {
			panic("the model")
		}
		return hello(ctx, req, delta)
	})}, set: func(r *runner.Runner) { r.Panicked = report }}}
	s := start(t, serve.Options{Host: h, Runs: 1, Warn: report, Mounts: []serve.Mount{{Pattern: "GET /mount", New: func(runner.Starter) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("the mount") })
	}}}})
	if res, err := http.Get("http://" + s.addr + "/mount"); err == nil {
		res.Body.Close()
		t.Errorf("GET /mount: %s", res.Status)
	}
	for _, want := range []agent.Status{agent.StatusFailed, agent.StatusFailed, agent.StatusOK} {
		c := s.dial("clock", "")
		c.send(begin, "")
		events := c.until(agent.EventEnd)
		if end := events[len(events)-1]; end.Status != want {
			t.Errorf("the run ends with %s: %s, want %s", end.Status, end.Error, want)
		}
		c.code()
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"the mount", "the start", "the model"} {
		if !strings.Contains(said, "internal error: "+want+"\n") {
			t.Errorf("no report of %s in: %s", want, said)
		}
	}
}
