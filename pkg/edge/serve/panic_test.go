package serve_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/serve"
	"github.com/agents-exe/agents/pkg/runner"
)

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
	s := start(t, serve.Options{Host: h, Runs: 1, Warn: report, Mounts: []serve.Mount{{Pattern: "GET /mount", New: func(serve.Host) http.Handler {
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
