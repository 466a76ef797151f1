package serve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/serve"
)

// endless is the body of a request that never ends.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read.Add(int64(len(p)))
	return len(p), nil
}

// A body of 1 GB is refused after 16 MiB, whatever its length is said to be.
func TestBodyIsTooLarge(t *testing.T) {
	const size = 1 << 30
	var mu sync.Mutex
	var got []int64
	reader := func(serve.Host) http.Handler {
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
	m := serve.NewMetrics([]string{"clock"}, []string{"bash_count"}, []string{`a "model"`})
	for i := range 3 {
		session := fmt.Sprint("S", i)
		m.Observe(agent.Event{Kind: agent.EventRequest, Session: session, Agent: "clock", Model: `a "model"`})
		m.Observe(agent.Event{Kind: agent.EventRetry, Session: session, Agent: "clock"})
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
		`agents_model_retries_total{agent="clock"} 3`,
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
