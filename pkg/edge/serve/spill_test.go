package serve_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/serve"
)

// The events of runs whose clients have gone need no more memory than one token may use,
// and are whole when the clients come back.
func TestEventsOfAbsentClientsAreBoundedInMemory(t *testing.T) {
	const runs, size = 12, 1 << 19
	g := gate(make(chan string))
	var ended sync.WaitGroup
	h := &host{agents: map[string]agent.Provider{"clock": g}, watch: func(e agent.Event) {
		if e.Kind == agent.EventEnd {
			ended.Done()
		}
	}}
	s := start(t, serve.Options{Host: h, Memory: 2 * size})
	before := heap()
	var sessions []string
	for i := range runs {
		ended.Add(1)
		c := s.dial("clock", "")
		c.send(`{"kind":"start","channel":1,"args":{"prompt":"%d %s"}}`, i, strings.Repeat("x", size))
		sessions = append(sessions, c.until(agent.EventRequest)[0].Session)
		c.conn.Abort()
	}
	close(g)
	ended.Wait()
	h.starts = nil
	if used := heap() - before; used > runs*size/2 {
		t.Errorf("%d runs with prompts of %d bytes use %d bytes of memory", runs, size, used)
	}
	for i, session := range sessions {
		c := s.dial("clock", "")
		c.send(`{"kind":"start","channel":1,"session":%q,"from":0}`, session)
		events := c.until(agent.EventEnd)
		numbers(t, events, 1)
		for _, e := range events {
			if e.Kind == agent.EventMessage && e.Message.Text() != fmt.Sprintf("%d %s", i, strings.Repeat("x", size)) {
				t.Errorf("session %s: the prompt has %d bytes, and begins with %.10q", session, len(e.Message.Text()), e.Message.Text())
			}
		}
		c.code()
	}
}

func heap() int {
	runtime.GC()
	runtime.GC() // what was pooled
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A client that comes back with the number of an event that is not there is refused, and
// nothing runs for it.
func TestARefusedReconnectStartsNothing(t *testing.T) {
	h := &resumed{host{agents: map[string]agent.Provider{"clock": model(hello)}}}
	s := start(t, serve.Options{Host: h, Journal: func(_ context.Context, _, session string) ([]agent.Event, error) {
		return []agent.Event{{Kind: agent.EventSession, Session: session}, {Kind: agent.EventMessage, Session: session}}, nil
	}})
	c := s.dial("clock", "")
	c.send(begin, `,"session":"left","from":9007199254740991`)
	if end := c.until(agent.EventEnd); !strings.Contains(end[0].Error, "the run has no event 9007199254740991 yet") {
		t.Errorf("a client with an event that is not there gets %+v", end)
	}
	if h.n != 0 {
		t.Errorf("%d runs were started", h.n)
	}
	c = s.dial("clock", "")
	c.send(begin, `,"session":"left","from":1`)
	if events := c.until(agent.EventEnd); events[len(events)-1].Status != agent.StatusOK || h.n != 1 {
		t.Errorf("a client with an earlier event gets %+v after %d runs", events, h.n)
	}
}
